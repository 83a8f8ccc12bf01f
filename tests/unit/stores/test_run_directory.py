import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forklift.core.journal import Event
from forklift.core.model_access import Usage
from forklift.core.owner import Owner
from forklift.core.secret import Redactor, Secret
from forklift.errors import InternalError, SetupError
from forklift.stores import run_directory
from forklift.stores.journal import fault_in
from forklift.stores.run_directory import Run, all_runs, create, find
from forklift.stores.run_state import RunState, parse_state

AT = datetime(2026, 11, 5, 14, 3, 9, tzinfo=UTC)
OWNER = Owner(4711, 123456, "boot/4026531836")
REDACT = Redactor([Secret("tok-123456")])
RUNNING = RunState("running", "the agent is at work", AT, OWNER)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return create(tmp_path / "state", "tool", AT)


def state_root(run: Run) -> Path:
    return run.path.parent.parent


def test_a_run_is_a_private_directory_named_after_project_and_time(run: Run) -> None:
    assert run.id == "tool_20261105_140309"
    for directory in (run.path, run.path.parent, state_root(run), run.harness_state):
        assert directory.stat().st_mode & 0o777 == 0o700
    assert not run.workspace.exists()


def test_starts_in_the_same_second_get_directories_of_their_own(tmp_path: Path) -> None:
    made: list[str] = []
    barrier = threading.Barrier(8)

    def start() -> None:
        barrier.wait()
        made.append(create(tmp_path, "tool", AT).id)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 8
    assert "tool_20261105_140309-8" in made


def test_a_state_root_that_cannot_be_made_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SetupError, match=r"cannot write .*: a file is where"):
        create(tmp_path / "file" / "state", "tool", AT)


def test_metadata_is_written_once_and_holds_no_secret(run: Run) -> None:
    run.write_metadata({"url": "https://tok-123456@host", "deep": [{"tok-123456": 1}]}, REDACT)
    assert "tok-123456" not in (run.path / "metadata.json").read_text()
    assert run.metadata() == {"url": "https://[redacted]@host", "deep": [{"[redacted]": 1}]}
    with pytest.raises(InternalError, match="twice"):
        run.write_metadata({}, REDACT)


def test_a_state_reads_back_as_it_was_written(run: Run) -> None:
    usage = Usage(requests=3, input_tokens=10, output_tokens=4, cached_tokens=1, usd=0.25)
    state = RunState("merged", "done", AT, OWNER, "forklift/x", "https://host/pr/1", usage)
    run.write_state(RUNNING, REDACT)
    run.write_state(state, REDACT)
    assert run.state() == state


def test_a_state_holds_no_secret(run: Run) -> None:
    run.write_state(RunState("publish", "push to tok-123456 failed", AT), REDACT)
    assert "tok-123456" not in (run.path / "state.json").read_text()


def test_a_running_run_whose_owner_is_dead_has_died(run: Run) -> None:
    run.write_state(RUNNING, REDACT)
    assert run.state(lambda _: False).word == "running"
    seen = run.state(lambda owner: owner == OWNER)
    assert seen.word == "died"
    assert seen.owner == OWNER


def test_a_run_that_has_ended_has_not_died_although_its_owner_is_gone(run: Run) -> None:
    run.write_state(RunState("stuck", "it asks", AT, OWNER), REDACT)
    assert run.state(lambda _: True).word == "stuck"


@pytest.mark.parametrize(
    "contents",
    [
        b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"word": "running"}',
        b'{"word": "ru\\u001bning", "headline": "", "updated": "2026-11-05T14:03:09+00:00"}',
        b'{"word": "running", "headline": "", "updated": "2026-11-05T14:03:09"}',
        b'{"word": "running", "headline": "", "updated": "yesterday"}',
        b'{"word": "running", "headline": 1, "updated": "2026-11-05T14:03:09+00:00"}',
        b'{"word": "a", "headline": "", "updated": "2026-11-05T14:03:09+00:00", "owner": {}}',
        b'{"word": "a", "headline": "","updated": "2026-11-05T14:03:09Z", "journal_entries": true}',
        b'{"word": "a", "headline": "", "updated": "2026-11-05T14:03:09+00:00", "usage": [1]}',
        b" " * (2 << 20),
    ],
)  # fmt: skip
def test_a_corrupt_state_is_unreadable_and_nothing_worse(run: Run, contents: bytes) -> None:
    (run.path / "state.json").write_bytes(contents)
    assert run.state().word == "unreadable"


def test_a_missing_state_and_a_pipe_in_its_place_are_unreadable(run: Run) -> None:
    assert run.state().word == "unreadable"
    os.mkfifo(run.path / "state.json")
    assert run.state().word == "unreadable"


@given(st.text())
def test_no_text_at_all_breaks_the_reader_of_states(text: str) -> None:
    assert parse_state(text) is None


@pytest.mark.parametrize("contents", [b"", b"{", b"[1]", b"\xff", b"[" * 100_000])
def test_corrupt_metadata_reads_as_none_at_all(run: Run, contents: bytes) -> None:
    (run.path / "metadata.json").write_bytes(contents)
    assert run.metadata() == {}


def test_a_run_has_a_journal(run: Run) -> None:
    journal = run.journal(lambda: AT, REDACT)
    journal.append(Event("host", "run.begun", {"token": "tok-123456"}))
    journal.close()
    assert fault_in(run.journal_path) is None
    assert "tok-123456" not in run.journal_path.read_text()


def test_lists_marked_directories_only_newest_first(tmp_path: Path) -> None:
    old = create(tmp_path, "zeta", AT)
    new = create(tmp_path, "alpha", AT + timedelta(seconds=1))
    tenth = [create(tmp_path, "alpha", AT + timedelta(seconds=1)) for _ in range(9)][-1]
    (tmp_path / "runs" / "not-ours_20270101_000000").mkdir()
    (tmp_path / "runs" / "file").touch()
    (tmp_path / "runs" / "link_20270101_000000").symlink_to(old.path)
    listed = all_runs(tmp_path)
    assert listed[0] == tenth
    assert listed[-2:] == [new, old]
    assert len(listed) == 11
    assert all_runs(tmp_path / "nothing-yet") == []


def test_finds_a_run_by_id_by_a_unique_beginning_and_the_latest(tmp_path: Path) -> None:
    first = create(tmp_path, "tool", AT)
    second = create(tmp_path, "tool", AT)
    other = create(tmp_path, "zoo", AT - timedelta(days=1))
    assert find(tmp_path, first.id) == first
    assert find(tmp_path, "zo") == other
    assert find(tmp_path, "latest") == second


@pytest.mark.parametrize(
    ("which", "words"),
    [("tool", "begins 2 runs"), ("x\x1b[2J", "no run 'x.x1b"), ("", "no run"), ("../x", "no run")],
)
def test_says_why_a_run_is_not_found(tmp_path: Path, which: str, words: str) -> None:
    create(tmp_path, "tool", AT)
    create(tmp_path, "tool", AT)
    with pytest.raises(SetupError, match=words):
        find(tmp_path, which)


def test_the_latest_of_no_runs_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="forklift status"):
        run_directory.find(tmp_path, "latest")
