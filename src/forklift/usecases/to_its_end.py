"""What goes wrong is told in one plain line, and what ends a run is in its record."""

import asyncio
import contextlib
from collections.abc import Coroutine, Generator
from pathlib import Path
from typing import Any, TypeVar

from forklift.core.outcome import End, Interrupted
from forklift.errors import ForkliftError, SetupError
from forklift.git.command import GitFailed, GitStalled, GitTooLoud
from forklift.git.failures import gist
from forklift.stores.disk import no_space
from forklift.usecases.kit import Kit
from forklift.usecases.live_run import LiveRun

Ended = TypeVar("Ended", bound=End)


async def to_its_end(kit: Kit, run: LiveRun, work: Coroutine[Any, Any, Ended]) -> Ended:
    """Do the run's work; whatever ends it, the record says so."""
    try:
        with told_plainly(kit, run.path):
            end = await work
    except asyncio.CancelledError as cancelled:
        name = cancelled.args[0] if cancelled.args else "SIGTERM"
        # What ends the run is told even where it cannot be written down, on a full disk.
        with contextlib.suppress(ForkliftError):
            run.finish(Interrupted(f"stopped by {name}; the container is gone, run again", name))
        raise
    except ForkliftError as error:
        with contextlib.suppress(ForkliftError):
            run.finish_by(error)
        raise
    run.finish(end)
    return end


@contextlib.contextmanager
def told_plainly(kit: Kit, at: Path) -> Generator[None]:
    """Failures of the disk and of Git, as errors that say what to do next."""
    try:
        yield
    except OSError as error:
        raise no_space(error, at) from error
    except GitFailed as failed:
        raise _unforeseen(kit, failed) from failed
    except GitStalled as stalled:
        raise SetupError(f"{stalled}; is the disk of {kit.state_root} slow or stuck?") from stalled
    except GitTooLoud as loud:
        raise SetupError(f"{loud}; the repository is larger than can be handled") from loud


def _unforeseen(kit: Kit, failed: GitFailed) -> SetupError:
    said = kit.redact(gist(failed.done.err))
    if "No space left" in failed.done.err:
        return SetupError(f"the disk is full at {kit.state_root}; free some space and run again")
    return SetupError(
        f"git failed on Forklift's own copy: {said}; remove {kit.state_root / 'depots'}"
        " (it is made anew) and run again",
        detail=str(failed),
    )
