"""Room on the disk, and the line a person gets when there is none."""

import errno
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from forklift.errors import SetupError

_FULL = {errno.ENOSPC, errno.EDQUOT}
_FOR_THE_RECORD = 4 << 20


def free_bytes(path: Path) -> int:
    """What an ordinary user may still write where `path` is, or will be."""
    while True:
        try:
            found = os.statvfs(path)
        except FileNotFoundError:
            if path == path.parent:
                raise
            path = path.parent
        else:
            return found.f_bavail * found.f_frsize


@contextmanager
def room_for_the_record(directory: Path) -> Generator[None]:
    """Hold room back while a guest could fill the disk; afterwards the record still fits in.

    A file without a name: however this process dies, nothing of it stays.
    """
    with tempfile.TemporaryFile(dir=directory) as held:
        os.posix_fallocate(held.fileno(), 0, _FOR_THE_RECORD)
        yield


def no_space(error: OSError, path: Path) -> SetupError:
    """What to raise `from error` when writing to `path` failed."""
    if error.errno in _FULL:
        what = "the quota is used up" if error.errno == errno.EDQUOT else "the disk is full"
        return SetupError(
            f"cannot write {path}: {what}; free some space, for example with: "
            "forklift clean --older-than 7d"
        )
    if error.errno == errno.EROFS:
        return SetupError(
            f"cannot write {path}: the file system is read-only; set XDG_STATE_HOME to another"
        )
    if error.errno in {errno.EEXIST, errno.ENOTDIR}:
        return SetupError(f"cannot write {path}: a file is where a directory should be; move it")
    return SetupError(f"cannot write {path}: {error.strerror or error}")
