"""Open a run's doors: each its own process with its own authority, so a bug in one holds only that.

egress  no credential at all
model   the model's key, and no way anywhere but to that model's server
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from forklift.core.journal import Event, Facts, Scalar
from forklift.core.model_access import Usage
from forklift.errors import SetupError
from forklift.sidecar import destinations
from forklift.sidecar.child import Child
from forklift.sidecar.handover import Handover, read_usage
from forklift.sidecar.http1 import Refused
from forklift.sidecar.json_value import Json, Object, as_object
from forklift.sidecar.policy import EgressPolicy, ModelPolicy

EGRESS_SOCKET = "egress.sock"
MODEL_SOCKET = "model.sock"
_MAX_PATH = 107
"""What Linux leaves of `sockaddr_un` after the final NUL."""


@dataclass(frozen=True, slots=True)
class DoorsSpec:
    directory: Path
    """Made by the caller; mounted read-only into the sandbox."""
    egress: EgressPolicy
    model: ModelPolicy | None
    guest_uid: int
    guest_gid: int


class Doors:
    """The open doors of one run."""

    def __init__(self, record: Callable[[Event], None]) -> None:
        self.budget_reached = False
        self._record = record
        self._usage = Usage()
        self._failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def usage(self) -> Usage:
        """What the model door has metered so far; still right after the doors have closed."""
        return self._usage

    async def failure(self) -> str:
        """Completes with a reason when a sidecar dies: nothing guards the run any more."""
        return await asyncio.shield(self._failed)

    def hear(self, role: str, message: Object) -> None:
        """Take what a sidecar said: an event for the journal, or the usage so far."""
        if "usage" in message:
            self._usage = read_usage(as_object(message["usage"]))
            return
        action = message["action"]
        # A sidecar speaks for itself only: a broken one must not sign with another's name.
        if not isinstance(action, str) or not action.startswith(f"{role}."):
            raise ValueError(action)
        self.budget_reached |= action == "model.budget_reached"
        self._record(Event(role, action, _facts(as_object(message["facts"]))))

    def watch(self, child: Child) -> None:
        child.died.add_done_callback(self._fail)

    def _fail(self, died: asyncio.Future[str]) -> None:
        if not died.cancelled() and not self._failed.done():
            self._failed.set_result(died.result())


@asynccontextmanager
async def open_doors(spec: DoorsSpec, record: Callable[[Event], None]) -> AsyncGenerator[Doors]:
    """Doors that accept, until the context ends; `record` gets every event in order.

    Raises `SetupError` when a door cannot be opened as configured.
    """
    _check(spec)
    doors = Doors(record)
    told = _handovers(spec)
    children = {role: Child(role, doors.hear) for role in told}
    try:
        await _start(children, told)
        for child in children.values():
            doors.watch(child)
        yield doors
    finally:
        await asyncio.gather(*(child.stop() for child in children.values()))
        for handed in told.values():
            with contextlib.suppress(OSError):
                handed.socket.unlink(missing_ok=True)


async def _start(children: dict[str, Child], told: dict[str, Handover]) -> None:
    """All at once; the first that cannot is the one that is told about."""
    starts = [asyncio.ensure_future(child.start(told[role])) for role, child in children.items()]
    try:
        await asyncio.gather(*starts)
    finally:
        for start in starts:
            start.cancel()
        await asyncio.gather(*starts, return_exceptions=True)


def _check(spec: DoorsSpec) -> None:
    longest = spec.directory / EGRESS_SOCKET
    size = len(bytes(longest))
    if size > _MAX_PATH:
        raise SetupError(
            f"the socket path {longest} has {size} bytes and {_MAX_PATH} are allowed;"
            " set XDG_RUNTIME_DIR to a shorter directory"
        )
    try:
        destinations.private_pairs(spec.egress)
    except Refused as error:
        raise SetupError(f"egress: {error.message}; write for example 10.0.0.5:443") from error


def _handovers(spec: DoorsSpec) -> dict[str, Handover]:
    uid, gid = spec.guest_uid, spec.guest_gid
    told = {"egress": Handover(spec.directory / EGRESS_SOCKET, uid, gid, spec.egress)}
    if spec.model is not None:
        told["model"] = Handover(spec.directory / MODEL_SOCKET, uid, gid, spec.model)
    return told


def _facts(told: Object) -> Facts:
    return {name: _fact(value) for name, value in told.items()}


def _fact(value: Json) -> Scalar | list[str] | list[int]:
    if isinstance(value, list):
        return [str(item) for item in value]
    if isinstance(value, dict):
        raise TypeError("facts are flat")
    return value
