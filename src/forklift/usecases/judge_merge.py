"""Gather the facts about a result, all from the quarantine, and have them judged."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from forklift.core.fork_notes import ForkNotes, matches
from forklift.core.merge_verdict import MergeFacts, Sides, Verdict, judge, named, traces
from forklift.core.text import one_line
from forklift.errors import UnsafeOutput
from forklift.git.bare import BareRepository, Change, Entry, Forecast
from forklift.git.command import GitFailed, GitStalled, GitTooLoud
from forklift.stores.untrusted import exists_safely
from forklift.usecases.survey import Heads

_LARGEST_READ = 4 << 20
_MOST_MORE = 500_000
_SUBMODULE = "160000"
_UNFINISHED = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")


async def judge_merge(
    repository: BareRepository, heads: Heads, forecast: Forecast, result: str, notes: ForkNotes,
    workspace: Path | None,
) -> Verdict:  # fmt: skip
    """`workspace` is where the agent worked; None when Git made the merge alone.

    Raises `UnsafeOutput` for a result that cannot be looked at.
    """
    if workspace is None and forecast.clean:
        return await _judge_gits_own(repository, heads, result, notes)
    try:
        return await _judge(repository, heads, forecast, result, notes, workspace)
    except (GitFailed, GitStalled, GitTooLoud) as failed:
        if workspace is None or "No space left" in str(failed):
            raise
        # The agent made these objects: what Git dies of is theirs.
        raise UnsafeOutput(f"git cannot look at it ({one_line(str(failed))})") from failed


async def _judge_gits_own(
    repository: BareRepository, heads: Heads, result: str, notes: ForkNotes
) -> Verdict:
    """Git made this merge from both sides itself: only what the owner protects is to be asked."""
    is_protected = _protection(notes)
    changed = await repository.changes(heads.origin, result) if notes.protect else []
    protected = tuple(change.path for change in changed if is_protected(change.path))
    doubts = (f"protected paths changed: {named(protected)}",) if protected else ()
    return Verdict((), doubts, (), protected)


async def _judge(
    repository: BareRepository, heads: Heads, forecast: Forecast, result: str, notes: ForkNotes,
    workspace: Path | None,
) -> Verdict:  # fmt: skip
    if await repository.holds_more_files(heads.origin, result, _MOST_MORE):
        raise UnsafeOutput(f"it holds over {_MOST_MORE} more files than the fork")
    base = await repository.merge_base(heads.origin, heads.upstream) or heads.origin
    from_fork, from_upstream, from_automatic, by_fork, by_upstream = await asyncio.gather(
        repository.changes(heads.origin, result),
        repository.changes(heads.upstream, result),
        repository.changes(forecast.tree, result),
        repository.changes(base, heads.origin),
        repository.changes(base, heads.upstream),
    )
    has_upstream, has_fork, fork_tree = await asyncio.gather(
        repository.is_ancestor(heads.upstream, result),
        repository.is_ancestor(heads.origin, result),
        repository.tree_of(heads.origin),
    )
    sides = _sides(
        {"fork": from_fork, "upstream": from_upstream, "automatic": from_automatic}, by_fork
    )
    facts = MergeFacts(
        has_upstream=has_upstream,
        has_fork=has_fork,
        merge_in_progress=workspace is not None and _unfinished(workspace),
        same_tree_as_fork=not from_fork,
        upstream_changed_files=bool(by_upstream),
        automatic_is_fork=forecast.clean and forecast.tree == fork_tree,
        conflicts=frozenset(forecast.conflicts),
        sides=sides,
        is_protected=_protection(notes),
    )
    return judge(facts, await _contents(repository, sides))


def _sides(from_side: Mapping[str, list[Change]], by_fork: list[Change]) -> tuple[Sides, ...]:
    """Put the four comparisons together, path by path.

    A path that a comparison does not list is there as in the result; one that the fork did not
    change is in the base as in the fork.
    """
    before = {
        name: {change.path: _id(change.before) for change in changes}
        for name, changes in from_side.items()
    }
    results = {c.path: _id(c.after) for changes in from_side.values() for c in changes}
    changed_by_fork = {change.path: change for change in by_fork}
    rows: list[Sides] = []
    for path, result in sorted(results.items()):
        fork = before["fork"].get(path, result)
        change = changed_by_fork.get(path)
        rows.append(
            Sides(
                path=path,
                fork=fork,
                upstream=before["upstream"].get(path, result),
                automatic=before["automatic"].get(path, result),
                result=result,
                base=_id(change.before) if change else fork,
            )
        )
    return tuple(rows)


def _id(entry: Entry | None) -> str | None:
    """Mode and object as one: a file that became executable is a change too."""
    return None if entry is None else f"{entry.mode}:{entry.oid}"


async def _contents(repository: BareRepository, sides: tuple[Sides, ...]) -> dict[str, bytes]:
    """What stands in the files that are neither the fork's nor upstream's, and in those two."""
    ids = [
        oid
        for side in sides
        if side.result not in {None, side.fork, side.upstream}
        for oid in (side.result, side.fork, side.upstream)
        if oid and not oid.startswith(_SUBMODULE)
    ]
    blobs = await repository.blobs((_oid(each) for each in ids), _LARGEST_READ, traces)
    return {each: blobs[_oid(each)] for each in ids if _oid(each) in blobs}


def _oid(identity: str) -> str:
    return identity.partition(":")[2]


def _protection(notes: ForkNotes) -> Callable[[str], bool]:
    return lambda path: any(matches(pattern, path) for pattern in notes.protect)


def _unfinished(workspace: Path) -> bool:
    return any(exists_safely(workspace, f".git/{name}") for name in _UNFINISHED)
