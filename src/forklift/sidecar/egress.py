"""The egress door: HTTP and CONNECT for a guest without a network, to public addresses only.

It holds no credential. It records what it knows: name, port, address, bytes, duration. What is
inside a TLS tunnel stays between the guest and the server.
"""

import asyncio
import contextlib
import resource
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from forklift.core.journal import Event, Facts
from forklift.core.text import one_line
from forklift.sidecar import destinations, forwarding, http1, tunnel
from forklift.sidecar.connection import Connection
from forklift.sidecar.destinations import Destination
from forklift.sidecar.dial import Dialer, Resolver, ask_system
from forklift.sidecar.forwarding import PlainRequest
from forklift.sidecar.http1 import Incoming, Refused, RequestHead
from forklift.sidecar.policy import EgressPolicy
from forklift.sidecar.tunnel import Flow

_SPARE_DESCRIPTORS = 64
_BREATH = 0.05


@dataclass(frozen=True, slots=True)
class Limits:
    connections: int = 512
    head: timedelta = timedelta(seconds=15)
    """For a whole request head, however slowly it drips."""
    dial: timedelta = timedelta(seconds=10)
    """For a lookup, and again for each address."""
    flow: tunnel.Limits = field(default_factory=tunnel.Limits)


@dataclass(slots=True)
class _Visit:
    """What is known of one connection, for its line in the journal."""

    started: float = field(default_factory=time.monotonic)
    what: str = "a connection"
    up: Flow = field(default_factory=Flow)
    down: Flow = field(default_factory=Flow)

    @property
    def flows(self) -> tuple[Flow, Flow]:
        return self.up, self.down


class EgressDoor:
    def __init__(
        self,
        policy: EgressPolicy,
        report: Callable[[Event], None],
        limits: Limits | None = None,
        resolve: Resolver = ask_system,
    ) -> None:
        self._policy = policy
        self._report = report
        self._limits = limits or Limits()
        self._dialer = Dialer(
            destinations.private_pairs(policy), policy.ports, self._limits.dial, resolve
        )

    async def serve(self, listener: socket.socket) -> None:
        """Until cancelled; what is open then is closed and recorded."""
        listener.setblocking(False)
        loop = asyncio.get_running_loop()
        slots = asyncio.Semaphore(_affordable(self._limits.connections))
        async with asyncio.TaskGroup() as visits:
            while True:
                # Above the limit nobody is turned away: they wait in the listener's queue.
                await slots.acquire()
                try:
                    sock, _ = await loop.sock_accept(listener)
                except OSError:  # it was gone again, or descriptors are short: not the door's end
                    slots.release()
                    await asyncio.sleep(_BREATH)
                    continue
                visits.create_task(self._visit(sock)).add_done_callback(lambda _: slots.release())

    async def _visit(self, sock: socket.socket) -> None:
        with sock:
            guest = Connection(sock, self._limits.flow.idle)
            visit = _Visit()
            try:
                await self._serve_one(guest, visit)
            except Refused as error:
                await self._refuse(guest, visit, error)
            except TimeoutError:
                await self._refuse(guest, visit, Refused(408, "nothing came for too long"))
            except OSError as error:
                await self._refuse(guest, visit, Refused(502, error.strerror or "connection lost"))
            except Exception as error:  # noqa: BLE001  # a bug met by one guest connection ends it alone
                self._say(visit, "egress.fault", {"why": type(error).__name__})

    async def _serve_one(self, guest: Connection, visit: _Visit) -> None:
        incoming = Incoming(guest)
        async with asyncio.timeout(self._limits.head.total_seconds()):
            raw = await incoming.head()
        if raw is None:
            return
        head = http1.parse_request(raw)
        visit.what = f"{head.method} {head.target}"
        if head.method == "CONNECT":
            await self._tunnel(head, guest, incoming, visit)
        else:
            await self._forward(head, forwarding.read_target(head), guest, incoming, visit)

    async def _tunnel(
        self, head: RequestHead, guest: Connection, incoming: Incoming, visit: _Visit
    ) -> None:
        destination = destinations.read_destination(head.target)
        forwarding.check_host(head, destination, destination.port)
        if head.all("content-length") or head.all("transfer-encoding"):
            raise Refused(400, "a CONNECT with a body")
        with await self._dial(destination, visit) as server:
            address = _address(server)
            await guest.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            if early := incoming.held:
                await Connection(server, self._limits.flow.idle).write(early)
                visit.up.moved += len(early)
            try:
                await tunnel.relay(guest.socket, server, visit.flows, self._limits.flow)
            finally:
                self._say(visit, "egress.tunnel", _facts(destination, address))

    async def _forward(
        self,
        head: RequestHead,
        asked: PlainRequest,
        guest: Connection,
        incoming: Incoming,
        visit: _Visit,
    ) -> None:
        visit.what = f"{head.method} http://{asked.destination}/"
        http1.request_framing(head)  # refused before anybody is dialled
        with await self._dial(asked.destination, visit) as sock:
            server = Connection(sock, self._limits.flow.idle)
            status = 0
            try:
                async with asyncio.timeout(self._limits.flow.lifetime.total_seconds()):
                    status = await forwarding.forward(
                        head, asked, guest, incoming, server, visit.flows
                    )
            finally:
                facts = _facts(asked.destination, _address(sock))
                self._say(
                    visit, "egress.request", {**facts, "method": head.method, "status": status}
                )
            await guest.hang_up()

    async def _dial(self, destination: Destination, visit: _Visit) -> socket.socket:
        if why := destinations.refusal(self._policy, destination):
            raise Refused(403, why)
        sock = await self._dialer.dial(destination)
        visit.started = time.monotonic()
        return sock

    async def _refuse(self, guest: Connection, visit: _Visit, error: Refused) -> None:
        theirs = error.status >= 500 or error.status == 408
        action = "egress.failed" if theirs else "egress.refused"
        self._say(visit, action, {"what": one_line(visit.what, 300), "why": error.message})
        if guest.answered:
            return
        verb = "failed" if theirs else "refused"
        text = f"forklift egress door: {verb} {one_line(visit.what, 300)}: {error.message}\n"
        body = text.encode()
        fields = [
            ("content-type", "text/plain; charset=utf-8"),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        answer = http1.serialise(f"HTTP/1.1 {error.status} {verb.capitalize()}", fields) + body
        with contextlib.suppress(OSError, TimeoutError):
            await guest.write(answer)
            await guest.hang_up()

    def _say(self, visit: _Visit, action: str, facts: Facts) -> None:
        seconds = round(time.monotonic() - visit.started, 3)
        moved: Facts = {}
        if action in {"egress.tunnel", "egress.request"}:
            moved = {"up": visit.up.moved, "down": visit.down.moved, "seconds": seconds}
        self._report(Event("egress", action, {**facts, **moved}))


def _facts(destination: Destination, address: str) -> Facts:
    return {"name": destination.host, "port": destination.port, "address": address}


def _address(sock: socket.socket) -> str:
    return str(sock.getpeername()[0])


def _affordable(connections: int) -> int:
    """As many as there are file descriptors for: running out would stall the door for everyone."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, min(connections, (soft - _SPARE_DESCRIPTORS) // tunnel.DESCRIPTORS))
