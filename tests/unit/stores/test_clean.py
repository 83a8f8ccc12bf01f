import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from forklift.core.owner import Owner
from forklift.stores.clean import clean
from forklift.stores.run_directory import Run, all_runs, create
from forklift.stores.run_state import RunState

NOW = datetime(2026, 11, 20, tzinfo=UTC)
WEEK = timedelta(days=7)
ALIVE, DEAD = Owner(1, 1, "here"), Owner(2, 2, "here")


def is_dead(owner: Owner) -> bool:
    return owner == DEAD


def a_run(root: Path, name: str, word: str, age: timedelta, owner: Owner = DEAD) -> Run:
    run = create(root, name, NOW - age)
    run.write_state(RunState(word, "", NOW - age, owner), str)
    (run.harness_state / "log").write_text("text")
    return run


def test_removes_runs_that_are_older_and_no_others(tmp_path: Path) -> None:
    old = a_run(tmp_path, "old", "merged", timedelta(days=8))
    young = a_run(tmp_path, "young", "merged", timedelta(days=6))
    died = a_run(tmp_path, "died", "running", timedelta(days=9), DEAD)
    done = clean(tmp_path, WEEK, NOW, is_dead)
    assert set(done.removed) == {old.id, died.id}
    assert done.undeleted == ()
    assert all_runs(tmp_path) == [young]
    assert not old.path.exists()
    assert list((tmp_path / "trash").iterdir()) == []


def test_never_removes_a_running_run_however_old(tmp_path: Path) -> None:
    run = a_run(tmp_path, "tool", "running", timedelta(days=90), ALIVE)
    done = clean(tmp_path, timedelta(), NOW, is_dead, include_stuck=True)
    assert done.removed == ()
    assert done.kept == (f"{run.id}: it is running",)
    assert run.path.exists()


def test_keeps_a_verified_result_that_is_not_published_yet(tmp_path: Path) -> None:
    run = a_run(tmp_path, "tool", "publish", timedelta(days=90))
    assert "not published yet" in clean(tmp_path, WEEK, NOW, is_dead).kept[0]
    assert run.path.exists()


def test_removes_a_stuck_run_only_when_asked_to(tmp_path: Path) -> None:
    run = a_run(tmp_path, "tool", "stuck", timedelta(days=90))
    assert "--stuck" in clean(tmp_path, WEEK, NOW, is_dead).kept[0]
    assert run.path.exists()
    assert clean(tmp_path, WEEK, NOW, is_dead, include_stuck=True).removed == (run.id,)
    assert not run.path.exists()


def test_a_dry_run_tells_and_removes_nothing(tmp_path: Path) -> None:
    run = a_run(tmp_path, "tool", "merged", timedelta(days=8))
    assert clean(tmp_path, WEEK, NOW, is_dead, dry_run=True).removed == (run.id,)
    assert run.path.exists()


def test_leaves_directories_without_our_mark_alone(tmp_path: Path) -> None:
    run = a_run(tmp_path, "tool", "merged", timedelta(days=8))
    (run.path / ".forklift-run").unlink()
    assert clean(tmp_path, WEEK, NOW, is_dead).removed == ()
    assert run.path.exists()


def test_a_run_that_may_be_just_starting_is_left_although_everything_is_to_go(
    tmp_path: Path,
) -> None:
    now = datetime.now(UTC)
    run = create(tmp_path, "tool", now)
    assert clean(tmp_path, timedelta(), now, is_dead).removed == ()
    assert clean(tmp_path, timedelta(), now + timedelta(days=2), is_dead).removed == (run.id,)


def test_what_an_interrupted_clean_left_is_finished_by_the_next(tmp_path: Path) -> None:
    run = a_run(tmp_path, "tool", "merged", timedelta(days=8))
    (tmp_path / "trash").mkdir()
    run.path.rename(tmp_path / "trash" / "tool.0")
    again = a_run(tmp_path, "tool", "merged", timedelta(days=8))
    assert clean(tmp_path, WEEK, NOW, is_dead).removed == (again.id,)
    assert list((tmp_path / "trash").iterdir()) == []


def test_survives_what_cannot_be_deleted_and_names_it(
    their_directory: Path, unprivileged: Callable[[Callable[[], None]], None]
) -> None:
    def work() -> None:
        trash = their_directory / "trash"
        (trash / "tool.0" / "cache").mkdir(parents=True)
        trash.chmod(0o500)
        try:
            done = clean(their_directory, WEEK, NOW, is_dead)
            assert done.undeleted == (f"{trash}/tool.0: Permission denied",)
        finally:
            trash.chmod(0o700)

    unprivileged(work)


@pytest.mark.parametrize("mode", [0o000, 0o500])
def test_removes_runs_in_which_a_guest_has_locked_everything(tmp_path: Path, mode: int) -> None:
    run = a_run(tmp_path, "tool", "agent", timedelta(days=8))
    inner = run.harness_state / "cache"
    inner.mkdir()
    (inner / "module").touch(mode=0o400)
    os.mkfifo(inner / "pipe")
    inner.chmod(mode)
    assert clean(tmp_path, WEEK, NOW, is_dead).undeleted == ()
    assert not run.path.exists()
