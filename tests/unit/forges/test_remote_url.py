"""What a remote's URL says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forklift.forges.locate import parse_remote


@pytest.mark.parametrize(
    ("url", "read"),
    [
        ("https://github.com/owner/name.git", "github.com/owner/name"),
        ("https://github.com/owner/name", "github.com/owner/name"),
        ("https://github.com/owner/name.git/", "github.com/owner/name"),
        ("https://github.com:443/owner/name", "github.com/owner/name"),
        ("https://GitHub.com/Owner/Name", "github.com/Owner/Name"),
        ("https://user:secret@git.example.org/owner/name.git", "git.example.org/owner/name"),
        ("http://git.example.org:3000/owner/name.git", "git.example.org:3000/owner/name"),
        ("https://gitlab.com/group/sub/group/name.git", "gitlab.com/group/sub/group/name"),
        ("ssh://git@git.example.org:2222/owner/name.git", "git.example.org/owner/name"),
        ("ssh://git@ssh.github.com:443/owner/name.git", "github.com/owner/name"),
        ("git@github.com:owner/name.git", "github.com/owner/name"),
        ("git@gitlab.com:group/sub/name.git", "gitlab.com/group/sub/name"),
        ("github.com:owner/name", "github.com/owner/name"),
        ("git@github.com:/owner/name.git", "github.com/owner/name"),
        ("git@[::1]:owner/name.git", "[::1]/owner/name"),
        ("git://git.example.org/owner/name.git", "git.example.org/owner/name"),
        ("https://github.com/owner/na%20me", "github.com/owner/na me"),
    ],
)
def test_a_remote_on_a_forge_is_read_in_every_spelling(url: str, read: str) -> None:
    assert str(parse_remote(url)) == read


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/srv/git/name.git",
        "../name",
        "./owner:name/x",
        "name.git",
        "file:///srv/git/owner/name.git",
        "C:/srv/owner/name",
        "c:owner/name",
        "ext::sh -c 'id' owner/name",
        "ext::sh",
        "fd::17/owner/name",
        "https://github.com/",
        "https://github.com/name",
        "https://github.com/owner/..",
        "https://github.com/owner/%2e%2e/name",
        "https://github.com/owner%2Fname",
        "https://github.com/owner/.git",
        "https://github.com/owner/name?x=1",
        "https://github.com:port/owner/name",
        "https://[::1/owner/name",
        "https:///owner/name",
        "https://github.com/owner/na\nme",
        "git@github.com:owner/na me",
        "git@github.com:name",
        "ftp://github.com/owner/name",
    ],
)
def test_what_is_no_repository_on_a_forge_is_none(url: str) -> None:
    assert parse_remote(url) is None


@given(st.text())
def test_no_text_is_too_odd_to_be_read_or_refused(text: str) -> None:
    repository = parse_remote(text)
    if repository is not None:
        assert ".." not in str(repository).split("/")
        assert "@" not in repository.host
