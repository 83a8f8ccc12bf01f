"""Get the agent's commits out of its workspace, without running Git there on this machine."""

import asyncio
from datetime import timedelta

from forklift.core.journal import Event
from forklift.errors import UnsafeOutput
from forklift.git.quarantine import (
    BUNDLE_ENVIRONMENT,
    BUNDLE_PROGRAM,
    NO_BRANCH,
    TRAP,
    Quarantine,
)
from forklift.sandboxes.port import Mount, SandboxSpec
from forklift.usecases.guest_stay import identity_mounts
from forklift.usecases.kit import Kit
from forklift.usecases.live_run import LiveRun

_LARGEST = 1 << 30
_LIMIT = timedelta(minutes=10)
_OVERDUE = timedelta(minutes=2)


async def collect_result(
    kit: Kit, run: LiveRun, image: str, quarantine: Quarantine, branch: str,
    known: tuple[str, ...], limit: timedelta = _LIMIT,
) -> str:  # fmt: skip
    """The result's commit, in the quarantine. `UnsafeOutput` says why there is none.

    A second container, without network and with the workspace mounted read-only, makes the bundle:
    whatever the workspace's configuration runs, it runs in there.
    """
    parcel = run.path / "result.parcel"
    spec = SandboxSpec(
        name=f"forklift-{run.id}-bundle",
        run_id=run.id,
        owner=kit.owner,
        deadline=kit.clock() + limit + _OVERDUE,
        image=image,
        uid=kit.guest.uid,
        gid=kit.guest.gid,
        mounts=(Mount(run.workspace, "/workspace"), *identity_mounts(run.path, kit.guest)),
        argv=("/bin/sh", "-c", BUNDLE_PROGRAM, "bundle", branch, *known),
        environment=BUNDLE_ENVIRONMENT,
        limits=kit.limits,
    )
    try:
        async with asyncio.timeout(limit.total_seconds()):
            ended = await kit.sandboxes.capture(spec, parcel, _LARGEST)
    except TimeoutError as late:
        # Not the sandbox's fault: Git waits for what the agent left, such as a pipe it includes.
        raise UnsafeOutput(
            f"the workspace's repository could not be read within {limit.total_seconds():g} s"
        ) from late
    if ended.code == NO_BRANCH:
        raise UnsafeOutput(f"the workspace has no branch '{branch}' any more")
    if ended.code == TRAP:
        raise UnsafeOutput("the workspace's .git is no plain directory of plain files any more")
    if ended.code != 0:
        raise UnsafeOutput(f"the workspace's repository cannot be read (git exit {ended.code})")
    commit = await quarantine.receive(parcel, branch)
    run.record(Event("host", "result.received", {"commit": commit, "bytes": parcel.stat().st_size}))
    # The quarantine holds it now: twice would be once too often for the disk.
    for spent in (parcel, parcel.with_suffix(".bundle")):
        spent.unlink(missing_ok=True)
    return commit
