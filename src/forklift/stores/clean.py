"""Removing old runs: our own marked directories only, and nothing that may still be wanted."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from forklift.core.owner import Owner
from forklift.stores.disk import no_space
from forklift.stores.run_directory import Run, all_runs
from forklift.stores.run_state import STUCK, UNREADABLE
from forklift.stores.trees import remove_tree

_WAITING = {
    STUCK: "it is stuck and waits for an answer",
    "publish": "its verified result is not published yet",
}
_BENEFIT_OF_THE_DOUBT = timedelta(days=1)
"""A run whose state cannot be read may be one that is just starting."""


@dataclass(frozen=True, slots=True)
class Cleaned:
    removed: tuple[str, ...] = ()
    """Ids of the runs that are gone from the list."""
    kept: tuple[str, ...] = ()
    """`<id>: why`, for runs old enough that were left nevertheless."""
    undeleted: tuple[str, ...] = ()
    """`<path>: why`, for what could not be deleted; tried again the next time."""


def clean(
    state_root: Path,
    older_than: timedelta,
    now: datetime,
    is_dead: Callable[[Owner], bool],
    *,
    include_stuck: bool = False,
    dry_run: bool = False,
) -> Cleaned:
    """Remove runs that last changed longer ago than `older_than`. A `dry_run` only tells."""
    removed: list[str] = []
    kept: list[str] = []
    for run in all_runs(state_root):
        state = run.state(is_dead)
        grace = _BENEFIT_OF_THE_DOUBT if state.word == UNREADABLE else timedelta()
        if now - state.updated < max(older_than, grace):
            continue
        if state.is_running:
            kept.append(f"{run.id}: it is running")
        elif state.word in _WAITING and not include_stuck:
            kept.append(f"{run.id}: {_WAITING[state.word]} (--stuck removes it)")
        else:
            removed.append(run.id)
            if not dry_run:
                _set_aside(run, state_root / "trash")
    undeleted = () if dry_run else tuple(_emptied(state_root / "trash"))
    return Cleaned(tuple(removed), tuple(kept), undeleted)


def _set_aside(run: Run, trash: Path) -> None:
    # A rename first: were we killed in the middle of deleting, half a run without its mark would
    # lie among the runs for ever. What is in the trash is ours by being there.
    number = 0
    try:
        trash.mkdir(exist_ok=True, mode=0o700)
        while (place := trash / f"{run.id}.{number}").exists():
            number += 1
        run.path.rename(place)
    except FileNotFoundError:
        pass  # another clean was quicker
    except OSError as error:
        raise no_space(error, run.path) from error


def _emptied(trash: Path) -> list[str]:
    if not trash.is_dir():
        return []
    return [
        f"{path.parent}/{line}" for path in sorted(trash.iterdir()) for line in remove_tree(path)
    ]
