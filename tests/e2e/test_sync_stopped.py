"""Being stopped, or killed, at an inconvenient time: what is told, and what the next run finds."""

import signal
import stat
from pathlib import Path

import pytest

from tests.support.desk import RESOLVE, Desk
from tests.support.interruptions import started, stop_at, strike, wait_for_agent
from tests.support.processes import command_lines, until

pytestmark = pytest.mark.docker


def test_being_stopped_outranks_an_engine_that_has_gone_away(
    conflicting: Desk, tmp_path: Path
) -> None:
    away = tmp_path / "away"
    engine = tmp_path / "docker-that-goes-away"
    engine.write_text(
        f"#!/bin/sh\nif [ -e {away} ]; then\n"
        "    echo 'Cannot connect to the Docker daemon' >&2\n    exit 1\nfi\n"
        'exec docker "$@"\n'
    )
    engine.chmod(engine.stat().st_mode | stat.S_IXUSR)
    conflicting.environ["FORKLIFT_DOCKER"] = str(engine)
    with started(conflicting) as process:
        wait_for_agent(conflicting, process)
        away.touch()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate()
    assert process.returncode == 143, err
    assert "Traceback" not in err
    assert conflicting.state_of(conflicting.last)["word"] == "interrupted"
    away.unlink()
    assert conflicting.run(agent=RESOLVE).word == "merged"
    assert conflicting.containers() == []


def test_a_signal_that_the_caller_had_us_ignore_is_ignored(conflicting: Desk) -> None:
    with stop_at(conflicting, "pre-receive") as stop:
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # inherited, as from nohup
        try:
            process = conflicting.start(agent=RESOLVE)
        finally:
            signal.signal(signal.SIGHUP, before)
        until(lambda: stop.is_reached, "the branch is being pushed")
        process.send_signal(signal.SIGHUP)
        stop.let_go()
        out, err = process.communicate()
    assert process.returncode == 0, err
    assert out.startswith("merged: ")


def test_git_does_not_outlive_the_run_that_it_worked_for(conflicting: Desk) -> None:
    with stop_at(conflicting, "pre-receive") as stop, started(conflicting, RESOLVE) as process:
        until(lambda: stop.is_reached, "the branch is being pushed")
        run = str(conflicting.last)
        strike(process)
        until(
            lambda: not [line for line in command_lines().values() if run in line],
            "every git of the run is gone",
        )


def test_locks_that_a_killed_git_left_do_not_stop_the_next_run(diverging: Desk) -> None:
    assert diverging.run().word == "merged"
    (depot,) = (diverging.state / "depots").glob("*.git")
    left = (
        "packed-refs.lock", "config.lock", "HEAD.lock", "refs/forklift/upstream/main.lock",
        "refs/forklift/seen/main.lock", "refs/forklift/origin/main.lock",
    )  # fmt: skip
    for name in left:
        (depot / name).parent.mkdir(parents=True, exist_ok=True)
        (depot / name).touch()
    diverging.fork.upstream_commits("Third version", {"version.txt": "3\n"})
    done = diverging.run()
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    assert list(depot.rglob("*.lock")) == []
