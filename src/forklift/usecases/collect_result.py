"""Get the agent's commits out of its workspace, without running Git there on this machine."""

from datetime import timedelta

from forklift.core.journal import Event
from forklift.errors import UnsafeOutput
from forklift.git.quarantine import BUNDLE_ENVIRONMENT, BUNDLE_PROGRAM, Quarantine
from forklift.sandboxes.port import Mount, SandboxSpec
from forklift.usecases.guest_stay import identity_mounts
from forklift.usecases.kit import Kit
from forklift.usecases.live_run import LiveRun

_LARGEST = 1 << 30
_LIMIT = timedelta(minutes=10)
_NO_BRANCH = 3


async def collect_result(
    kit: Kit, run: LiveRun, image: str, quarantine: Quarantine, branch: str, known: tuple[str, ...]
) -> str:
    """The result's commit, in the quarantine. `UnsafeOutput` says why there is none.

    A second container, without network and with the workspace mounted read-only, makes the bundle:
    whatever the workspace's configuration runs, it runs in there.
    """
    parcel = run.path / "result.parcel"
    spec = SandboxSpec(
        name=f"forklift-{run.id}-bundle",
        run_id=run.id,
        owner=kit.owner,
        deadline=kit.clock() + _LIMIT,
        image=image,
        uid=kit.guest.uid,
        gid=kit.guest.gid,
        mounts=(Mount(run.workspace, "/workspace"), *identity_mounts(run.path, kit.guest)),
        argv=("/bin/sh", "-c", BUNDLE_PROGRAM, "bundle", branch, *known),
        environment=BUNDLE_ENVIRONMENT,
        limits=kit.limits,
    )
    ended = await kit.sandboxes.capture(spec, parcel, _LARGEST)
    if ended.code == _NO_BRANCH:
        raise UnsafeOutput(f"the workspace has no branch '{branch}' any more")
    if ended.code != 0:
        raise UnsafeOutput(f"the workspace's repository cannot be read (git exit {ended.code})")
    commit = await quarantine.receive(parcel, branch)
    run.record(Event("host", "result.received", {"commit": commit, "bytes": parcel.stat().st_size}))
    return commit
