"""Any process may be killed at any moment: what that leaves, and how the next run goes on."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.desk import RESOLVE, Desk
from tests.support.interruptions import (
    all_gone,
    door_process,
    fill,
    small_disk,
    started,
    stop_at,
    strike,
    wait_for_agent,
)
from tests.support.processes import until

pytestmark = pytest.mark.docker


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_the_run_with_its_code_and_leaves_nothing_behind(
    conflicting: Desk, runtime: Path, number: signal.Signals, code: int
) -> None:
    with started(conflicting) as process:
        wait_for_agent(conflicting, process)
        # As a terminal, a service manager or a closed window does: to all of its processes.
        os.killpg(process.pid, number)
        out, err = process.communicate(timeout=30)
    assert process.returncode == code
    assert out.startswith("interrupted: ")
    assert err == f"forklift: stopped by {number.name}; the container is gone, run again\n"
    assert conflicting.state_of(conflicting.last)["word"] == "interrupted"
    assert conflicting.containers() == []
    assert list(runtime.rglob("*.sock")) == []
    assert conflicting.pushed() == []


def test_after_a_signal_the_next_run_merges(conflicting: Desk) -> None:
    with started(conflicting) as process:
        wait_for_agent(conflicting, process)
        process.terminate()
        process.communicate(timeout=30)
    done = conflicting.run(agent=RESOLVE)
    assert (done.code, done.word) == (0, "merged"), done.err
    assert len(conflicting.pushed()) == 1


def test_a_killed_run_takes_its_container_and_doors_along_and_the_next_one_merges(
    conflicting: Desk, runtime: Path
) -> None:
    with started(conflicting) as process:
        wait_for_agent(conflicting, process)
        doors = [door_process(process, door) for door in ("egress", "model")]
        strike(process)
    until(lambda: not _running(conflicting), "the container is gone")
    until(lambda: all_gone(doors), "the doors' processes are gone")
    dead = conflicting.last
    done = conflicting.run(agent=RESOLVE)
    assert (done.code, done.word) == (0, "merged"), done.err
    assert conflicting.state_of(dead)["word"] == "interrupted"
    assert len(conflicting.pushed()) == 1
    assert conflicting.containers() == []
    assert list(runtime.rglob("*.sock")) == []


def test_a_run_killed_before_origin_has_its_branch_is_published_by_the_next_without_an_agent(
    conflicting: Desk,
) -> None:
    with stop_at(conflicting, "pre-receive") as stop:
        with started(conflicting, RESOLVE) as process:
            until(lambda: stop.is_reached, "the push stands at origin's door")
            strike(process)
        assert (conflicting.last / "verified.json").exists()
        assert conflicting.pushed() == []
        stop.remove()
        done = conflicting.run(agent="exit 1")
        # The dead run's own push may still come in: it must not make a second branch.
        stop.let_go()
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    assert len(conflicting.pushed()) == 1
    assert len(conflicting.runs()) == 1


def test_a_run_killed_when_origin_has_its_branch_leaves_nothing_to_do_but_to_say_so(
    conflicting: Desk,
) -> None:
    with stop_at(conflicting, "post-receive") as stop:
        with started(conflicting, RESOLVE) as process:
            until(lambda: stop.is_reached, "origin has the branch")
            strike(process)
        pushed = conflicting.pushed()
        stop.remove()
        stop.let_go()
    done = conflicting.run(agent="exit 1")
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    assert len(pushed) == 1
    assert conflicting.pushed() == pushed
    assert len(conflicting.runs()) == 1
    assert conflicting.state_of(conflicting.last)["word"] == "merged"


def test_a_run_killed_as_its_verdict_is_written_converges_to_one_branch(
    conflicting: Desk,
) -> None:
    with started(conflicting, RESOLVE) as process:
        until(
            lambda: any((run / "verified.json").exists() for run in conflicting.runs()),
            "the verdict is written",
        )
        strike(process)
    done = conflicting.run(agent="exit 1")
    assert done.code == 0, done.out + done.err
    assert len(conflicting.pushed()) == 1
    assert len(conflicting.runs()) == 1


@pytest.mark.parametrize("door", ["model", "egress"])
def test_a_door_that_dies_ends_the_run_and_is_named(conflicting: Desk, door: str) -> None:
    with started(conflicting) as process:
        wait_for_agent(conflicting, process)
        os.kill(door_process(process, door), signal.SIGKILL)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 5, err
    assert out.startswith("agent: ")
    assert door in out
    assert conflicting.containers() == []


def test_a_second_run_at_once_is_told_who_holds_the_fork(conflicting: Desk) -> None:
    with started(conflicting) as process:
        wait_for_agent(conflicting, process)
        done = conflicting.run(agent=RESOLVE)
        assert done.code == 8
        assert done.out == ""
        assert len(done.err.splitlines()) == 1
        assert conflicting.last.name in done.err
        assert f"process {process.pid}" in done.err
        assert process.poll() is None
    assert len(conflicting.runs()) == 1


def _losing_docker(desk: Desk) -> Path:
    """A docker that loses its engine, in the middle of what it is doing, once the file exists."""
    down = desk.home / "down"
    program = desk.home / "docker"
    program.write_text(
        f"#!/bin/sh\nlost() {{ echo 'Cannot connect to the Docker daemon' >&2; exit 1; }}\n"
        f"[ -e {down} ] && lost\n"
        f'docker "$@" & child=$!\n'
        f"while kill -0 $child 2>/dev/null; do\n"
        f"  [ -e {down} ] && kill $child && lost\n  sleep 0.05\ndone\nwait $child\n"
    )
    program.chmod(0o755)
    desk.environ["FORKLIFT_DOCKER"] = str(program)
    return down


def test_an_engine_that_goes_away_under_a_run_is_one_line_and_the_next_run_merges(
    conflicting: Desk,
) -> None:
    down = _losing_docker(conflicting)
    with started(conflicting) as process:
        wait_for_agent(conflicting, process)
        down.touch()
        out, err = process.communicate(timeout=60)
    assert process.returncode == 6, out + err
    assert out == ""
    assert len(err.splitlines()) == 1
    assert "Docker does not answer" in err
    assert conflicting.state_of(conflicting.last)["word"] == "sandbox"
    until(lambda: not _running(conflicting), "the container is gone")
    down.unlink()
    assert conflicting.run(agent=RESOLVE).word == "merged"
    assert conflicting.containers() == []


def test_a_full_disk_is_one_line_and_after_making_room_the_run_works(conflicting: Desk) -> None:
    with small_disk(conflicting, "64m") as disk:
        ballast = fill(disk)
        done = conflicting.run(agent=RESOLVE)
        assert done.code == 1, done.out + done.err
        assert len(done.err.splitlines()) == 1
        assert "disk is full" in done.err
        ballast.unlink()
        assert conflicting.run(agent=RESOLVE).word == "merged"


@pytest.mark.parametrize("then", ["sleep 100", "exit 0"])
def test_an_agent_that_fills_the_disk_is_ended_and_named_and_the_next_run_works(
    conflicting: Desk, then: str
) -> None:
    with small_disk(conflicting, "64m"):
        done = conflicting.run(agent=f"dd if=/dev/zero of=ballast bs=1M; {then}")
        assert (done.code, done.word) == (5, "agent"), done.out + done.err
        assert "filled the disk" in done.out
        assert conflicting.state_of(conflicting.last)["word"] == "agent"
        assert conflicting.containers() == []
        (conflicting.last / "workspace" / "ballast").unlink()
        assert conflicting.run(agent=RESOLVE).word == "merged"
    assert len(conflicting.pushed()) == 1


def _running(desk: Desk) -> list[str]:
    listed = subprocess.run(
        ["docker", "ps", "--format", "{{.Names}}"], capture_output=True, text=True, check=True
    )
    mine = {run.name for run in desk.runs()}
    return [name for name in listed.stdout.split() if any(run in name for run in mine)]
