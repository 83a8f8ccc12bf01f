"""Removing and handing over whole directory trees, whatever an agent has made of them."""

import errno
import os
import stat
from pathlib import Path

from forklift.core.text import one_line
from forklift.errors import SetupError, UnsafeOutput
from forklift.stores.descent import Descent

_MOST_COMPLAINTS = 20


def remove_tree(path: Path) -> tuple[str, ...]:
    """Delete `path` and all below it; what could not be deleted and why, line by line.

    Directories that their owner may not write are opened up first, links are deleted and not
    followed, mounted file systems are left alone. A missing path is no complaint.
    """
    complaints = _Complaints()
    with Descent(path.parent) as here:
        to_do = [[path.name]]
        while to_do:
            if to_do[-1]:
                name = to_do[-1].pop()
                if not _unlinked(here, name, complaints):
                    to_do += _entered(here, name, complaints)
                continue
            to_do.pop()
            if to_do:
                _rmdir(here, complaints)
    return complaints.lines()


def hand_over(path: Path, uid: int, gid: int) -> None:
    """Give `path` and all below it to another user; links are given, not followed.

    Refuses a file with a second name elsewhere: it would give away that one as well.
    """
    with Descent(path.parent) as here:
        to_do = [[path.name]]
        while to_do:
            if to_do[-1]:
                name = to_do[-1].pop()
                if _given(here, name, uid, gid):
                    here.enter(name)
                    to_do.append(here.names())
                continue
            to_do.pop()
            if to_do:
                here.leave()


class _Complaints:
    def __init__(self) -> None:
        self._lines: list[str] = []
        self.count = 0

    def add(self, path: str, error: OSError) -> None:
        self.count += 1
        if self.count <= _MOST_COMPLAINTS:
            self._lines.append(f"{one_line(path)}: {error.strerror}")

    def lines(self) -> tuple[str, ...]:
        more = self.count - len(self._lines)
        return (*self._lines, *([f"and {more} more"] if more else []))


def _unlinked(here: Descent, name: str, complaints: _Complaints) -> bool:
    """False for a directory; for anything else it is gone or complained about."""
    try:
        os.unlink(name, dir_fd=here.fd)
    except IsADirectoryError:
        return False
    except FileNotFoundError:
        pass
    except OSError as error:
        # In a directory that is not ours to change, the kernel says so before it looks at what
        # the name is; and below it there may still be something to delete.
        if here.is_directory(name):
            return False
        complaints.add(here.path_of(name), error)
    return True


def _entered(here: Descent, name: str, complaints: _Complaints) -> list[list[str]]:
    """The names in the directory, having stepped in; nothing where that cannot be done."""
    try:
        here.enter(name, open_up=True)
    except OSError as error:
        complaints.add(here.path_of(name), error)
        return []
    try:
        return [here.names()]
    except OSError as error:
        complaints.add(here.path_of("."), error)
        return [[]]


def _rmdir(here: Descent, complaints: _Complaints) -> None:
    name = here.leave()
    try:
        os.rmdir(name, dir_fd=here.fd)
    except OSError as error:
        # Not empty because of what was complained about already: that is the cause to name.
        if error.errno != errno.ENOTEMPTY or not complaints.count:
            complaints.add(here.path_of(name), error)


def _given(here: Descent, name: str, uid: int, gid: int) -> bool:
    """Hand one name over; True when it is a directory."""
    try:
        found = os.stat(name, dir_fd=here.fd, follow_symlinks=False)
        is_directory = stat.S_ISDIR(found.st_mode)
        if (found.st_uid, found.st_gid) != (uid, gid):
            if found.st_nlink > 1 and not is_directory:
                shown = one_line(here.path_of(name))
                raise UnsafeOutput(f"{shown} has a second name elsewhere; it was not handed over")
            os.chown(name, uid, gid, dir_fd=here.fd, follow_symlinks=False)
    except OSError as error:
        shown = one_line(here.path_of(name))
        raise SetupError(
            f"cannot hand {shown} over to user {uid}: {error.strerror}; run as root, or as the "
            "user who owns the files"
        ) from error
    return is_directory
