import os
import subprocess
import sys
from pathlib import Path

import pytest

from forklift.stores.files import replace_atomically, write_new


def test_a_new_file_is_private_and_whole_and_alone(tmp_path: Path) -> None:
    os.umask(os.umask(0))
    write_new(tmp_path / "a.json", "text\n")
    assert (tmp_path / "a.json").read_text() == "text\n"
    assert (tmp_path / "a.json").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_new_file_never_replaces_one_nor_writes_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    for name in ("target", "link"):
        with pytest.raises(FileExistsError):
            write_new(tmp_path / name, "new")
    assert (tmp_path / "target").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "target"]


def test_replacing_leaves_a_links_target_alone_and_makes_the_file_private(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    replace_atomically(tmp_path / "link", "new")
    assert (tmp_path / "target").read_text() == "old"
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "link").read_text() == "new"
    assert (tmp_path / "link").stat().st_mode & 0o777 == 0o600


def test_text_that_no_encoding_holds_is_written_as_escapes(tmp_path: Path) -> None:
    replace_atomically(tmp_path / "a", "x\udc80y")
    assert (tmp_path / "a").read_bytes() == b"x\\udc80y"


WRITE_OVER_THE_LIMIT = """
import resource, sys
from pathlib import Path
from forklift.errors import SetupError
from forklift.stores.files import replace_atomically
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    replace_atomically(Path(sys.argv[1]), "x" * 200)
except SetupError as error:
    print(error.message)
"""


def test_when_there_is_no_room_the_old_contents_stay_and_no_half_file_is_left(
    tmp_path: Path,
) -> None:
    path = tmp_path / "state.json"
    path.write_text("old")
    done = subprocess.run(
        [sys.executable, "-c", WRITE_OVER_THE_LIMIT, str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("cannot write")
    assert len(done.stdout.splitlines()) == 1
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
