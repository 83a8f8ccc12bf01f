"""Copying an object store: whole files, never links.

A hard link would let a guest of the same uid rewrite the original under unchanged commit ids.
"""

import errno
import fcntl
import os
from pathlib import Path

_FICLONE = 0x40049409
_NO_CLONE = {errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS}
_AT_ONCE = 64 << 20


def copy_objects(source: Path, target: Path) -> None:
    """Copy loose objects and packs. `source` is a repository of the host's or the user's."""
    for folder, names, files in os.walk(source):
        names[:] = [name for name in names if name != "info"]
        into = target / Path(folder).relative_to(source)
        into.mkdir(exist_ok=True)
        # Packs before their indexes: an index without its pack would promise objects.
        for name in sorted(files, key=lambda name: (name.endswith(".idx"), name)):
            if not name.startswith(("tmp_", ".tmp-")):
                _copy(Path(folder) / name, into / name)


def _copy(source: Path, target: Path) -> None:
    reading = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # Objects are read-only in git's eyes; the owner must still be able to delete them.
        writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
        try:
            if not _cloned(reading, writing):
                # Not copy_file_range: it refuses two different file systems, such as a disk and a
                # tmpfs. Where extents can be shared, they have been.
                at = 0
                while sent := os.sendfile(writing, reading, at, _AT_ONCE):
                    at += sent
        finally:
            os.close(writing)
    finally:
        os.close(reading)


def _cloned(reading: int, writing: int) -> bool:
    """Share extents where the file system can: a copy at no cost."""
    try:
        fcntl.ioctl(writing, _FICLONE, reading)
    except OSError as refused:
        if refused.errno in _NO_CLONE:
            return False
        raise
    return True
