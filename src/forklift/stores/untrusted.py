"""The one helper for reading what an agent wrote. See `trees.py` for moving and removing it.

Every name below `root` is opened from its parent's descriptor without following links, so that
no link, however placed, leads out; nothing but a regular file is read; nothing can make us wait.
"""

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from forklift.core.text import harmless, one_line
from forklift.errors import UnsafeOutput

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_KINDS = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def read_text(path: Path, limit: int, *, root: Path) -> str | None:
    """The file's first `limit` bytes, made harmless and marked where cut; None when it is missing.

    `path` lies below `root` (or is relative to it). Raises `UnsafeOutput`, one harmless line, for
    anything but a regular file on real directories.
    """
    raw = read_bytes(path, limit + 1, root=root)
    if raw is None:
        return None
    text = harmless(raw[:limit].decode("utf-8", errors="replace"))
    return text + f"\n[cut after {limit} bytes]" if len(raw) > limit else text


def read_bytes(path: Path, limit: int, *, root: Path, tail: bool = False) -> bytes | None:
    """As `read_text`, for a machine to parse: what comes of it is still to be made harmless.

    `tail`: the last `limit` bytes instead of the first.
    """
    parts = _parts(path, root)
    shown = one_line("/".join(parts))
    with _parent(root, parts, shown) as parent:
        return None if parent is None else _some_bytes(parent, parts[-1], limit, shown, tail=tail)


def exists_safely(root: Path, relative: str | Path) -> bool:
    """Whether anything, even a dangling link, has this name; no link is followed on the way."""
    parts = _parts(Path(relative), root)
    shown = one_line("/".join(parts))
    try:
        with _parent(root, parts, shown) as parent:
            return parent is not None and _lstat(parent, parts[-1], shown) is not None
    except _NotOnTheWay:
        return False


class _NotOnTheWay(UnsafeOutput):
    """Something that is no directory stands where a directory was asked for."""


def _parts(path: Path, root: Path) -> tuple[str, ...]:
    below = path.relative_to(root) if path.is_relative_to(root) else path
    if not below.parts or below.is_absolute() or ".." in below.parts or "\0" in str(below):
        raise UnsafeOutput(f"'{one_line(str(path))}' does not lie below {root.name}/")
    return below.parts


@contextmanager
def _parent(root: Path, parts: tuple[str, ...], shown: str) -> Generator[int | None]:
    """A descriptor of the last part's directory, or None when there is none."""
    try:
        fd = os.open(root, _DIRECTORY)
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        raise _refusal(shown, error) from error
    try:
        for part in parts[:-1]:
            if (below := _step(fd, part, shown)) is None:
                yield None
                return
            os.close(fd)
            fd = below
        yield fd
    finally:
        os.close(fd)


def _step(parent: int, part: str, shown: str) -> int | None:
    try:
        return os.open(part, _DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in {errno.ENOTDIR, errno.ELOOP}:
            raise _NotOnTheWay(
                f"{shown}: '{one_line(part)}' on the way is a link or no directory"
            ) from error
        raise _refusal(shown, error) from error


def _some_bytes(parent: int, name: str, limit: int, shown: str, *, tail: bool) -> bytes | None:
    found = _lstat(parent, name, shown)
    if found is None:
        return None
    _demand_regular(found, shown)  # before opening: opening a device may do something
    try:
        fd = os.open(name, _FILE, dir_fd=parent)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _refusal(shown, error) from error
    try:
        _demand_regular(os.fstat(fd), shown)  # what was opened need not be what was looked at
        with open(fd, "rb", closefd=False) as file:
            if tail:
                file.seek(max(0, found.st_size - limit))
            return file.read(limit)
    except OSError as error:
        raise _refusal(shown, error) from error
    finally:
        os.close(fd)


def _lstat(parent: int, name: str, shown: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _refusal(shown, error) from error


def _demand_regular(found: os.stat_result, shown: str) -> None:
    for is_kind, words in _KINDS:
        if is_kind(found.st_mode):
            raise UnsafeOutput(f"{shown} is {words}, not a file; it was not read")


def _refusal(shown: str, error: OSError) -> UnsafeOutput:
    return UnsafeOutput(f"{shown} cannot be read safely: {error.strerror or 'refused'}")
