"""One run per fork at a time, on this machine.

The lock is the kernel's (`flock`) on `locks/<key>.lock`: it goes when its process goes, however
that dies, so there is no stale lock to clear. The file stays: deleting it would let two runs lock
two files of one name. On NFS the kernel asks the server for the lock; where that gives none, taking
one fails and says so, and where it gives them to each machine alone, two machines can run at once.
Keep the state root on a local disk.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from forklift.core.text import one_line
from forklift.errors import ForkLocked, InternalError, SetupError
from forklift.stores.disk import no_space
from forklift.stores.files import make_private

_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LONGEST = 4096


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock: what the one who is turned away is told."""

    run_id: str
    pid: int
    since: datetime


class ForkLock:
    """A lock that is held."""

    def __init__(self, fd: int, path: Path) -> None:
        self._fd = fd
        self._path = path

    def say(self, who: Holder) -> None:
        """Put down who holds it; again once the run has its final name."""
        facts = {"run": who.run_id, "pid": who.pid, "since": who.since.isoformat(" ", "seconds")}
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, json.dumps(facts).encode(), 0)
        except OSError as error:
            raise no_space(error, self._path) from error


@contextmanager
def hold(state_root: Path, key: str, who: Holder) -> Generator[ForkLock]:
    """Hold the fork while in the block. Raises `ForkLocked` naming the holder, at once."""
    if not key or "/" in key or key.startswith("."):
        raise InternalError(f"'{one_line(key)}' is no fork's key; please report this")
    path = state_root / "locks" / f"{key}.lock"
    fd = _opened(path)
    try:
        _take(fd, path)
        lock = ForkLock(fd, path)
        try:
            lock.say(who)
            yield lock
        finally:
            with contextlib.suppress(OSError):
                os.ftruncate(fd, 0)
    finally:
        os.close(fd)


def _opened(path: Path) -> int:
    try:
        make_private(path.parent.parent)
        make_private(path.parent)
        return os.open(path, _OPEN, 0o600)
    except OSError as error:
        raise no_space(error, path) from error


def _take(fd: int, path: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ForkLocked(_described(os.pread(fd, _LONGEST, 0))) from error
    except OSError as error:
        raise SetupError(
            f"cannot lock {path}: {error.strerror}; set XDG_STATE_HOME to a local disk"
        ) from error


def _described(raw: bytes) -> str:
    try:
        facts = json.loads(raw)
        run, pid, since = facts["run"], int(facts["pid"]), one_line(str(facts["since"]), 40)
        shown = one_line(str(run), 80)
    except (ValueError, KeyError, TypeError, RecursionError):
        # It has taken the lock and not yet said who it is.
        return "another run holds this fork; wait for it to end: forklift status"
    name = f"run {shown}" if shown else "another run"
    return (
        f"{name} (process {pid}, since {since}) holds this fork; wait for it to end, "
        f"or end it with: kill {pid}"
    )
