"""Reading a configuration file: ours, of a sane size, and private where it holds a secret."""

import os
import pwd
import shlex
import stat
from pathlib import Path

from forklift.errors import SetupError

_LARGEST = 1 << 20


def read_own_file(path: Path, *, private: bool) -> str | None:
    """The file's text with `\\n` line ends, or None when it is not there.

    Links are followed and what they lead to is checked. `private`: nobody else may read it.
    Raises `SetupError` in one line for everything else that is wrong with it.
    """
    try:
        # O_NONBLOCK: a FIFO in the file's place must not stop us for ever.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    try:
        _check(path, os.fstat(fd), private=private)
        with open(fd, "rb", closefd=False) as file:
            raw = file.read(_LARGEST + 1)
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        os.close(fd)
    return _decoded(path, raw)


def _check(path: Path, found: os.stat_result, *, private: bool) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise SetupError(f"{path} is not a regular file; put a text file in its place")
    if not private:
        return
    name = shlex.quote(str(path))
    if found.st_uid != os.geteuid():
        raise SetupError(
            f"{path} belongs to {_user(found.st_uid)}, not to you; run: "
            f"sudo chown {_user(os.geteuid())} {name} && chmod 600 {name}"
        )
    if found.st_mode & 0o077:
        mode = f"{stat.S_IMODE(found.st_mode):04o}"
        raise SetupError(f"{path} is open to other users (mode {mode}); run: chmod 600 {name}")


def _decoded(path: Path, raw: bytes) -> str:
    if len(raw) > _LARGEST:
        raise SetupError(f"{path} is larger than 1 MiB, so it is no configuration file; check it")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        # `from None`: the exception carries the whole file, secrets included.
        raise SetupError(f"{path}, line {line}: not UTF-8 text; save it as UTF-8") from None
    return text.replace("\r\n", "\n")


def _unreadable(path: Path, error: OSError | ValueError) -> SetupError:
    reason = error.strerror if isinstance(error, OSError) else "not a valid path"
    hint = ""
    if isinstance(error, PermissionError):
        name = shlex.quote(str(path))
        hint = f"; run: sudo chown {_user(os.geteuid())} {name} && chmod 600 {name}"
    return SetupError(f"{path} cannot be read: {reason}{hint}")


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
