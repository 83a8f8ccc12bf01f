"""One stay in a sandbox: doors open, container started, watched, ended, everything put away."""

import asyncio
import contextlib
import os
import shutil
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from forklift.core.journal import Event
from forklift.core.model_access import Usage
from forklift.errors import SandboxUnavailable
from forklift.sandboxes.port import Mount, Sandbox, SandboxSpec
from forklift.sidecar.control import Control, Job, control_socket
from forklift.sidecar.launch import Doors, DoorsSpec, open_doors
from forklift.sidecar.policy import ModelPolicy
from forklift.stores.disk import free_bytes, room_for_the_record
from forklift.usecases.kit import Guest, Kit

ENTRYPOINT = "/opt/forklift/harness/run.sh"
HOME = "/harness-state/home"

_TRUST_VARIABLES = (
    "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT",
    "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO",
)  # fmt: skip
_IDENTITY = {
    "GIT_AUTHOR_NAME": "Forklift",
    "GIT_AUTHOR_EMAIL": "forklift@localhost",
    "GIT_COMMITTER_NAME": "Forklift",
    "GIT_COMMITTER_EMAIL": "forklift@localhost",
}
"""Whose commits they are: the sandbox knows nothing of the person."""

_POLL = 0.5
_TICK = 10.0
_LOWEST_FREE = 1 << 30
_CONTAINER_LOG = 1 << 20
_OVERDUE = timedelta(minutes=2)
"""How long after its limit a container may be ended by any Forklift that comes by."""


@dataclass(frozen=True, slots=True)
class Stay:
    """What is needed to let a guest stay."""

    run_id: str
    purpose: str
    image: str
    workspace: Path
    harness_state: Path
    record: Callable[[Event], None]
    limit: timedelta
    job: Job
    environment: Mapping[str, str]
    model: ModelPolicy | None
    tick: Callable[[Usage, float], None] = lambda _usage, _left: None
    """Called now and then with what was used so far and the seconds left: for a progress line."""

    @property
    def name(self) -> str:
        return f"forklift-{self.run_id}-{self.purpose}"


@dataclass(frozen=True, slots=True)
class Stayed:
    """How a stay ended."""

    code: int
    timed_out: bool
    connected: bool
    """Whether the image's init spoke to us; an image may bring its own harness."""
    trouble: str | None
    """Why we ended it or cannot trust its end; outranks the exit code."""
    usage: Usage
    log: bytes
    """The last of what the container printed. Hostile."""


async def stay(kit: Kit, plan: Stay) -> Stayed:
    """Let a guest in and out again. Whatever happens, the container is gone afterwards."""
    clock = SuspendClock(plan.limit)
    with sockets_directory(kit.runtime_root, plan.name, kit.guest) as sockets:
        trust = _extra_trust(kit.extra_ca, sockets)
        plan = replace(
            plan,
            environment={**plan.environment, **trust},
            job=replace(plan.job, environment={**plan.job.environment, **trust}),
        )
        doors_spec = DoorsSpec(sockets, kit.egress, plan.model, kit.guest.uid, kit.guest.gid)
        async with (
            open_doors(doors_spec, plan.record) as doors,
            _control(kit, plan, sockets) as control,
        ):
            with room_for_the_record(plan.harness_state.parent):
                sandbox = await kit.sandboxes.start(_spec(kit, plan, sockets))
                async with _gone_afterwards(kit, plan.name):
                    end = await _watch(sandbox, doors, clock, plan)
                    log = await sandbox.output(_CONTAINER_LOG)
            return Stayed(
                code=end.code,
                timed_out=end.timed_out or control.hit_deadline,
                connected=control.connected,
                trouble=end.trouble or _told(control, plan.job),
                usage=await doors.usage(),
                log=log,
            )


@contextlib.asynccontextmanager
async def _gone_afterwards(kit: Kit, name: str) -> AsyncGenerator[None]:
    """Whatever happens, the container is gone; and what happened is what is told, even where the
    engine has gone as well (the container then ends with its control connection)."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(SandboxUnavailable):
            await _to_the_end(kit.sandboxes.destroy(name))
        raise
    await _to_the_end(kit.sandboxes.destroy(name))


async def _to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Although we may be stopped meanwhile: half a removal would leave the container behind."""
    working = asyncio.ensure_future(work)
    try:
        await asyncio.shield(working)
    except asyncio.CancelledError:
        await working
        raise


class SuspendClock:
    """Time left, counted while the machine sleeps too: a limit is wall clock."""

    def __init__(self, limit: timedelta) -> None:
        self._end = self._now() + limit.total_seconds()

    def left(self) -> float:
        return self._end - self._now()

    @staticmethod
    def _now() -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)


@contextlib.contextmanager
def sockets_directory(runtime_root: Path, name: str, guest: Guest) -> Generator[Path]:
    """Where the doors listen: reachable for the guest through its mount, for nobody else here.

    The outer directory is ours alone; the inner one, which is mounted, is the guest's.
    """
    outer = runtime_root / name
    shutil.rmtree(outer, ignore_errors=True)
    outer.mkdir(parents=True, mode=0o700)
    inner = outer / "s"
    inner.mkdir(mode=0o711)
    if os.geteuid() == 0:
        os.chown(inner, guest.uid, guest.gid)
    try:
        yield inner
    finally:
        shutil.rmtree(outer, ignore_errors=True)


def _extra_trust(extra_ca: Path | None, sockets: Path) -> dict[str, str]:
    """Where a company inspects TLS: its certificates beside the usual ones, for every tool."""
    if extra_ca is None:
        return {}
    usual = Path("/etc/ssl/certs/ca-certificates.crt")
    bundle = sockets / "ca.pem"
    bundle.write_text((usual.read_text() if usual.exists() else "") + extra_ca.read_text())
    bundle.chmod(0o644)
    return dict.fromkeys(_TRUST_VARIABLES, "/run/forklift/ca.pem")


@dataclass(frozen=True, slots=True)
class _Ended:
    code: int
    timed_out: bool = False
    trouble: str | None = None


async def _watch(sandbox: Sandbox, doors: Doors, clock: SuspendClock, plan: Stay) -> _Ended:
    """Until the guest ends by itself, or the first reason to end it."""
    on_disk = plan.workspace
    next_tick = clock.left() - _TICK
    floor = min(_LOWEST_FREE, free_bytes(on_disk) // 2)
    exited = asyncio.create_task(sandbox.wait())
    broken = asyncio.create_task(doors.failure())
    try:
        while True:
            wait = max(0.0, min(_POLL, clock.left()))
            await asyncio.wait({exited, broken}, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
            if exited.done():
                full = _disk_filled(on_disk, floor)
                return full or _exit(exited.result().code, exited.result().out_of_memory)
            if (ended := _reason_to_end(broken, clock, on_disk, floor)) is not None:
                await sandbox.kill()
                return ended
            if clock.left() < next_tick:
                next_tick = clock.left() - _TICK
                plan.tick(await doors.usage(), clock.left())
    finally:
        for task in (exited, broken):
            task.cancel()
        await asyncio.gather(exited, broken, return_exceptions=True)


def _exit(code: int, out_of_memory: bool) -> _Ended:
    return _Ended(code, trouble="it ran out of memory" if out_of_memory and code else None)


def _reason_to_end(
    broken: asyncio.Task[str], clock: SuspendClock, on_disk: Path, floor: int
) -> _Ended | None:
    if clock.left() <= 0:
        return _Ended(124, timed_out=True)
    if broken.done():
        return _Ended(70, trouble=broken.result())
    return _disk_filled(on_disk, floor)


def _disk_filled(on_disk: Path, floor: int) -> _Ended | None:
    """Asked at its end too: who fills the disk and leaves must not have us blame the disk."""
    if free_bytes(on_disk) < floor:
        return _Ended(70, trouble=f"it filled the disk to less than {floor >> 20} MiB free")
    return None


def _told(control: Control, job: Job) -> str | None:
    """What the guest's init reported that outranks an exit code."""
    if control.breach is not None:
        return f"the sandbox is not tight: {control.breach}; nothing was run in it"
    if control.fault is not None:
        return f"the sandbox's init could not start the job: {control.fault}"
    if control.setup_failed is not None:
        index, code = control.setup_failed
        command = job.setup[index] if index < len(job.setup) else "?"
        return f"FORK.md's setup command failed with {code}: {command}"
    return None


def _control(
    kit: Kit, plan: Stay, sockets: Path
) -> contextlib.AbstractAsyncContextManager[Control]:
    return control_socket(
        sockets / "control.sock", plan.job, kit.guest.uid, kit.guest.gid, plan.record
    )


def _spec(kit: Kit, plan: Stay, sockets: Path) -> SandboxSpec:
    return SandboxSpec(
        name=plan.name,
        run_id=plan.run_id,
        owner=kit.owner,
        deadline=kit.clock() + plan.limit + _OVERDUE,
        image=plan.image,
        uid=kit.guest.uid,
        gid=kit.guest.gid,
        mounts=(
            Mount(plan.workspace, "/workspace", writable=True),
            Mount(plan.harness_state, "/harness-state", writable=True),
            Mount(sockets, "/run/forklift"),
            *identity_mounts(plan.harness_state.parent, kit.guest),
        ),
        argv=(ENTRYPOINT,),
        environment={**_IDENTITY, **plan.environment},
        limits=kit.limits,
    )


def identity_mounts(directory: Path, guest: Guest) -> tuple[Mount, ...]:
    """A passwd and a group that know the guest: without one, whoami, Node and git idents fail."""
    files = {
        "passwd": f"root:x:0:0:root:/root:/usr/sbin/nologin\n"
        f"forklift:x:{guest.uid}:{guest.gid}:Forklift:{HOME}:/bin/bash\n",
        "group": f"root:x:0:\nforklift:x:{guest.gid}:\n",
    }
    for name, text in files.items():
        file = directory / name
        if not file.exists():
            file.write_text(text)
            file.chmod(0o644)
    return tuple(Mount(directory / name, f"/etc/{name}") for name in files)
