"""What every sidecar process does besides its own work: start with little, end with its host."""

import asyncio
import contextlib
import os
import resource
import socket
import stat
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

from forklift.sidecar.handover import Handover
from forklift.sidecar.report import Report

BACKLOG = 1024
"""A parallel package manager connects hundreds of times at once."""
STOP = b"stop"

_GRACE = 0.6
"""For open connections to be recorded. The host waits a second in all."""
_STDIN, _STDOUT = 0, 1

Serve = Callable[[socket.socket], Awaitable[None]]


def read_handover() -> bytes:
    """The first line of stdin; an end before it means that the host is gone."""
    line = bytearray()
    while not line.endswith(b"\n"):
        data = os.read(_STDIN, 1 << 16)
        if not data:
            os._exit(0)
        line += data
    return bytes(line)


def run(handover: Handover, report: Report, serve: Serve) -> None:
    """Serve until the host says stop (then record what is open), or is gone (then at once)."""
    _shed_powers()
    listener = _listen(handover)
    asyncio.run(_serve(listener, report, serve))
    with contextlib.suppress(OSError):
        handover.socket.unlink()
    report.close(_GRACE)


def open_report(actor: str) -> Report:
    return Report(actor, _STDOUT)


async def _serve(listener: socket.socket, report: Report, serve: Serve) -> None:
    stop = asyncio.Event()
    threading.Thread(
        target=_watch_host, args=(asyncio.get_running_loop(), stop), daemon=True
    ).start()
    with listener:
        serving = asyncio.ensure_future(serve(listener))
        stopping = asyncio.ensure_future(stop.wait())
        report.ready()
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if serving.done():
            serving.result()  # a door that ends by itself has failed: say why
            return
        serving.cancel()
        await asyncio.wait({serving}, timeout=_GRACE)


def _watch_host(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    # A thread, so that a busy event loop cannot outlive its host; os.read, because a buffered
    # reader that is blocked at exit is a fatal error.
    if os.read(_STDIN, 64).startswith(STOP):
        loop.call_soon_threadsafe(stop.set)
        os.read(_STDIN, 64)
    else:
        os._exit(0)


def _listen(handover: Handover) -> socket.socket:
    path = handover.socket
    _remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)  # nobody may connect before the owner is set
    try:
        listener.bind(str(path))
    finally:
        os.umask(before)
    if os.geteuid() == 0:
        os.chown(path, handover.uid, handover.gid, follow_symlinks=False)
    listener.listen(BACKLOG)
    return listener


def _remove_stale(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()


def _shed_powers() -> None:
    """A door writes no file, dumps no core with a key in it, and may open many sockets."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
