"""The host's end of a sandbox's lifeline: hands init its job, hears what init tells.

Whoever holds the other end is the guest: every word is hostile, bounded and written down as such.
"""

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from forklift.core.journal import Event
from forklift.core.text import one_line
from forklift.errors import SetupError
from forklift.sidecar.json_value import Json, Object, as_list, as_object, as_text, load

_LINE_LIMIT = 16 << 10
_LINES_LIMIT = 1000
_WORDS_LIMIT = 32
_LONGEST_PATH = 107
"""What the kernel takes as the address of a Unix socket."""


@dataclass(frozen=True, slots=True)
class Job:
    """What init is to do. Paths are the guest's."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Written below the guest's home before anything starts: relative path -> text."""
    stdin: str = ""
    setup: tuple[str, ...] = ()
    """Shell commands, in order; the first that fails ends the sandbox."""
    cwd: str = "/workspace"
    transcript: str | None = None
    """A file in the state folder for what the agent prints; None: the sandbox's output alone."""
    transcript_cap: int = 64 << 20
    seconds: float = 470.0
    """Init's own deadline, grace included."""
    egress: bool = True
    model: bool = True


class Control:
    """What init has told so far."""

    def __init__(self) -> None:
        self.connected = False
        """A custom image whose harness does not connect is tolerated: then nothing is told."""
        self.ready = asyncio.Event()
        """The walls held and the doors are open."""
        self.breach: str | None = None
        """A wall that did not hold, in init's words, harmless to print."""
        self.fault: str | None = None
        """Why init could not do the job, in its words, harmless to print."""
        self.setup_failed: tuple[int, int] | None = None
        """Index and exit code of the setup command that failed."""
        self.exit_code: int | None = None
        self.hit_deadline = False
        self._spoke = asyncio.Event()

    async def first_word(self) -> None:
        """Until init is ready, has found a breach, or will never say anything more."""
        await self._spoke.wait()

    def hear(self, line: bytes) -> Event | None:
        """Take one line from the guest; what to write down about it, if it can be read."""
        told = _read(line)
        match told.get("event"):
            case "ready":
                self.ready.set()
                event = Event("guest", "sandbox.ready", {"walls": _words(told.get("canaries"))})
            case "breach":
                self.breach = _text(told.get("what"))
                event = Event("guest", "sandbox.breach", {"what": self.breach})
            case "fault":
                self.fault = _text(told.get("what"))
                event = Event("guest", "sandbox.fault", {"what": self.fault})
            case "setup":
                index, code = _number(told.get("index")), _number(told.get("code"))
                if code and self.setup_failed is None:
                    self.setup_failed = (index, code)
                event = Event("guest", "sandbox.setup", {"index": index, "code": code})
            case "deadline":
                self.hit_deadline = True
                event = Event("guest", "sandbox.deadline", {})
            case "exit":
                self.exit_code = _number(told.get("code"))
                event = Event("guest", "sandbox.exit", {"code": self.exit_code})
            case _:
                return None
        self._spoke.set()
        return event

    def fall_silent(self) -> None:
        self._spoke.set()


@contextlib.asynccontextmanager
async def control_socket(
    path: Path, job: Job, guest_uid: int, guest_gid: int, record: Callable[[Event], None]
) -> AsyncGenerator[Control]:
    """Serve one sandbox at `path`, a socket that lives until the guest has connected.

    Leaving the context ends the sandbox: init sees the connection close and kills everything.
    """
    control = Control()
    listener = _listen(path, guest_uid, guest_gid)
    serving = asyncio.create_task(_serve(listener, path, job, control, record))
    try:
        yield control
    finally:
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving
        _close(listener, path)  # again: a task that never ran has closed nothing
        control.fall_silent()


def _listen(path: Path, uid: int, gid: int) -> socket.socket:
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise SetupError(
            f"{path} is too long for a Unix socket ({_LONGEST_PATH} bytes); "
            "set XDG_RUNTIME_DIR to a shorter path"
        )
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.setblocking(False)
        listener.bind(os.fspath(path))
        path.chmod(0o600)
        if os.geteuid() == 0:
            os.chown(path, uid, gid, follow_symlinks=False)
        listener.listen(1)
    except OSError as error:
        listener.close()
        raise SetupError(
            f"cannot make the control socket {path}: {error.strerror}; "
            "check that its folder exists and is yours"
        ) from error
    return listener


def _close(listener: socket.socket, path: Path) -> None:
    listener.close()
    path.unlink(missing_ok=True)


async def _serve(
    listener: socket.socket,
    path: Path,
    job: Job,
    control: Control,
    record: Callable[[Event], None],
) -> None:
    loop = asyncio.get_running_loop()
    try:
        connection, _ = await loop.sock_accept(listener)
    finally:
        # One guest, one connection: the agent has init's uid and must not get one of its own.
        _close(listener, path)
    with connection:
        control.connected = True
        record(Event("host", "sandbox.connected", {}))
        with contextlib.suppress(OSError):
            await loop.sock_sendall(connection, _encode(job))
            await _listen_to(connection, control, record)
        control.fall_silent()
        # Held until the context ends: closing is what ends the guest.
        await asyncio.Event().wait()


async def _listen_to(
    connection: socket.socket, control: Control, record: Callable[[Event], None]
) -> None:
    """Hear lines until the guest is gone or has said too much; then it is heard no more."""
    loop = asyncio.get_running_loop()
    held = b""
    for _ in range(_LINES_LIMIT):
        while b"\n" not in held:
            piece = await loop.sock_recv(connection, _LINE_LIMIT)
            held += piece
            if not piece or len(held) > 2 * _LINE_LIMIT:
                return
        line, _, held = held.partition(b"\n")
        event = control.hear(line)
        if event is not None:
            record(event)


def _encode(job: Job) -> bytes:
    told = {
        "argv": job.argv,
        "env": dict(job.environment),
        "files": dict(job.files),
        "stdin": job.stdin,
        "setup": job.setup,
        "cwd": job.cwd,
        "transcript": job.transcript,
        "transcript_cap": job.transcript_cap,
        "seconds": job.seconds,
        "doors": {"egress": job.egress, "model": job.model},
    }
    return json.dumps(told).encode() + b"\n"


def _read(line: bytes) -> Object:
    try:
        return as_object(load(line))
    except ValueError:
        return {}


def _text(value: Json) -> str:
    return one_line(as_text(value)) or "(no words)"


def _words(value: Json) -> list[str]:
    return [_text(word) for word in as_list(value)[:_WORDS_LIMIT]]


def _number(value: Json) -> int:
    """Not a number counts as a failure; a huge one must not reach a log whole."""
    return max(-1, min(value, 255)) if isinstance(value, int) else -1
