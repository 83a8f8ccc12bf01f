"""What an agent can put where the host reads: links, pipes, devices, floods, escapes."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forklift.errors import UnsafeOutput
from forklift.stores.untrusted import exists_safely, read_text

SECRET = "host secret"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "host-secret").write_text(SECRET)
    (tmp_path / "host-directory").mkdir()
    (tmp_path / "host-directory" / "STUCK.md").write_text(SECRET)
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    return workspace


def refusal(root: Path, name: str) -> str:
    with pytest.raises(UnsafeOutput) as caught:
        read_text(root / name, 1000, root=root)
    message = caught.value.message
    assert SECRET not in message
    assert message.isprintable()
    assert len(message.splitlines()) == 1
    return message


def test_reads_an_honest_file_and_knows_a_missing_one(root: Path) -> None:
    (root / "notes").mkdir()
    (root / "notes" / "STUCK.md").write_text("Which licence?\n")
    assert read_text(root / "notes" / "STUCK.md", 1000, root=root) == "Which licence?\n"
    assert read_text(Path("notes/STUCK.md"), 1000, root=root) == "Which licence?\n"
    assert read_text(root / "notes" / "other", 1000, root=root) is None
    assert read_text(root / "nowhere" / "STUCK.md", 1000, root=root) is None
    assert read_text(Path("STUCK.md"), 1000, root=root / "gone") is None


def link_to_a_host_file(at: Path) -> None:
    at.symlink_to("../host-secret")


def absolute_link(at: Path) -> None:
    at.symlink_to("/etc/passwd")


def dangling_link(at: Path) -> None:
    at.symlink_to("nothing")


def link_to_itself(at: Path) -> None:
    at.symlink_to(at.name)


def directory(at: Path) -> None:
    at.mkdir()


def unix_socket(at: Path) -> None:
    before = Path.cwd()
    os.chdir(at.parent)  # the path would be too long
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(at.name)
    os.chdir(before)


@pytest.mark.parametrize(
    ("plant", "words"),
    [
        (link_to_a_host_file, "a symbolic link"),
        (absolute_link, "a symbolic link"),
        (dangling_link, "a symbolic link"),
        (link_to_itself, "a symbolic link"),
        (directory, "a directory"),
        (os.mkfifo, "a pipe"),
        (unix_socket, "a socket"),
    ],
)
def test_refuses_everything_but_a_regular_file_at_once(
    root: Path, plant: Callable[[Path], None], words: str
) -> None:
    plant(root / "STUCK.md")
    assert words in refusal(root, "STUCK.md")
    assert exists_safely(root, "STUCK.md")


def test_refuses_a_device_without_opening_it() -> None:
    with pytest.raises(UnsafeOutput, match="a device"):
        read_text(Path("zero"), 1000, root=Path("/dev"))


def test_a_linked_directory_on_the_way_leads_nowhere(root: Path) -> None:
    (root / ".agents").symlink_to("../host-directory")
    assert "'.agents' on the way is a link" in refusal(root, ".agents/STUCK.md")
    assert not exists_safely(root, ".agents/STUCK.md")


def test_a_file_where_a_directory_is_expected_is_refused(root: Path) -> None:
    (root / ".agents").touch()
    assert "on the way" in refusal(root, ".agents/FORK.md")
    assert not exists_safely(root, ".agents/FORK.md")


@pytest.mark.parametrize(
    "name", ["../host-secret", "a/../../host-secret", "", ".", "/etc/passwd", "a\0b"]
)
def test_a_path_that_leaves_the_directory_is_refused(root: Path, name: str) -> None:
    (root / "a").mkdir()
    for ask in (lambda: read_text(Path(name), 9, root=root), lambda: exists_safely(root, name)):
        with pytest.raises(UnsafeOutput, match="does not lie below"):
            ask()


def test_a_root_that_became_a_link_is_refused(root: Path) -> None:
    root.rmdir()
    root.symlink_to("host-directory")
    assert "cannot be read safely" in refusal(root, "STUCK.md")


def test_a_huge_file_is_cut_and_says_so(root: Path) -> None:
    with (root / "log").open("wb") as file:
        file.write(b"x" * 10)
        file.truncate(1 << 40)  # a terabyte that takes no room
    text = read_text(root / "log", 10, root=root)
    assert text == "x" * 10 + "\n[cut after 10 bytes]"


def test_a_file_of_exactly_the_limit_is_not_called_cut(root: Path) -> None:
    (root / "log").write_text("x" * 10)
    assert read_text(root / "log", 10, root=root) == "x" * 10


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(contents=st.binary(max_size=200))
def test_whatever_the_bytes_what_comes_out_cannot_steer_a_terminal(
    root: Path, contents: bytes
) -> None:
    (root / "STUCK.md").write_bytes(contents)
    text = read_text(root / "STUCK.md", 1000, root=root)
    assert text is not None
    assert not set(text) & set(map(chr, [*range(9), *range(11, 32), *range(127, 160), 0x202E]))
    text.encode()


def test_a_name_full_of_escapes_is_shown_harmlessly(root: Path) -> None:
    name = "\x1b]0;pwned\x07\u202e" + "\udc80" + "x" * 40
    (root / name).mkdir()
    assert "\\x1b" in refusal(root, name)


def test_a_name_that_is_too_long_is_refused_and_does_not_crash(root: Path) -> None:
    assert "File name too long" in refusal(root, "x" * 300)
