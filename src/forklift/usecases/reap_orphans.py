"""Put away what a dead run left: containers, sockets, and states that still say "running"."""

import shutil
from dataclasses import replace

from forklift.core.text import one_line
from forklift.stores import run_directory
from forklift.stores.run_state import DIED
from forklift.usecases.kit import Kit, Watch

INTERRUPTED = "interrupted"


async def reap_orphans(kit: Kit, watch: Watch) -> None:
    """Nothing whose owner lives, or cannot be judged from here, is touched."""
    for name in await kit.sandboxes.reap(kit.is_dead, kit.clock()):
        watch.step(f"ended {one_line(name)}, whose run had died")
    for run in run_directory.all_runs(kit.state_root):
        state = run.state(kit.is_dead)
        if state.word != DIED:
            continue
        for room in kit.runtime_root.glob(f"forklift-{run.id}-*"):
            shutil.rmtree(room, ignore_errors=True)
        headline = "its process was killed; what it had verified is published by the next run"
        run.write_state(
            replace(state, word=INTERRUPTED, headline=headline, updated=kit.clock()), kit.redact
        )
