"""The stand-in for the image's harness keeps init's side of control.sock."""

import asyncio
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from forklift.sandboxes.owner import current_owner
from forklift.sandboxes.port import Exit, Mount, SandboxSpec
from forklift.sidecar.control import Control, Job, control_socket
from forklift.testing.sandbox_harness import RUN, Shift, harness
from forklift.testing.sandbox_memory import MemorySandboxes, Program


@pytest.fixture
def spec(tmp_path: Path) -> SandboxSpec:
    for name in ("workspace", "state", "doors"):
        (tmp_path / name).mkdir()
    return SandboxSpec(
        name="forklift-harness",
        run_id="harness",
        owner=current_owner(),
        deadline=datetime.now(UTC) + timedelta(minutes=1),
        image="sha256:0",
        uid=1000,
        gid=1000,
        mounts=(
            Mount(tmp_path / "workspace", "/workspace", writable=True),
            Mount(tmp_path / "state", "/harness-state", writable=True),
            Mount(tmp_path / "doors", "/run/forklift"),
        ),
        argv=(RUN,),
    )


async def run(spec: SandboxSpec, program: Program, job: Job) -> tuple[Exit, Control, bytes]:
    door = spec.mounts[2].source / "control.sock"
    async with control_socket(door, job, os.getuid(), os.getgid(), lambda _: None) as control:
        sandbox = await MemorySandboxes({RUN: program}).start(spec)
        end = await sandbox.wait()
        await asyncio.wait_for(control.first_word(), 10)
    return end, control, await sandbox.output(1000)


async def test_an_agent_is_given_its_job_and_its_end_is_told(spec: SandboxSpec) -> None:
    async def agent(shift: Shift) -> int:
        home = shift.view.path("/harness-state/home/.config/x").read_text()
        await shift.view.print(f"{shift.argv} {shift.environment['TOKEN']} {home}")
        shift.view.path("/workspace/result", write=True).write_text("done")
        return 4

    job = Job(("agent", "go"), environment={"TOKEN": "t"}, files={".config/x": "y"})
    end, control, output = await run(spec, harness(agent), job)
    assert (end.code, output) == (4, b"['agent', 'go'] t y")
    assert control.ready.is_set()
    assert (spec.mounts[0].source / "result").read_text() == "done"


async def test_a_breach_can_be_played(spec: SandboxSpec) -> None:
    async def agent(shift: Shift) -> int:
        raise AssertionError("started behind a broken wall")

    end, control, _ = await run(spec, harness(agent, breach="a gap"), Job(("agent",)))
    assert (end.code, control.breach, control.ready.is_set()) == (70, "a gap", False)


async def test_the_agent_ends_when_the_host_lets_go(spec: SandboxSpec) -> None:
    async def agent(shift: Shift) -> int:
        await asyncio.sleep(600)
        return 0

    door = spec.mounts[2].source / "control.sock"
    job = Job(("agent",))
    async with control_socket(door, job, os.getuid(), os.getgid(), lambda _: None) as control:
        sandbox = await MemorySandboxes({RUN: harness(agent)}).start(spec)
        await asyncio.wait_for(control.ready.wait(), 10)
    assert (await sandbox.wait()).code == 143


async def test_a_mount_that_is_read_only_is_so_here_too(spec: SandboxSpec) -> None:
    async def agent(shift: Shift) -> int:
        with pytest.raises(PermissionError):
            shift.view.path("/run/forklift/egress.sock", write=True)
        with pytest.raises(FileNotFoundError):
            shift.view.path("/etc/passwd")
        return 0

    sealed = replace(spec, name="forklift-sealed")
    assert (await run(sealed, harness(agent), Job(("agent",))))[0].code == 0
