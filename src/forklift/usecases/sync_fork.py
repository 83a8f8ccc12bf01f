"""Bring a fork up to date with its upstream. `sync_fork` reads like the list in the manual."""

import os
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from forklift.core import outcome
from forklift.core.ids import head_branch
from forklift.core.instructions import Brief
from forklift.core.journal import Event
from forklift.core.merge_verdict import OVERLAY_NAMES, Verdict, named
from forklift.core.model_access import Budget, ModelChoice
from forklift.core.outcome import End, UpToDate
from forklift.core.text import harmless
from forklift.errors import SetupError, UnsafeOutput
from forklift.git.bare import Forecast
from forklift.git.quarantine import Quarantine
from forklift.git.workspace import make_workspace
from forklift.sandboxes.port import Image
from forklift.stores import run_directory
from forklift.stores.fork_lock import Holder, hold
from forklift.stores.trees import hand_over
from forklift.usecases.at_once import all_or_none
from forklift.usecases.collect_result import collect_result
from forklift.usecases.describe import Findings, describe_forecast, metadata, parcel_of
from forklift.usecases.judge_merge import judge_merge
from forklift.usecases.kit import Kit, OpenForge, Watch
from forklift.usecases.live_run import LiveRun
from forklift.usecases.parcel import read_parcel, write_parcel
from forklift.usecases.publish import Wishes, publish
from forklift.usecases.reap_orphans import reap_orphans
from forklift.usecases.run_agent import AgentDone, AgentPlan, run_agent
from forklift.usecases.run_checks import Checked, CheckPlan, run_checks
from forklift.usecases.survey import (
    Ground,
    Heads,
    Notes,
    fetch_heads,
    find_ground,
    read_notes,
    remember,
)
from forklift.usecases.to_its_end import to_its_end, told_plainly
from forklift.usecases.waiting import waiting_for_a_person


@dataclass(frozen=True, slots=True)
class SyncOrder:
    """What the person asked for."""

    path: Path
    choice: ModelChoice
    agent: str
    branch: str | None = None
    target: str = "tip"
    limit: timedelta = timedelta(seconds=480)
    budget: Budget = field(default_factory=Budget)
    instructions: tuple[str, ...] = ()
    agent_always: bool = False
    dry_run: bool = False
    wishes: Wishes = field(default_factory=Wishes)


@dataclass(frozen=True, slots=True)
class _Scene:
    """All that is known before a run directory exists."""

    ground: Ground
    forge: OpenForge | None
    image: Image
    heads: Heads
    notes: Notes


async def sync_fork(order: SyncOrder, kit: Kit, watch: Watch) -> End:
    """One attempt at one fork. What a person must repair raises a `ForkliftError`."""
    with told_plainly(kit, kit.state_root):
        ground, image = await _find(order, kit)
        watch.step("looking at the forge")
        forge = await kit.open_forge(ground.origin)
        if forge is not None:
            # For fetching too: a private fork may be known to nothing but its forge's token.
            ground = replace(ground, origin=ground.origin.with_token(forge.user, forge.token))
        try:
            with hold(kit.state_root, ground.key, Holder("", kit.owner.pid, kit.clock())) as lock:
                watch.step(f"fetching {ground.origin.url} and {ground.upstream.url}")
                heads, _ = await all_or_none(
                    fetch_heads(ground, order.branch, order.target), reap_orphans(kit, watch)
                )
                if done := await _nothing_to_do(kit, ground, heads, forge, order, watch):
                    return done
                forecast = await _forecast(ground, heads)
                scene = _Scene(ground, forge, image, heads, await read_notes(ground, heads))
                if order.dry_run:
                    return await describe_forecast(ground, heads, forecast)
                directory = run_directory.create(kit.state_root, ground.project, kit.clock())
                run = LiveRun(kit, directory)
                lock.say(Holder(run.id, kit.owner.pid, kit.clock()))
                end = await to_its_end(kit, run, _run(kit, run, scene, forecast, order, watch))
                await remember(ground, heads)
                return end
        finally:
            if forge is not None:
                await forge.pull_requests.aclose()


async def _find(order: SyncOrder, kit: Kit) -> tuple[Ground, Image]:
    """Everything cheap that could make a costly run useless."""
    return await all_or_none(
        find_ground(order.path, kit.state_root), kit.sandboxes.find_image(kit.image)
    )


async def _nothing_to_do(
    kit: Kit, ground: Ground, heads: Heads, forge: OpenForge | None, order: SyncOrder, watch: Watch
) -> End | None:
    """Up to date; or done already and waiting for a person; or done and only to be published."""
    if await ground.depot.is_ancestor(heads.upstream, heads.origin):
        await remember(ground, heads)
        return UpToDate(f"up to date: {heads.base} has all of upstream {heads.upstream_ref}")
    if order.dry_run:
        return None
    if order.agent_always:
        return None
    if (end := await _publish_earlier(kit, ground, heads, forge, order, watch)) is not None:
        return end
    return await waiting_for_a_person(ground, heads, forge, order.wishes)


async def _publish_earlier(
    kit: Kit, ground: Ground, heads: Heads, forge: OpenForge | None, order: SyncOrder, watch: Watch
) -> End | None:
    """A run that was killed, or refused, between its verdict and its pull request goes on here."""
    for directory in run_directory.all_runs(kit.state_root):
        facts = directory.metadata()
        same = (facts.get("fork"), facts.get("origin_commit"), facts.get("upstream_commit"))
        if same != (ground.key, heads.origin, heads.upstream):
            continue
        parcel = read_parcel(directory.path)
        if parcel is None or directory.state().word in {"merged", "up-to-date"}:
            continue
        watch.step(f"publishing the verified result of run {directory.id}")
        run = LiveRun(kit, directory)
        publishing = publish(kit, run, ground, heads, forge, parcel, order.wishes)
        end = await to_its_end(kit, run, publishing)
        await remember(ground, heads)
        return end
    return None


async def _forecast(ground: Ground, heads: Heads) -> Forecast:
    if await ground.depot.merge_base(heads.origin, heads.upstream) is None:
        raise SetupError(
            f"origin {heads.base} and upstream {heads.upstream_ref} have no commit in common;"
            " is upstream the project that this is a fork of? see: git remote -v"
        )
    return await ground.depot.forecast(heads.origin, heads.upstream)


async def _run(
    kit: Kit, run: LiveRun, scene: _Scene, forecast: Forecast, order: SyncOrder, watch: Watch
) -> End:
    run.directory.write_metadata(metadata(kit, scene, order), kit.redact)
    run.record(Event("host", "run.started", {"fork": scene.ground.key}))
    return await _attempt(kit, run, scene, forecast, order, watch)


async def _attempt(
    kit: Kit, run: LiveRun, scene: _Scene, forecast: Forecast, order: SyncOrder, watch: Watch
) -> End:
    """Git alone first; the agent only where Git cannot, or where its clean merge breaks tests."""
    quarantine = Quarantine(run.path / "quarantine.git", scene.ground.depot)
    await quarantine.create()
    failing = ""
    if forecast.clean and not order.agent_always:
        watch.step("Git merges this alone")
        commit = await _merge_alone(quarantine, scene.heads, forecast)
        checked = await _check(kit, run, scene, quarantine, commit, order, watch)
        if not checked.regressed:
            return await _conclude(kit, run, scene, forecast, order, watch, commit, checked, None)
        failing = checked.failing or "(nothing)"
    result = await _merge_by_agent(kit, run, scene, forecast, order, watch, quarantine, failing)
    if not isinstance(result, _ByAgent):
        return result
    checked = await _check(kit, run, scene, quarantine, result.commit, order, watch)
    return await _conclude(
        kit, run, scene, forecast, order, watch, result.commit, checked, result.done
    )


async def _merge_alone(quarantine: Quarantine, heads: Heads, forecast: Forecast) -> str:
    """The merge commit, made without a checkout; upstream itself where the fork has nothing."""
    if await quarantine.is_ancestor(heads.origin, heads.upstream):
        await quarantine.keep(heads.upstream)
        return heads.upstream
    message = f"Merge upstream {heads.upstream_ref} into {heads.base}\n"
    commit = await quarantine.commit(forecast.tree, [heads.origin, heads.upstream], message)
    await quarantine.keep(commit)
    return commit


@dataclass(frozen=True, slots=True)
class _ByAgent:
    commit: str
    done: AgentDone


async def _merge_by_agent(
    kit: Kit, run: LiveRun, scene: _Scene, forecast: Forecast, order: SyncOrder, watch: Watch,
    quarantine: Quarantine, failing: str,
) -> End | _ByAgent:  # fmt: skip
    heads = scene.heads
    watch.step("preparing the workspace")
    await _prepare(kit, run, scene)
    why = named(forecast.conflicts) if forecast.conflicts else "the tests fail on a clean merge"
    watch.step(f"the agent is at work in its sandbox, until done or {order.limit}: {why}")
    plan = await _plan(scene, forecast, order, failing)
    ended = await run_agent(kit, run, scene.image.digest, plan, watch)
    if not isinstance(ended, AgentDone):
        return ended
    watch.step("receiving and verifying the result")
    try:
        commit = await collect_result(
            kit, run, scene.image.digest, quarantine, heads.base, (heads.origin, heads.upstream)
        )
    except UnsafeOutput as unsafe:
        return outcome.Unverified(
            f"the result cannot be taken: {unsafe.message}", (unsafe.message,)
        )
    return _ByAgent(commit, ended)


async def _prepare(kit: Kit, run: LiveRun, scene: _Scene) -> None:
    heads = scene.heads
    refs = {f"refs/remotes/upstream/{heads.upstream_ref}": heads.upstream}
    # The name that instructions and habits know, whatever upstream calls its branch.
    refs.setdefault("refs/remotes/upstream/main", heads.upstream)
    await make_workspace(
        [scene.ground.depot], run.workspace, branch=heads.base, commit=heads.origin, refs=refs,
        unseen=OVERLAY_NAMES,
    )  # fmt: skip
    if scene.notes.overlay is not None:
        _lay_over(run.workspace, *scene.notes.overlay)
    (run.harness_state / "home").mkdir(exist_ok=True)
    for directory in (run.workspace, run.harness_state):
        hand_over(directory, kit.guest.uid, kit.guest.gid)


def _lay_over(workspace: Path, name: str, text: str) -> None:
    """Put the owner's notes beside the code. They are in the instructions as well: where the tree
    has something of that name, or a link on the way, it stays as it is."""
    place = workspace / name
    folder = place.parent
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()) or os.path.lexists(place):
        return
    folder.mkdir(exist_ok=True)
    place.write_text(text)


async def _plan(scene: _Scene, forecast: Forecast, order: SyncOrder, failing: str) -> AgentPlan:
    heads, notes = scene.heads, scene.notes.content
    stuck = await scene.ground.depot.file(heads.origin, "STUCK.md", 64 << 10)
    return AgentPlan(
        brief=Brief(
            branch=heads.base,
            upstream=f"upstream/{heads.upstream_ref}",
            limit=order.limit,
            conflicts=forecast.conflicts,
            tests=notes.test,
            failing=failing,
            fork_notes=notes.prose,
            extra=order.instructions,
        ),
        choice=order.choice,
        agent=order.agent,
        setup=notes.setup,
        limit=order.limit,
        budget=order.budget,
        fork_context=notes.prose,
        known_stuck=harmless(stuck) if stuck is not None else None,
    )


async def _check(
    kit: Kit, run: LiveRun, scene: _Scene, quarantine: Quarantine, commit: str, order: SyncOrder,
    watch: Watch,
) -> Checked:  # fmt: skip
    notes = scene.notes.content
    if notes.test:
        watch.step(f"running the fork's tests in a sandbox: {'; '.join(notes.test)}")
    plan = CheckPlan(notes.setup, notes.test, scene.heads.base, order.limit)
    objects = [scene.ground.depot, quarantine]
    return await run_checks(kit, run, scene.image.digest, plan, objects, commit, scene.heads.origin)


async def _conclude(
    kit: Kit, run: LiveRun, scene: _Scene, forecast: Forecast, order: SyncOrder, watch: Watch,
    commit: str, checked: Checked, agent: AgentDone | None,
) -> End:  # fmt: skip
    """Judge, write down, publish."""
    quarantine = Quarantine(run.path / "quarantine.git", scene.ground.depot)
    try:
        verdict = await judge_merge(
            quarantine, scene.heads, forecast, commit, scene.notes.content,
            run.workspace if agent else None,
        )  # fmt: skip
    except UnsafeOutput as unsafe:
        return outcome.Unverified(
            f"the result cannot be judged: {unsafe.message}", (unsafe.message,)
        )
    run.record(_verdict_event(commit, verdict))
    if not verdict.sound:
        return outcome.Unverified("; ".join(verdict.withheld), verdict.withheld)
    findings = Findings(commit, forecast, verdict, checked, agent, run.id, run.usage, order.choice)
    branch = head_branch(kit.clock(), run.id)
    parcel = await parcel_of(quarantine, scene.ground, scene.heads, findings, branch)
    write_parcel(run.path, parcel, kit.redact)
    watch.step("publishing")
    return await publish(kit, run, scene.ground, scene.heads, scene.forge, parcel, order.wishes)


def _verdict_event(commit: str, verdict: Verdict) -> Event:
    facts = {
        "commit": commit,
        "sound": verdict.sound,
        "withheld": list(verdict.withheld),
        "doubts": list(verdict.doubts),
        "decisions": [decision.path for decision in verdict.decisions[:100]],
    }
    return Event("host", "result.judged", facts)
