"""Doors opened in the test's own process, a server behind them, and a guest that speaks raw bytes.

The parts are the shipped ones; only the resolver and the clock's limits are given by the test.
"""

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from forklift.core.journal import Event
from forklift.core.model_access import Budget, ModelChoice, Provider, Wire
from forklift.core.secret import Secret
from forklift.sidecar import egress, model
from forklift.sidecar.addresses import IPAddress
from forklift.sidecar.policy import EgressPolicy, ModelPolicy
from forklift.sidecar.process import BACKLOG

TOKEN = "run-token-0123456789"
_PATIENCE = 20.0


@dataclass(slots=True)
class Journal:
    """Collects what a door reports."""

    events: list[Event] = field(default_factory=list[Event])
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        self._news.set()

    async def until(self, action: str, count: int = 1) -> Event:
        """Wait for the so many-th event of this kind."""
        async with asyncio.timeout(_PATIENCE):
            while len(found := self.of(action)) < count:
                self._news.clear()
                await self._news.wait()
        return found[count - 1]

    def of(self, action: str) -> list[Event]:
        return [event for event in self.events if event.action == action]

    def reasons(self) -> list[str]:
        return [str(event.facts["why"]) for event in self.events if "why" in event.facts]


@dataclass(slots=True)
class Names:
    """A resolver that knows these names only, and remembers who was asked for."""

    known: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    asked: list[str] = field(default_factory=list[str])

    async def __call__(self, name: str) -> list[IPAddress]:
        self.asked.append(name)
        if name not in self.known:
            raise OSError(f"no such name: {name}")
        return [ipaddress.ip_address(text) for text in self.known[name]]


@dataclass(slots=True)
class OpenDoor:
    path: Path
    journal: Journal

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(str(self.path))

    async def say(self, raw: bytes) -> bytes:
        """Send these bytes and read until the door hangs up."""
        reader, writer = await self.connect()
        async with asyncio.timeout(_PATIENCE):
            with contextlib.suppress(OSError):
                writer.write(raw)
                await writer.drain()
            answer = bytearray()
            with contextlib.suppress(ConnectionResetError):
                while data := await reader.read(1 << 16):
                    answer += data
        writer.close()
        return bytes(answer)


@asynccontextmanager
async def egress_door(
    directory: Path,
    policy: EgressPolicy,
    names: Names | None = None,
    limits: egress.Limits | None = None,
) -> AsyncGenerator[OpenDoor]:
    journal = Journal()
    door = egress.EgressDoor(policy, journal, limits, names or Names())
    path = directory / "egress.sock"
    with _listening(path) as listener:
        serving = asyncio.create_task(door.serve(listener))
        try:
            yield OpenDoor(path, journal)
        finally:
            await _end(serving)


@asynccontextmanager
async def model_door(
    directory: Path, policy: ModelPolicy, limits: model.Limits | None = None
) -> AsyncGenerator[OpenDoor]:
    journal = Journal()
    door = model.ModelDoor(policy, journal, lambda _: None, limits)
    path = directory / "model.sock"
    with _listening(path) as listener:
        serving = asyncio.create_task(door.serve(listener))
        try:
            yield OpenDoor(path, journal)
        finally:
            await _end(serving)


@dataclass(slots=True)
class Origin:
    """A server on loopback that answers every connection with the same bytes."""

    port: int
    received: list[bytes] = field(default_factory=list[bytes])

    @property
    def pair(self) -> str:
        return f"127.0.0.1:{self.port}"


@asynccontextmanager
async def origin(
    answer: bytes,
    *,
    until: bytes = b"\r\n\r\n",
    certificate: tuple[Path, Path] | None = None,
) -> AsyncGenerator[Origin]:
    """Answers once it has read `until`, then closes. Without `until` it answers at once."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen = bytearray()
        with contextlib.suppress(OSError):
            while until not in seen and (data := await reader.read(1 << 16)):
                seen += data
            here.received.append(bytes(seen))
            writer.write(answer)
            await writer.drain()
            writer.close()

    trust = None
    if certificate is not None:
        trust = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        trust.load_cert_chain(*certificate)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=trust)
    here = Origin(server.sockets[0].getsockname()[1])
    async with server:
        yield here


@contextlib.contextmanager
def _listening(path: Path) -> Generator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen(BACKLOG)
        yield listener


async def _end(serving: asyncio.Task[None]) -> None:
    serving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving


def model_policy(
    base_url: str,
    wire: Wire = Wire.OPENAI_CHAT,
    *,
    key: str = "host-key-0123456789",
    model_name: str = "m-1",
    budget: Budget | None = None,
) -> ModelPolicy:
    """For a model server at this address; the guest's token is `TOKEN`."""
    choice = ModelChoice(Provider("local", wire, base_url), model_name, "", Secret(key))
    return ModelPolicy(choice, Secret(TOKEN), budget or Budget())
