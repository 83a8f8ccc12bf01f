"""What a door costs: a tunnel against a bare Unix socket, a request against asking directly.

python bench/doors.py
"""

import asyncio
import contextlib
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from pathlib import Path

from forklift.core.journal import Event
from forklift.core.model_access import ModelChoice, Provider, Wire
from forklift.core.secret import Secret
from forklift.sidecar.launch import EGRESS_SOCKET, DoorsSpec, open_doors
from forklift.sidecar.policy import EgressPolicy, ModelPolicy

_VOLUME = 1 << 30
_ROUNDS = 6
_PINGS = 300

# The far ends run apart, as real ones do: one that pours, one that answers. They print their
# address and live until their stdin ends.
_SERVER = r"""
import os, socket, sys, threading
kind, where = sys.argv[1:]
if kind == "pour-unix":
    listener = socket.socket(socket.AF_UNIX); listener.bind(where); listener.listen()
else:
    listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1] if kind != "pour-unix" else where, flush=True)
def pour(peer):
    data, left = bytes(1 << 20), VOLUME
    while left:
        left -= peer.send(data[:left])
def answer(peer):
    body = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while peer.recv(65536):
        peer.sendall(body)
def serve():
    while True:
        peer = listener.accept()[0]
        def work():
            with peer:
                try: (answer if kind == "answer" else pour)(peer)
                except OSError: pass
        threading.Thread(target=work, daemon=True).start()
threading.Thread(target=serve, daemon=True).start()
sys.stdin.read(); os._exit(0)
""".replace("VOLUME", str(_VOLUME))


def run() -> dict[str, float]:
    """Ratios and times, all measured in this one run on this one machine.

    The tunnel ends at a TCP server, as real ones do: no door can be faster than that alone, which
    is measured too.
    """
    return asyncio.run(_measure())


async def _measure() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        directory = Path(name)
        raw = stack.enter_context(_server("pour-unix", str(directory / "raw.sock")))
        pour = stack.enter_context(_server("pour", "-"))
        answer = stack.enter_context(_server("answer", "-"))
        pairs = (f"127.0.0.1:{pour}", f"127.0.0.1:{answer}")
        spec = DoorsSpec(
            directory, EgressPolicy(allow_private=pairs), _model(), os.getuid(), os.getgid()
        )
        before = time.perf_counter()
        async with open_doors(spec, _ignore):
            ready = time.perf_counter() - before
            path = str(directory / EGRESS_SOCKET)
            return {
                "doors.ready_seconds": ready,
                **await asyncio.to_thread(_throughput, raw, int(pour), path),
                **await asyncio.to_thread(_latency, int(answer), path),
            }


def _model() -> ModelPolicy:
    """Both doors open with every run; nobody is asked here."""
    provider = Provider("none", Wire.OPENAI_CHAT, "http://127.0.0.1:9/v1")
    return ModelPolicy(ModelChoice(provider, "none", "", Secret("none")), Secret("none"))


def _throughput(raw: str, port: int, door: str) -> dict[str, float]:
    # In turns, and the best of each: what else runs on the machine slows, and never quickens.
    bare, direct, through = (
        min(times)
        for times in zip(
            *(
                (_drain(_unix(raw)), _drain(_tcp(port)), _drain(_tunnel(door, port)))
                for _ in range(_ROUNDS)
            ),
            strict=True,
        )
    )
    return {
        "doors.bare_unix_seconds_per_gib": bare,
        "doors.bare_tcp_seconds_per_gib": direct,
        "doors.tunnel_seconds_per_gib": through,
        "doors.tunnel_throughput": bare / through,
        "doors.tunnel_throughput_of_bare_tcp": direct / through,
    }


def _latency(port: int, door: str) -> dict[str, float]:
    get = f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n".encode()
    with _tcp(port) as direct, _tunnel(door, port) as through:
        near, far = _pings(direct, get), _pings(through, get)
    asked = _each(lambda: _tcp(port), get)
    forwarded = _each(lambda: _unix(door), get)
    return {
        "doors.tunnel_added_latency_ms": (far - near) * 1e3,
        "doors.added_latency_ms": (forwarded - asked) * 1e3,
    }


def _pings(sock: socket.socket, request: bytes) -> float:
    times: list[float] = []
    for _ in range(_PINGS):
        before = time.perf_counter()
        sock.sendall(request)
        sock.recv(1 << 16)
        times.append(time.perf_counter() - before)
    return statistics.median(times)


def _each(connect: Callable[[], socket.socket], request: bytes) -> float:
    """A connection for every request, as package managers make them."""
    times: list[float] = []
    for _ in range(_PINGS):
        before = time.perf_counter()
        with connect() as sock:
            sock.sendall(request)
            while not sock.recv(1 << 16).endswith(b"ok"):
                pass
        times.append(time.perf_counter() - before)
    return statistics.median(times)


def _drain(sock: socket.socket) -> float:
    buffer, seen, before = bytearray(1 << 20), 0, time.perf_counter()
    with sock:
        while count := sock.recv_into(buffer):
            seen += count
    assert seen == _VOLUME, f"{seen} bytes arrived"
    return time.perf_counter() - before


def _tunnel(door: str, port: int) -> socket.socket:
    sock = _unix(door)
    sock.sendall(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += sock.recv(1)
    return sock


def _tcp(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _unix(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(path)
    return sock


@contextlib.contextmanager
def _server(kind: str, where: str) -> Generator[str]:
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER, kind, where],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        assert process.stdin is not None
        process.stdin.close()


def _ignore(_: Event) -> None: ...


def main() -> None:
    for name, value in run().items():
        print(f"{name:36} {value:9.3f}")


if __name__ == "__main__":
    main()
