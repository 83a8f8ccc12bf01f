"""Sandboxes without containers: a guest is a coroutine that sees its mounts as local folders.

Passes the same conformance suite as Docker. What it cannot give is isolation.
"""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from io import BufferedWriter
from pathlib import Path, PurePosixPath

from forklift.errors import SandboxUnavailable, SetupError, UnsafeOutput
from forklift.sandboxes.port import Exit, Image, Owner, Sandbox, SandboxSpec

_KILLED = 137
_SINK_CODE = 141


class GuestView:
    """What a program in a sandbox has: arguments, environment, mounts, a place to print to."""

    def __init__(self, spec: SandboxSpec, printed: "_Printed") -> None:
        self.spec = spec
        self.argv = spec.argv
        self.environment = dict(spec.environment)
        self._printed = printed

    def path(self, guest_path: str, *, write: bool = False) -> Path:
        """Where a path of the guest's lies here. Raises `OSError` as the kernel would."""
        wanted = PurePosixPath(guest_path)
        for mount in sorted(self.spec.mounts, key=lambda mount: -len(mount.target)):
            if wanted.is_relative_to(mount.target):
                if write and not mount.writable:
                    raise PermissionError(f"{guest_path}: read-only file system")
                return mount.source / wanted.relative_to(mount.target)
        raise FileNotFoundError(f"{guest_path}: no such file or directory")

    async def print(self, text: str | bytes) -> None:
        """To stdout. Gives way to the others first, as a program that writes does."""
        await asyncio.sleep(0)
        self._printed.add(text.encode() if isinstance(text, str) else text)


Program = Callable[[GuestView], Awaitable[int]]


class _Printed:
    """The last of what a guest printed; a capture counts and keeps all of it."""

    def __init__(self, keep: int, limit: int | None = None) -> None:
        self._keep = keep
        self._limit = limit
        self._total = 0
        self._kept = bytearray()

    def add(self, data: bytes) -> None:
        self._total += len(data)
        if self.overflowed:
            raise BrokenPipeError("nobody reads this any more")
        self._kept += data
        if self._limit is None:
            del self._kept[: -self._keep]

    @property
    def overflowed(self) -> bool:
        return self._limit is not None and self._total > self._limit

    def all(self) -> bytes:
        if self.overflowed:
            raise UnsafeOutput(f"the sandbox gave more than {self._limit} bytes")
        return bytes(self._kept)

    def tail(self, limit: int) -> bytes:
        return bytes(self._kept[-limit:]) if limit else b""


@dataclass(eq=False)
class MemorySandbox:
    """One running coroutine."""

    _spec: SandboxSpec
    _task: asyncio.Task[int]
    _printed: _Printed
    _forget: Callable[["MemorySandbox"], None]

    @property
    def spec(self) -> SandboxSpec:
        return self._spec

    async def wait(self) -> Exit:
        await asyncio.wait([self._task])
        return Exit(_KILLED if self._task.cancelled() else self._task.result())

    async def kill(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def output(self, limit: int) -> bytes:
        return self._printed.tail(limit)

    async def freeze(self) -> None:
        await self.kill()
        self._forget(self)


@dataclass
class MemorySandboxes:
    """A backend. `programs` maps what may stand first in a spec's `argv` to what then runs."""

    programs: Mapping[str, Program]
    images: tuple[Image, ...] = (Image("forklift/kitchen-sink:latest", "sha256:0", "1"),)
    down: str | None = None
    """Set it, and every call raises `SandboxUnavailable` with these words."""
    started: list[SandboxSpec] = field(default_factory=list[SandboxSpec])
    """Every spec that was ever started, captures included."""
    _living: dict[str, MemorySandbox] = field(default_factory=dict[str, MemorySandbox])

    async def probe(self) -> str:
        self._answer()
        return "memory 1"

    async def find_image(self, name: str) -> Image:
        self._answer()
        for image in self.images:
            if image.name == name:
                return image
        raise SandboxUnavailable(f"no image {name} on this machine")

    async def start(self, spec: SandboxSpec) -> Sandbox:
        await asyncio.sleep(0)  # a start takes a while: others run, and it can be cancelled
        return self._start(spec, _Printed(keep=spec.limits.log_bytes))

    async def resume(self, spec: SandboxSpec) -> Sandbox:
        await self.destroy(spec.name)
        return await self.start(spec)

    async def capture(self, spec: SandboxSpec, into: Path, limit: int) -> Exit:
        printed = _Printed(keep=0, limit=limit)
        file = _new_file(into)
        try:
            sandbox = self._start(spec, printed)
            try:
                end = await sandbox.wait()
            finally:
                await sandbox.freeze()
            file.write(printed.all())
        except BaseException:
            into.unlink()
            raise
        finally:
            file.close()
        return end

    async def destroy(self, name: str) -> None:
        self._answer()
        if name in self._living:
            await self._living[name].freeze()

    async def reap(self, is_dead: Callable[[Owner], bool], now: datetime) -> list[str]:
        self._answer()
        specs = [sandbox.spec for sandbox in self._living.values()]
        left = [spec.name for spec in specs if is_dead(spec.owner) or spec.deadline < now]
        for name in left:
            await self.destroy(name)
        return left

    def _start(self, spec: SandboxSpec, printed: _Printed) -> MemorySandbox:
        self._answer()
        if spec.name in self._living:
            raise SandboxUnavailable("a sandbox of that name exists already")
        if spec.image not in {image.digest for image in self.images}:
            raise SandboxUnavailable("the image is gone")
        program = self.programs.get(spec.argv[0])
        if program is None:
            raise SandboxUnavailable(f"{spec.argv[0]}: no such file or directory")
        for mount in spec.mounts:
            if not mount.source.exists():
                raise SandboxUnavailable(f"{mount.source} does not exist")
        task = asyncio.ensure_future(_run(program, GuestView(spec, printed)))
        sandbox = MemorySandbox(spec, task, printed, self._remove)
        self.started.append(spec)
        self._living[spec.name] = sandbox
        return sandbox

    def _remove(self, sandbox: MemorySandbox) -> None:
        if self._living.get(sandbox.spec.name) is sandbox:
            del self._living[sandbox.spec.name]

    def _answer(self) -> None:
        if self.down is not None:
            raise SandboxUnavailable(self.down)


async def _run(program: Program, view: GuestView) -> int:
    try:
        return await program(view)
    except BrokenPipeError:
        return _SINK_CODE
    except OSError as error:
        with contextlib.suppress(BrokenPipeError):
            await view.print(f"{error}\n")
        return 1


def _new_file(path: Path) -> BufferedWriter:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        return os.fdopen(os.open(path, flags, 0o600), "wb")
    except OSError as error:
        raise SetupError(f"cannot make {path}: {error.strerror}; check the run's folder") from error
