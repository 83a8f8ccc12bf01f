"""Run the fork's own tests in a sandbox: on the result, and where they fail, on what was before."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from forklift.core.instructions import shell_words
from forklift.core.pull_request import CheckRun
from forklift.core.text import one_line
from forklift.errors import UnsafeOutput
from forklift.git.bare import BareRepository
from forklift.git.workspace import make_workspace
from forklift.sidecar.control import Job
from forklift.stores.trees import hand_over, remove_tree
from forklift.stores.untrusted import read_text
from forklift.usecases.guest_stay import HOME, Stay, Stayed, stay
from forklift.usecases.kit import Kit
from forklift.usecases.live_run import LiveRun

_OUTPUT = "output.txt"
_OUTPUT_LIMIT = 4 << 20
_TAIL = 4000


@dataclass(frozen=True, slots=True)
class CheckPlan:
    setup: tuple[str, ...]
    test: tuple[str, ...]
    branch: str
    limit: timedelta


@dataclass(frozen=True, slots=True)
class Checked:
    """The tests on the result, seen beside the tests on what was before."""

    runs: tuple[CheckRun, ...]
    regressed: bool = False
    """They passed on origin's branch and fail on the result."""
    failing: str = ""
    """What they printed last on the result."""


@dataclass(frozen=True, slots=True)
class _One:
    passed: bool
    decided: bool
    """False: out of time, or the image cannot run them; says nothing about the result."""
    note: str
    tail: str


async def run_checks(
    kit: Kit, run: LiveRun, image: str, plan: CheckPlan, objects: Sequence[BareRepository],
    result: str, before: str,
) -> Checked:  # fmt: skip
    if not plan.test:
        return Checked(())
    command = "; ".join(plan.test)
    after = await _check(kit, run, image, plan, objects, result, "result")
    row = CheckRun(command, after.passed, after.note, after.decided)
    if after.passed or not after.decided:
        return Checked((row,))
    earlier = await _check(kit, run, image, plan, objects, before, "before")
    regressed = earlier.passed
    note = "on the fork before the merge" + (f"; {earlier.note}" if earlier.note else "")
    rows = (row, CheckRun(command, earlier.passed, note, earlier.decided))
    return Checked(rows, regressed, after.tail if regressed else "")


async def _check(
    kit: Kit, run: LiveRun, image: str, plan: CheckPlan, objects: Sequence[BareRepository],
    commit: str, which: str,
) -> _One:  # fmt: skip
    room = _new_room(run.path, f"check-{which}")
    workspace, state = room / "workspace", room / "harness-state"
    state.mkdir()
    try:
        await make_workspace(objects, workspace, branch=plan.branch, commit=commit, refs={})
        for directory in (workspace, state):
            hand_over(directory, kit.guest.uid, kit.guest.gid)
        ended = await stay(kit, _stay(run, image, plan, workspace, state))
        return _read(ended, plan, _tail(kit, state))
    finally:
        # The result lies in the quarantine; a copy per check would fill the disk with time.
        remove_tree(workspace)


def _new_room(path: Path, name: str) -> Path:
    room = path / name
    if room.exists():
        # Git's own merge was tested before the agent's result: what it printed is kept beside.
        room.rename(path / f"{name}-git-alone")
    room.mkdir(mode=0o700)
    return room


def _stay(run: LiveRun, image: str, plan: CheckPlan, workspace: Path, state: Path) -> Stay:
    limit = plan.limit.total_seconds()
    environment = {"HOME": HOME, "PWD": "/workspace"}
    return Stay(
        run_id=run.id,
        purpose=workspace.parent.name,
        image=image,
        workspace=workspace,
        harness_state=state,
        record=run.record,
        limit=plan.limit,
        environment=environment,
        model=None,
        job=Job(
            # Most test runners complain on standard error: both in one stream, in their order.
            argv=("/bin/bash", "-c", f"exec 2>&1\n{shell_words(plan.test)}"),
            environment=environment,
            files={},
            stdin="",
            setup=plan.setup,
            cwd="/workspace",
            transcript=_OUTPUT,
            transcript_cap=_OUTPUT_LIMIT,
            seconds=limit - min(5.0, limit / 10),
            egress=True,
            model=False,
        ),
    )


def _read(ended: Stayed, plan: CheckPlan, tail: str) -> _One:
    if not ended.connected:
        return _One(False, False, "not run: the image brings a harness of its own", "")
    if ended.timed_out:
        seconds = plan.limit.total_seconds()
        return _One(False, False, f"not finished within {seconds:g} s", tail)
    if ended.trouble is not None:
        return _One(False, False, f"not finished: {one_line(ended.trouble)}", tail)
    note = "" if ended.code == 0 else f"exit {ended.code}"
    return _One(ended.code == 0, True, note, tail)


def _tail(kit: Kit, state: Path) -> str:
    try:
        text = read_text(state / _OUTPUT, _OUTPUT_LIMIT, root=state) or ""
    except UnsafeOutput:
        return ""
    return kit.redact(text[-_TAIL:])
