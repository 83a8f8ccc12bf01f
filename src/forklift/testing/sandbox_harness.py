"""The image's harness for `MemorySandboxes`: keeps init's side of control.sock, then runs an agent.

The agent is a coroutine; the walls, the relays and the setup commands are not played.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from forklift.sidecar.json_value import Json, Object, as_object, as_text, load
from forklift.testing.sandbox_memory import GuestView, Program

RUN = "/opt/forklift/harness/run.sh"
"""What a spec's `argv` holds when the image's own harness is meant."""

_HOST_GONE = 143


@dataclass(frozen=True, slots=True)
class Shift:
    """What an agent finds: the sandbox, and the job as it came through the socket."""

    view: GuestView
    job: Object

    @property
    def argv(self) -> list[str]:
        return _texts(self.job.get("argv"))

    @property
    def environment(self) -> dict[str, str]:
        return {name: as_text(value) for name, value in as_object(self.job.get("env")).items()}


Agent = Callable[[Shift], Awaitable[int]]


def harness(agent: Agent, *, breach: str | None = None) -> Program:
    """The program to register under `RUN`."""

    async def program(view: GuestView) -> int:
        door = view.path("/run/forklift/control.sock")
        reader, writer = await asyncio.open_unix_connection(str(door), limit=64 << 20)
        try:
            job = as_object(load(await reader.readline()))
            if breach is not None:
                _tell(writer, {"event": "breach", "what": breach})
                return 70
            _tell(writer, {"event": "ready", "canaries": []})
            _write_files(view, as_object(job.get("files")))
            code = await _until_host_is_gone(agent(Shift(view, job)), reader)
            if code is None:
                return _HOST_GONE
            _tell(writer, {"event": "exit", "code": code})
            await writer.drain()
            return code
        finally:
            writer.close()

    return program


async def _until_host_is_gone(work: Awaitable[int], host: asyncio.StreamReader) -> int | None:
    working = asyncio.ensure_future(work)
    listening = asyncio.ensure_future(host.read())
    try:
        await asyncio.wait({working, listening}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, listening):
            task.cancel()


def _write_files(view: GuestView, files: Object) -> None:
    for name, text in files.items():
        place = view.path(f"/harness-state/home/{name}", write=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(as_text(text), encoding="utf-8")


def _tell(writer: asyncio.StreamWriter, event: dict[str, object]) -> None:
    writer.write(json.dumps(event).encode() + b"\n")


def _texts(value: Json) -> list[str]:
    return [as_text(item) for item in value] if isinstance(value, list) else []
