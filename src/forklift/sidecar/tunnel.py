"""Bytes both ways between two sockets, moved by the kernel.

One thread per direction, blocked in `splice`: 1 GiB passes about as fast as through a bare socket,
where an event loop reaches a third of that (docs/explanation/doors.md has the numbers). What a
slow reader has not taken stays in the kernel's own bounded buffers.
"""

import asyncio
import contextlib
import fcntl
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

DESCRIPTORS = 6
"""Both sockets and a pipe per direction."""

_PIECE = 1 << 20
_BULK = 1 << 20
_BULK_PIPE = 1 << 20
_BULK_SOCKET = 512 << 10
_STACK = 256 << 10
_GLANCE = 1.0


@dataclass(slots=True)
class Flow:
    """One direction: how much has passed, and when it last moved."""

    moved: int = 0
    last: float = 0.0


Move = Callable[[socket.socket, socket.socket, Flow], None]


@dataclass(frozen=True, slots=True)
class Limits:
    idle: timedelta = timedelta(minutes=2)
    lifetime: timedelta = timedelta(hours=1)


async def relay(
    guest: socket.socket, server: socket.socket, flows: tuple[Flow, Flow], limits: Limits
) -> None:
    """Until both directions have ended or a limit passed. The caller closes the sockets."""
    up, down = flows
    ends: list[asyncio.Future[None]] = []
    try:
        ends.append(_start(guest, server, up))
        ends.append(_start(server, guest, down))
        await _until_done(ends, flows, limits)
    finally:
        # Wakes both threads, wherever they are blocked.
        for sock in (guest, server):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        if ends:
            await asyncio.wait(ends)


async def _until_done(
    ends: list[asyncio.Future[None]], flows: tuple[Flow, Flow], limits: Limits
) -> None:
    started = time.monotonic()
    pending = set(ends)
    while pending:
        idle, lifetime = limits.idle.total_seconds(), limits.lifetime.total_seconds()
        _, pending = await asyncio.wait(pending, timeout=min(_GLANCE, idle, lifetime))
        now = time.monotonic()
        last = max(started, *(flow.last for flow in flows))
        if now - last >= idle or now - started >= lifetime:
            return


def _start(source: socket.socket, sink: socket.socket, flow: Flow) -> asyncio.Future[None]:
    loop = asyncio.get_running_loop()
    end: asyncio.Future[None] = loop.create_future()
    source.setblocking(True)

    def work() -> None:
        with contextlib.suppress(OSError):  # a peer that went away is an end like any other
            move(source, sink, flow)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
        with contextlib.suppress(RuntimeError):  # the loop is gone: so is who would want to know
            loop.call_soon_threadsafe(_settle, end)

    threading.stack_size(_STACK)
    threading.Thread(target=work, daemon=True).start()
    return end


def _settle(end: asyncio.Future[None]) -> None:
    if not end.done():
        end.set_result(None)


def splice(source: socket.socket, sink: socket.socket, flow: Flow) -> None:
    """Move everything without copying it through this process (Linux)."""
    out, into = os.pipe()
    try:
        wide = False
        while count := os.splice(source.fileno(), into, _PIECE):
            _moved(flow, count)
            while count:
                count -= os.splice(out, sink.fileno(), count)
            if not wide and flow.moved > _BULK:
                wide = True
                _widen(into, sink)
    finally:
        os.close(out)
        os.close(into)


def _widen(pipe: int, sink: socket.socket) -> None:
    """For a large download: fewer and longer steps, so fewer switches between processes."""
    # Unprivileged users have a quota of pipe pages; the small pipe works as well.
    with contextlib.suppress(OSError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _BULK_PIPE)
    if sink.family == socket.AF_UNIX:  # TCP finds its own size
        with contextlib.suppress(OSError):
            sink.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BULK_SOCKET)


def copy(source: socket.socket, sink: socket.socket, flow: Flow) -> None:
    """Move everything where there is no splice."""
    buffer = memoryview(bytearray(_BULK_PIPE))
    while count := source.recv_into(buffer):
        _moved(flow, count)
        sink.sendall(buffer[:count])


move: Move = splice if hasattr(os, "splice") else copy


def _moved(flow: Flow, count: int) -> None:
    flow.moved += count
    flow.last = time.monotonic()
