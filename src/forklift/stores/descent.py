"""Standing in a directory tree with one descriptor, however deep the tree is."""

import contextlib
import errno
import os
import stat
from pathlib import Path
from types import TracebackType
from typing import Self

from forklift.errors import UnsafeOutput

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_BARE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Identity = tuple[int, int]


class Descent:
    """Begins in `start` (an honest path). Names are taken one by one, links are never followed,
    and the way back is checked, so that a directory moved meanwhile leads nowhere else."""

    def __init__(self, start: Path) -> None:
        self.fd = os.open(start, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._start = _identity(self.fd)
        self._way: list[tuple[str, Identity]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        os.close(self.fd)

    def path_of(self, name: str) -> str:
        return "/".join([*(step for step, _ in self._way), name])

    def names(self) -> list[str]:
        with os.scandir(self.fd) as entries:
            return [entry.name for entry in entries]

    def is_directory(self, name: str) -> bool:
        try:
            return stat.S_ISDIR(os.stat(name, dir_fd=self.fd, follow_symlinks=False).st_mode)
        except OSError:
            return False

    def enter(self, name: str, *, open_up: bool = False) -> None:
        """Step down. `open_up`: give the owner all rights to the directory where they lack."""
        below = _open(self.fd, name, open_up=open_up)
        identity = _identity(below)
        if self._way and identity[0] != self._way[0][1][0]:
            os.close(below)
            raise OSError(errno.EXDEV, "another file system is mounted there")
        self._way.append((name, identity))
        os.close(self.fd)
        self.fd = below

    def leave(self) -> str:
        """Step up; the name of the directory that was left."""
        name, _ = self._way.pop()
        above = os.open("..", _DIRECTORY, dir_fd=self.fd)
        os.close(self.fd)
        self.fd = above
        if _identity(above) != (self._way[-1][1] if self._way else self._start):
            raise UnsafeOutput("a directory was moved while it was being walked; try again")
        return name


def _open(parent: int, name: str, *, open_up: bool) -> int:
    # A bare descriptor needs no right to the directory, and once held it cannot be swapped
    # for a link between the look and the chmod.
    bare = os.open(name, _BARE, dir_fd=parent)
    try:
        mode = stat.S_IMODE(os.fstat(bare).st_mode)
        if open_up and mode & 0o700 != 0o700:
            with contextlib.suppress(OSError):  # not ours: opening it tells
                Path(f"/proc/self/fd/{bare}").chmod(mode | 0o700)
        return os.open(".", _DIRECTORY, dir_fd=bare)
    finally:
        os.close(bare)


def _identity(fd: int) -> Identity:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino
