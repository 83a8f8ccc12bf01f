"""Writing the host's own files so that a reader, or a crash, never meets half of one."""

import contextlib
import os
import secrets
from pathlib import Path

from forklift.stores.disk import no_space

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def make_private(directory: Path) -> None:
    """Make the directory, for us alone, if there is none; its parents as usual."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    directory.mkdir(exist_ok=True, mode=0o700)


def write_new(path: Path, text: str) -> None:
    """Make the file, whole and private (0600). Raises `FileExistsError` when there is one."""
    temporary = _written_beside(path, text)
    try:
        # A link, not a rename: it refuses to replace, and what appears is whole.
        os.link(temporary, path, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError as error:
        raise no_space(error, path) from error
    finally:
        temporary.unlink()
    _sync_directory(path.parent)


def replace_atomically(path: Path, text: str) -> None:
    """Make the file hold exactly this (0600). A link in its place is replaced, not followed."""
    temporary = _written_beside(path, text)
    try:
        temporary.replace(path)
    except OSError as error:
        temporary.unlink()
        raise no_space(error, path) from error
    _sync_directory(path.parent)


def _written_beside(path: Path, text: str) -> Path:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with open(os.open(temporary, _NEW, 0o600), "wb") as file:
            file.write(text.encode(errors="backslashreplace"))
            file.flush()
            # Before it gets its name: after a power cut the name must not lead to an empty file.
            os.fsync(file.fileno())
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise no_space(error, path) from error
    return temporary


def _sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
