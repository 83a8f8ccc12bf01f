"""The reference says what is on disk."""

import hashlib
import json
import re
from datetime import UTC, datetime
from pathlib import Path

from forklift.core.journal import Event
from forklift.stores.fork_lock import Holder, hold
from forklift.stores.run_directory import create
from forklift.stores.run_state import DIED, RUNNING, UNREADABLE, RunState, parse_state

PAGE = (Path(__file__).parents[3] / "docs/reference/state-directory.md").read_text()
AT = datetime(2026, 11, 5, 14, 3, 9, tzinfo=UTC)


def test_its_state_has_the_members_that_a_real_one_has() -> None:
    found = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    state = parse_state(found[1])
    assert state is not None
    assert dict(json.loads(found[1])).keys() == state.as_json().keys()
    for word in (RUNNING, DIED, UNREADABLE):
        assert f"`{word}`" in PAGE


def test_its_tree_has_every_file_that_a_run_makes(tmp_path: Path) -> None:
    run = create(tmp_path, "tool", AT)
    run.write_metadata({}, str)
    run.write_state(RunState(RUNNING, "", AT), str)
    run.journal(lambda: AT, str).close()
    with hold(tmp_path, "tool-0c1d9b2a77", Holder(run.id, 1, AT)):
        made = [path.name for path in tmp_path.rglob("*")]
    assert run.id in made
    assert [name for name in made if f" {name}" not in PAGE] == []


def test_a_journal_can_be_checked_by_what_it_says_alone(tmp_path: Path) -> None:
    run = create(tmp_path, "tool", AT)
    journal = run.journal(lambda: AT, str)
    journal.append(Event("host", "run.begun", {"ümlaut": 1.5}))
    journal.append(Event("host", "run.ended", {}))
    journal.close()
    before = "0" * 64
    for line in run.journal_path.read_text().splitlines():
        entry = json.loads(line)
        claimed = entry.pop("hash")
        assert entry["prev"] == before
        canonical = json.dumps(entry, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        assert hashlib.sha256(canonical.encode()).hexdigest() == claimed
        before = claimed
