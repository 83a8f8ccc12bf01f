from collections.abc import Callable
from pathlib import Path

import pytest

from forklift.errors import SetupError
from forklift.settings import read_forges

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to_file(text: str) -> Path:
        path = tmp_path / "forges.toml"
        path.write_text(text)
        path.chmod(0o600)
        return path

    return to_file


def complaint(path: Path) -> str:
    with pytest.raises(SetupError) as caught:
        read_forges(path)
    message = caught.value.message
    assert "tok-hidden" not in message
    assert len(message.splitlines()) == 1
    return message


def test_no_file_means_no_forges(tmp_path: Path) -> None:
    assert read_forges(tmp_path / "forges.toml") == ()


def test_reads_hosts_kinds_addresses_and_tokens(write: Write, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("tok-from-file\n")
    (tmp_path / "token").chmod(0o600)
    first, second, third = read_forges(
        write(
            "[[forge]]\nhost = 'Git.Example.org:8443'\nkind = 'gitea'\n"
            "url = 'http://git.internal:3000/'\ntoken = 'tok-inline'\n"
            "[[forge]]\nhost = 'code.example'\nkind = 'gitlab'\ntoken_file = 'token'\n"
            "[[forge]]\nhost = 'ghe.example'\nkind = 'github'\n"
        )
    )
    assert (first.host, first.kind) == ("git.example.org:8443", "gitea")
    assert first.url == "http://git.internal:3000"
    assert first.token is not None
    assert first.token.reveal() == "tok-inline"
    assert second.token is not None
    assert second.token.reveal() == "tok-from-file"
    assert third.token is None
    assert "tok-" not in repr((first, second))


def test_refuses_a_file_that_others_can_read(write: Write) -> None:
    path = write("")
    path.chmod(0o644)
    assert f"run: chmod 600 {path}" in complaint(path)


def test_refuses_a_token_file_that_others_can_read(write: Write, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("tok-hidden")
    (tmp_path / "token").chmod(0o644)
    path = write("[[forge]]\nhost = 'h'\nkind = 'gitea'\ntoken_file = 'token'\n")
    assert f"run: chmod 600 {tmp_path / 'token'}" in complaint(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("host = 'h'", "unknown key 'host'"),
        ("[[forges]]", "unknown key 'forges'; did you mean 'forge'?"),
        ("[forge]\nhost = 'h'", "two brackets"),
        ("forge = [1]", "not a table"),
        ("[[forge]]\nhost = 'h'", "[[forge]] number 1: kind is missing"),
        ("[[forge]]\nkind = 'gitea'", "host is missing"),
        ("[[forge]]\nhost='a'\nkind='g'\n[[forge]]\nhost='b'\nknd='g'", "number 2: unknown key"),
        ("[[forge]]\nhost='b'\nknd='g'", "did you mean 'kind'?"),
        ("[[forge]]\nhost = 'https://h'\nkind = 'g'", "without https://"),
        ("[[forge]]\nhost = 'a b'\nkind = 'g'", "host must be a host name"),
        ("[[forge]]\nhost = 1\nkind = 'g'", "host must be a string in quotes"),
        ("[[forge]]\nhost = 'h'\nkind = 'g'\nurl = 'https://u:tok-hidden@h'", "user name or pass"),
        ("[[forge]]\nhost = 'h'\nkind = 'g'\ntoken = 'tok-hidden x'", "token holds a space"),
        ("[[forge]]\nhost = 'h'\nkind = 'g'\ntoken = ['tok-hidden']", "token must be a string"),
        ("[[forge]]\nhost='h'\nkind='g'\ntoken='tok-hidden'\ntoken_file='t'", "keep one"),
        ("[[forge]]\nhost='h'\nkind='g'\ntoken_file='nowhere'", "which does not exist"),
        ("[[forge]]\nhost='h'\nkind='g'\n[[forge]]\nhost='H'\nkind='g'", "h has two [[forge]]"),
        ("[[forge]]\ntoken = tok-hidden", "not valid TOML"),
        ("[[forge]]\ntoken = 'tok-hidden", "at end of document"),
        ("x = " + "[" * 50_000, "nested too deeply"),
    ],
)
def test_names_the_entry_and_the_key_and_never_a_token(write: Write, text: str, words: str) -> None:
    path = write(text)
    message = complaint(path)
    assert words in message
    assert str(path) in message
