"""Which forge a remote is on, and whose token goes there."""

from collections.abc import Mapping, Sequence

import pytest

from forklift.core.secret import Secret
from forklift.errors import SetupError
from forklift.forges.locate import ForgeEntry, locate

GITHUB = "git@github.com:owner/name.git"
OWN = "https://git.example.org/owner/name.git"


def found(
    url: str,
    environ: Mapping[str, str] | None = None,
    entries: Sequence[ForgeEntry] = (),
    gh: Mapping[str, str] | None = None,
) -> tuple[str, str, str, str] | None:
    """Kind, API address, repository and token."""
    located = locate(url, environ or {}, entries, (gh or {}).get)
    if located is None:
        return None
    kind, address = located
    return kind, address.api_url, str(address.repository), address.token.reveal()


def test_an_entry_of_forges_toml_comes_before_everything() -> None:
    entry = ForgeEntry("github.com", "gitea", Secret("mine"), "https://proxy.example.org/api/v1")

    assert found(GITHUB, {"GH_TOKEN": "other"}, [entry]) == (
        "gitea",
        "https://proxy.example.org/api/v1",
        "github.com/owner/name",
        "mine",
    )


@pytest.mark.parametrize(
    ("kind", "api_url"),
    [
        ("gitea", "https://git.example.org/api/v1"),
        ("github", "https://git.example.org/api/v3"),
        ("gitlab", "https://git.example.org/api/v4"),
    ],
)
def test_an_entry_without_an_api_address_gets_its_kinds_own(kind: str, api_url: str) -> None:
    entry = ForgeEntry("git.example.org", kind, Secret("mine"))

    for url in (OWN, "git@git.example.org:owner/name.git"):
        assert found(url, entries=[entry]) == (kind, api_url, "git.example.org/owner/name", "mine")


def test_ghs_own_variables_are_read_in_ghs_order() -> None:
    both = {"GH_TOKEN": "first", "GITHUB_TOKEN": "second"}
    kept = {"github.com": "kept"}

    assert _token(found(GITHUB, both, gh=kept)) == "first"
    assert _token(found(GITHUB, {"GITHUB_TOKEN": "second"}, gh=kept)) == "second"
    assert _token(found(GITHUB, {"GH_TOKEN": ""}, gh=kept)) == "kept"
    assert found(GITHUB) is None


def test_github_is_asked_at_its_api_host() -> None:
    located = found("https://github.com/owner/name", {"GH_TOKEN": "mine"})

    assert located == ("github", "https://api.github.com", "github.com/owner/name", "mine")


def test_a_company_on_githubs_own_cloud_is_asked_at_its_own_host() -> None:
    located = found("https://acme.ghe.com/owner/name", {"GH_TOKEN": "mine"})

    assert located is not None
    assert located[1] == "https://api.acme.ghe.com"


def test_an_enterprise_servers_token_needs_its_host_named() -> None:
    own = {"GH_ENTERPRISE_TOKEN": "mine", "GH_TOKEN": "for github.com"}

    assert found(OWN, own) is None
    assert found(OWN, {**own, "GH_HOST": "git.example.org"}) == (
        "github",
        "https://git.example.org/api/v3",
        "git.example.org/owner/name",
        "mine",
    )
    assert _token(found(OWN, {"GH_HOST": "git.example.org"}, gh={"git.example.org": "k"})) == "k"


def test_gh_is_not_asked_about_hosts_that_are_not_githubs() -> None:
    asked: list[str] = []

    def gh_token(host: str) -> str | None:
        asked.append(host)
        return "for every host"

    assert locate(OWN, {}, [], gh_token) is None
    assert asked == []


def test_gitlabs_token_is_for_gitlab_com_unless_another_host_is_named() -> None:
    url = "git@gitlab.com:group/sub/name.git"
    own = "https://gitlab.example.org/group/name.git"
    named = {"GITLAB_TOKEN": "mine", "GITLAB_HOST": "https://gitlab.example.org"}

    assert found(url, {"GITLAB_TOKEN": "mine"}) == (
        "gitlab",
        "https://gitlab.com/api/v4",
        "gitlab.com/group/sub/name",
        "mine",
    )
    assert found(url, named) is None
    assert found(own, {"GITLAB_TOKEN": "mine"}) is None
    located = found(own, named)
    assert located is not None
    assert located[1] == "https://gitlab.example.org/api/v4"


@pytest.mark.parametrize("variable", ["GITEA_URL", "GITEA_SERVER_URL"])
def test_giteas_token_goes_to_the_server_that_is_named_with_it(variable: str) -> None:
    environ = {"GITEA_TOKEN": "mine", variable: "https://git.example.org/"}

    assert found(OWN, environ) == (
        "gitea",
        "https://git.example.org/api/v1",
        "git.example.org/owner/name",
        "mine",
    )
    assert found("https://codeberg.org/owner/name", environ) is None
    assert found(OWN, {"GITEA_TOKEN": "mine"}) is None


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com.evil.example/owner/name",
        "https://evil.example/github.com/name",
        "https://github.com@evil.example/owner/name",
        "https://notgithub.com/owner/name",
        "https://github.com:8443/owner/name",
        "https://ghe.com/owner/name",
    ],
)
def test_a_host_that_only_resembles_gets_no_token(url: str) -> None:
    environ = {"GH_TOKEN": "mine", "GITLAB_TOKEN": "mine", "GITEA_TOKEN": "mine"}

    assert found(url, environ, gh={"github.com": "kept"}) is None


def test_another_port_is_another_server() -> None:
    entry = ForgeEntry("git.example.org", "gitea", Secret("mine"))

    assert found("https://git.example.org:8443/owner/name", entries=[entry]) is None
    assert found("https://git.example.org:443/owner/name", entries=[entry]) is not None
    assert found("ssh://git@git.example.org:2222/owner/name", entries=[entry]) is not None


def test_an_ssh_remote_is_asked_on_the_web_port_of_its_entry() -> None:
    entry = ForgeEntry("git.example.org:3000", "gitea", Secret("mine"))

    located = found("ssh://git@git.example.org:2222/owner/name", entries=[entry])

    assert located is not None
    assert located[1] == "https://git.example.org:3000/api/v1"


def test_a_token_goes_over_clear_text_only_where_the_remote_does() -> None:
    entry = ForgeEntry("git.example.org:3000", "gitea", Secret("mine"))
    for url, scheme in (
        ("http://git.example.org:3000/owner/name", "http"),
        ("https://git.example.org:3000/owner/name", "https"),
        ("git@git.example.org:owner/name", "https"),
    ):
        located = found(url, entries=[entry])
        assert located is not None
        assert located[1] == f"{scheme}://git.example.org:3000/api/v1"


def test_the_public_forges_are_asked_over_tls_even_for_a_clear_text_remote() -> None:
    environ = {"GH_TOKEN": "mine", "GITLAB_TOKEN": "mine"}
    for host, api_url in (
        ("github.com", "https://api.github.com"),
        ("gitlab.com", "https://gitlab.com/api/v4"),
    ):
        located = found(f"http://{host}/owner/name", environ)
        assert located is not None
        assert located[1] == api_url


def test_a_forge_below_a_path_is_asked_there() -> None:
    environ = {"GITEA_TOKEN": "mine", "GITEA_URL": "https://example.org/git"}

    located = found("https://example.org/git/owner/name.git", environ)

    assert located == ("gitea", "https://example.org/git/api/v1", "example.org/owner/name", "mine")


@pytest.mark.parametrize("api_url", ["git.example.org/api/v1", "file:///x", "https://me@h/api"])
def test_an_api_address_that_is_none_is_refused(api_url: str) -> None:
    entry = ForgeEntry("git.example.org", "gitea", Secret("mine"), api_url)

    with pytest.raises(SetupError, match=r"API address of git\.example\.org"):
        found(OWN, entries=[entry])


def test_an_entry_without_a_token_is_no_forge() -> None:
    assert found(OWN, entries=[ForgeEntry("git.example.org", "gitea", Secret(""))]) is None


def test_a_path_has_no_forge() -> None:
    assert found("/srv/git/owner/name.git", {"GH_TOKEN": "mine"}) is None


def _token(located: tuple[str, str, str, str] | None) -> str:
    assert located is not None
    return located[3]
