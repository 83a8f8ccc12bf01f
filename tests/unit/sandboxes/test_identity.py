"""Who the guest is: the caller, so that the caller owns what is left; never root."""

import pwd
from pathlib import Path

import pytest

from forklift.sandboxes.identity import guest_ids, write_identity


@pytest.mark.parametrize(
    ("caller", "guest"),
    [((1234, 100), (1234, 100)), ((0, 0), (1000, 1000)), ((1234, 0), (1234, 1000))],
)
def test_the_guest_is_the_caller_but_never_root(
    caller: tuple[int, int], guest: tuple[int, int]
) -> None:
    assert guest_ids(*caller) == guest


def test_the_generated_files_name_the_guest_and_are_mounted_read_only(tmp_path: Path) -> None:
    mounts = write_identity(tmp_path, 4321, 765)
    assert [(m.target, m.writable) for m in mounts] == [
        ("/etc/passwd", False),
        ("/etc/group", False),
    ]
    entries = [pwd.struct_passwd(line.split(":")) for line in _lines(mounts[0].source)]
    ours = [entry for entry in entries if entry.pw_name == "forklift"]
    assert [(e.pw_uid, e.pw_gid, e.pw_dir) for e in ours] == [
        ("4321", "765", "/harness-state/home")
    ]
    assert "forklift:x:765:" in _lines(mounts[1].source)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()
