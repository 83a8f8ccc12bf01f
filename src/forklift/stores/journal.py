"""The journal's file: lines are only ever appended, by any number of processes."""

import errno
import fcntl
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from forklift.core.journal import Event, Link, Scalar, first_fault, last_link, seal
from forklift.errors import SetupError
from forklift.stores.disk import no_space

_OPEN = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 64 * 1024


class Journal:
    """Appends to a run's journal. Host and sidecars may hold one each on the same file.

    A last line that a crash has torn is cut off and the cut is itself recorded.
    """

    def __init__(
        self,
        path: Path,
        clock: Callable[[], datetime],
        redact: Callable[[str], str] = lambda text: text,
    ) -> None:
        self.path = path
        self._clock = clock
        self._redact = redact
        self._link = Link()
        self._end = 0
        try:
            self._fd = os.open(path, _OPEN, 0o600)
        except OSError as error:
            raise no_space(error, path) from error

    def append(self, event: Event, *, durable: bool = False) -> None:
        """Record it. It then survives the death of this process; `durable`: of the machine too."""
        with self._locked():
            self._catch_up()
            self._write(event)
            if durable:
                os.fdatasync(self._fd)

    @property
    def link(self) -> Link:
        """Where the chain stood after the last append: kept elsewhere, it shows a cut-off end."""
        return self._link

    def close(self) -> None:
        os.close(self._fd)

    @contextmanager
    def _locked(self) -> Generator[None]:
        # Another process may have appended: number and hash follow from the file, under a lock.
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _catch_up(self) -> None:
        size = os.fstat(self._fd).st_size
        if size == self._end:
            return
        whole = _end_of_last_line(self._fd, size)
        if whole < size:
            os.ftruncate(self._fd, whole)
        try:
            self._link = last_link(_last_line(self._fd, whole))
        except (ValueError, KeyError, TypeError) as error:
            raise SetupError(
                f"the journal {self.path} is damaged at its end; move it away to go on"
            ) from error
        self._end = whole
        if whole < size:
            self._write(Event("host", "journal.recovered", {"cut_bytes": size - whole}))

    def _write(self, event: Event) -> None:
        facts = {self._redact(key): self._clean(value) for key, value in event.facts.items()}
        clean = Event(event.actor, event.action, facts)
        line, link = seal(clean, self._clock(), self._link)
        raw = line.encode() + b"\n"
        try:
            _write_whole(self._fd, raw)
        except OSError as error:
            os.ftruncate(self._fd, self._end)  # half a line is worse than none
            raise no_space(error, self.path) from error
        self._link, self._end = link, self._end + len(raw)

    def _clean(self, value: Scalar | list[str] | list[int]) -> Scalar | list[str] | list[int]:
        if isinstance(value, str):
            return self._redact(value)
        if isinstance(value, list):
            return [self._redact(item) for item in value if isinstance(item, str)] or value
        return value


def fault_in(path: Path, end: Link | None = None) -> str | None:
    """What is wrong with a journal, in plain words; None when every entry follows from the last.

    A chain cannot show that its end was cut off: `end` is where it is known to have stood.
    """
    try:
        with path.open("rb") as file:
            lines = [line.decode(errors="replace") for line in file]
    except OSError as error:
        return f"the journal cannot be read: {error.strerror}"
    if (fault := first_fault(lines)) is not None or end is None or end.number == 0:
        return fault
    if len(lines) < end.number:
        return f"its end was cut off: {end.number - len(lines)} entries are missing"
    return None if last_link(lines[end.number - 1]) == end else f"entry {end.number} was replaced"


def _write_whole(fd: int, raw: bytes) -> None:
    if os.write(fd, raw) < len(raw):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _end_of_last_line(fd: int, size: int) -> int:
    """Where the last complete line ends: after its newline, or 0."""
    while size > 0:
        start = max(0, size - _CHUNK)
        found = os.pread(fd, size - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        size = start
    return 0


def _last_line(fd: int, end: int) -> str | None:
    if end == 0:
        return None
    start = _end_of_last_line(fd, end - 1)
    return os.pread(fd, end - 1 - start, start).decode(errors="replace")
