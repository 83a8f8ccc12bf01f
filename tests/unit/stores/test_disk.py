import errno
import os
import shutil
from pathlib import Path

import pytest

from forklift.stores.disk import free_bytes, no_space


def test_tells_the_room_where_a_directory_will_be_made(tmp_path: Path) -> None:
    free = free_bytes(tmp_path / "not" / "made" / "yet")
    assert 0 < free <= shutil.disk_usage(tmp_path).total


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "the disk is full; free some space, for example with: forklift clean"),
        (errno.EDQUOT, "the quota is used up; free some space"),
        (errno.EROFS, "read-only; set XDG_STATE_HOME"),
        (errno.ENOTDIR, "a file is where a directory should be"),
        (errno.EACCES, "Permission denied"),
    ],
)
def test_says_in_one_line_why_writing_failed_and_what_to_do(number: int, words: str) -> None:
    error = no_space(OSError(number, os.strerror(number)), Path("/state/runs"))
    assert words in error.message
    assert "/state/runs" in error.message
    assert "\n" not in error.message
