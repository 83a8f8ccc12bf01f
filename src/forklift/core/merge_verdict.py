"""What "merged" means: from facts gathered in the quarantine to a verdict. Pure.

A reason to *withhold* keeps the result on this machine; a reason to *doubt* publishes it as a
draft that says so first.
"""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from forklift.core.text import one_line

OVERLAY_NAMES = (
    "STUCK.md",
    "FORK.md",
    ".agents/FORK.md",
    "fork-context.md",
    "instructions.txt",
    "harness-state",
)
"""Files that the run itself puts beside the code; they are not part of a merge."""

_MARKER = re.compile(rb"^(<{7} |>{7} |\|{7} |<{7}$|>{7}$)", re.MULTILINE)
_DIVIDER = re.compile(rb"^={7}\r?$", re.MULTILINE)
_TRACE = re.compile(rb"^(?:<{7}|>{7}|\|{7}|={7})[^\n]{0,9}", re.MULTILINE)
_MOST_TRACES = 1000
_NAMED_AT_MOST = 5


@dataclass(frozen=True, slots=True)
class Sides:
    """One path in each of the commits that matter: an opaque id, None where the path is not."""

    path: str
    fork: str | None
    upstream: str | None
    automatic: str | None
    """What a clean automatic merge gives (with conflict markers where it conflicts)."""
    result: str | None
    base: str | None = None


@dataclass(frozen=True, slots=True)
class MergeFacts:
    has_upstream: bool
    has_fork: bool
    merge_in_progress: bool
    same_tree_as_fork: bool
    upstream_changed_files: bool
    automatic_is_fork: bool
    """The automatic merge, too, changes nothing: upstream's changes were in the fork already."""
    conflicts: frozenset[str]
    sides: tuple[Sides, ...]
    """Every path at which any of fork, upstream, automatic merge and result differ."""
    is_protected: Callable[[str], bool] = lambda _: False


@dataclass(frozen=True, slots=True)
class Decision:
    """A file where the result is not what Git alone would have made: the agent's doing."""

    path: str
    what: str


@dataclass(frozen=True, slots=True)
class Verdict:
    withheld: tuple[str, ...]
    doubts: tuple[str, ...]
    decisions: tuple[Decision, ...]
    protected: tuple[str, ...]

    @property
    def sound(self) -> bool:
        return not self.withheld


def judge(facts: MergeFacts, contents: Mapping[str, bytes]) -> Verdict:
    """`contents` holds the `traces` of blobs by id; a blob that is not in it is not looked into."""
    swallowed = [side.path for side in facts.sides if _is_swallowed(side, facts.conflicts)]
    changed = [side.path for side in facts.sides if side.fork != side.result]
    protected = tuple(path for path in changed if facts.is_protected(path))
    doubts: list[str] = []
    if swallowed:
        doubts.append(
            "the fork's change is gone although Git alone would have kept it: " + named(swallowed)
        )
    if protected:
        doubts.append("protected paths changed: " + named(protected))
    return Verdict(
        withheld=tuple(_reasons_to_withhold(facts, contents)),
        doubts=tuple(doubts),
        decisions=tuple(_decisions(facts)),
        protected=protected,
    )


def traces(content: bytes) -> bytes:
    """Of a file's content all that `judge` looks at: the beginnings of lines like markers."""
    found = (trace[0] for trace in _TRACE.finditer(content))
    return b"\n".join(itertools.islice(found, _MOST_TRACES))


def named(paths: Sequence[str]) -> str:
    """The first few of many paths, harmless on one line."""
    shown = ", ".join(one_line(path, 80) for path in paths[:_NAMED_AT_MOST])
    more = len(paths) - _NAMED_AT_MOST
    return f"{shown} and {more} more" if more > 0 else shown


def _reasons_to_withhold(facts: MergeFacts, contents: Mapping[str, bytes]) -> list[str]:
    reasons: list[str] = []
    if not facts.has_fork:
        reasons.append("history rewritten: the fork's own commits are not in the result")
    if not facts.has_upstream:
        reasons.append("upstream's commits are not in the result")
    if facts.merge_in_progress:
        reasons.append("a merge is still in progress in the workspace")
    if marked := [side.path for side in facts.sides if _has_markers(side, facts, contents)]:
        reasons.append("conflict markers are left in " + named(marked))
    if overlay := [side.path for side in facts.sides if _is_overlay(side)]:
        reasons.append("files of the run itself were committed: " + named(overlay))
    if _is_ours(facts):
        reasons.append(
            "upstream's commits are in the history but none of its changes in the files"
            " (an 'ours' merge)"
        )
    return reasons


def _is_ours(facts: MergeFacts) -> bool:
    return (
        facts.has_upstream
        and facts.same_tree_as_fork
        and facts.upstream_changed_files
        and not facts.automatic_is_fork
    )


def _is_overlay(side: Sides) -> bool:
    if side.result in {None, side.fork, side.upstream, side.automatic}:
        return False
    return any(side.path == name or side.path.startswith(name + "/") for name in OVERLAY_NAMES)


def _is_swallowed(side: Sides, conflicts: frozenset[str]) -> bool:
    changed_by_fork = side.fork != side.base and side.fork != side.upstream
    kept_by_git = side.path not in conflicts and side.automatic != side.upstream
    return changed_by_fork and kept_by_git and side.result == side.upstream


def _has_markers(side: Sides, facts: MergeFacts, contents: Mapping[str, bytes]) -> bool:
    if side.result is None or side.result in {side.fork, side.upstream}:
        return False
    result = contents.get(side.result, b"")
    before = [contents.get(oid, b"") for oid in (side.fork, side.upstream) if oid]
    # Documentation about merging holds such lines rightly: only what is new counts.
    if len(_MARKER.findall(result)) > sum(len(_MARKER.findall(text)) for text in before):
        return True
    if side.path not in facts.conflicts:
        return False
    return len(_DIVIDER.findall(result)) > sum(len(_DIVIDER.findall(text)) for text in before)


def _decisions(facts: MergeFacts) -> list[Decision]:
    return [
        Decision(side.path, _what(side, facts.conflicts))
        for side in facts.sides
        if side.result != side.automatic
    ]


def _what(side: Sides, conflicts: frozenset[str]) -> str:
    if side.path in conflicts:
        return f"conflict, {_settled(side)}"
    if side.fork == side.upstream == side.base:
        return "changed by the agent alone: neither the fork nor upstream touched it"
    if side.result == side.upstream:
        return "taken from upstream; Git alone would have kept the fork's change"
    if side.result == side.fork:
        return "kept as in the fork; Git alone would have taken upstream's change"
    return "edited by the agent; Git alone would have merged it cleanly"


def _settled(side: Sides) -> str:
    if side.result is None:
        return "settled by deleting the file"
    if side.result == side.fork:
        return "settled as in the fork"
    if side.result == side.upstream:
        return "settled as in upstream"
    return "settled by hand"
