"""A real guest in a real sandbox: what the attacks and the image's tests run in."""

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from forklift.core.journal import Event
from forklift.sandboxes.docker import DEFAULT_IMAGE, DockerSandboxes
from forklift.sandboxes.identity import guest_ids, write_identity
from forklift.sandboxes.owner import current_owner
from forklift.sandboxes.port import Exit, Limits, Mount, SandboxSpec
from forklift.sidecar.control import Control, Job, control_socket

HARNESS = "/opt/forklift/harness/run.sh"


@dataclass(frozen=True)
class Place:
    """A run's folders. The path is short: a socket lies below it."""

    root: Path
    uid: int
    gid: int

    @property
    def workspace(self) -> Path:
        return self.root / "workspace"

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def doors(self) -> Path:
        return self.root / "doors"

    def mounts(self) -> tuple[Mount, ...]:
        return (
            Mount(self.workspace, "/workspace", writable=True),
            Mount(self.state, "/harness-state", writable=True),
            Mount(self.doors, "/run/forklift"),
            *write_identity(self.root, self.uid, self.gid),
        )


@dataclass
class Visit:
    """How it went."""

    end: Exit
    control: Control
    output: str
    events: list[Event] = field(default_factory=list[Event])


@contextmanager
def place() -> Generator[Place]:
    root = Path(tempfile.mkdtemp(prefix="fl-"))
    uid, gid = guest_ids(os.getuid(), os.getgid())
    here = Place(root, uid, gid)
    try:
        for folder in (here.workspace, here.state, here.doors):
            folder.mkdir()
            if os.getuid() == 0:
                os.chown(folder, uid, gid)
        yield here
    finally:
        shutil.rmtree(root, ignore_errors=True)


async def spec_for(here: Place, sandboxes: DockerSandboxes, limits: Limits) -> SandboxSpec:
    image = await sandboxes.find_image(DEFAULT_IMAGE)
    return SandboxSpec(
        name=f"forklift-visit-{here.root.name}",
        run_id="visit",
        owner=current_owner(),
        deadline=datetime.now(UTC) + timedelta(minutes=3),
        image=image.digest,
        uid=here.uid,
        gid=here.gid,
        mounts=here.mounts(),
        argv=(HARNESS,),
        limits=limits,
    )


async def visit(here: Place, job: Job, limits: Limits | None = None) -> Visit:
    """Let a guest do its job to the end."""
    sandboxes = DockerSandboxes()
    spec = await spec_for(here, sandboxes, limits or Limits())
    job = replace(job, egress=False, model=False)
    events: list[Event] = []
    socket = here.doors / "control.sock"
    async with control_socket(socket, job, here.uid, here.gid, events.append) as control:
        sandbox = await sandboxes.start(spec)
        try:
            end = await sandbox.wait()
            output = (await sandbox.output(4 << 20)).decode("utf-8", "replace")
        finally:
            await sandbox.freeze()
    return Visit(end, control, output, events)


def bash(script: str) -> tuple[str, ...]:
    return ("/bin/bash", "-c", script)


def python(script: str) -> tuple[str, ...]:
    return ("/usr/bin/python3", "-c", script)
