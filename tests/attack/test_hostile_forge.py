"""A forge that attacks through what it answers, or fails at the worst moment, under a real sync."""

import signal
from collections.abc import Callable, Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from forklift.forges.port import State
from forklift.testing.forge_gitea import GiteaServer
from tests.support.desk import Desk
from tests.support.forge_desk import ForgeDesk, put_on_forge
from tests.support.processes import until

pytestmark = pytest.mark.docker


@pytest.fixture
def gitea(tmp_path: Path) -> Generator[GiteaServer]:
    with GiteaServer(tmp_path / "forge") as server:
        yield server


@pytest.fixture
def hosted(diverging: Desk, gitea: GiteaServer) -> ForgeDesk:
    return put_on_forge(diverging, gitea)


def test_a_user_name_that_is_a_command_is_a_name(hosted: ForgeDesk, tmp_path: Path) -> None:
    # What the forge answers reaches a credential helper, and a helper is a shell command.
    canary = tmp_path / "canary"
    name = f"$(touch {canary})`touch {canary}`\"; touch {canary}; '"
    hosted.server.add_user(name)
    hosted.hosted.writers.add(name)
    hosted.use(hosted.server.token_for(name))
    done = hosted.desk.run()
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    assert not canary.exists()


def without_scope(hosted: ForgeDesk) -> None:
    hosted.use(hosted.server.token_for("owner", scopes=["read:user"]))


def of_a_reader(hosted: ForgeDesk) -> None:
    hosted.use(hosted.server.token_for("reader"))


def at_its_rate_limit(hosted: ForgeDesk) -> None:
    hosted.server.limit_rate(datetime.now(UTC) + timedelta(hours=1))


def archived(hosted: ForgeDesk) -> None:
    hosted.hosted.archived = True


REFUSALS: dict[Callable[[ForgeDesk], None], str] = {
    archived: "archived",
    without_scope: "scope",
    of_a_reader: "reader may not write",
    at_its_rate_limit: "rate limit",
}


def test_what_the_forge_would_refuse_in_the_end_is_told_before_anything_costly(
    hosted: ForgeDesk,
) -> None:
    for refuse, reason in REFUSALS.items():
        refuse(hosted)
        done = hosted.desk.run()
        assert (done.code, done.out) == (1, ""), f"{refuse.__name__}: {done.out}{done.err}"
        assert len(done.err.splitlines()) == 1, done.err
        assert done.err.startswith("forklift: ")
        assert reason in done.err
        hosted.hosted.archived = False
    assert hosted.desk.runs() == []
    assert not (hosted.desk.state / "depots").exists()


def test_a_process_killed_as_its_branch_arrives_is_followed_by_one_pull_request(
    hosted: ForgeDesk, tmp_path: Path
) -> None:
    arrived, go = tmp_path / "arrived", tmp_path / "go"
    hook = hosted.hosted.git_dir / "hooks" / "post-receive"
    hook.write_text(f"#!/bin/sh\ntouch {arrived}\nwhile [ ! -e {go} ]; do sleep 0.02; done\n")
    hook.chmod(0o755)
    process = hosted.desk.start()
    try:
        until(arrived.exists, "the branch arrives")
        process.kill()
        process.communicate()
    finally:
        go.touch()
    assert len(hosted.desk.pushed()) == 1
    assert hosted.pull_requests() == []
    done = hosted.desk.run()
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    assert [hosted.pull_request.head] == hosted.desk.pushed()
    assert len(hosted.desk.runs()) == 1
    assert hosted.desk.run().word == "up-to-date"


def test_a_run_that_is_stopped_while_it_publishes_an_earlier_result_says_so_in_its_record(
    hosted: ForgeDesk, tmp_path: Path
) -> None:
    hosted.refuse_pushes("no")
    assert hosted.desk.run().word == "publish"
    asked, go = tmp_path / "asked", tmp_path / "go"
    hook = hosted.hosted.git_dir / "hooks" / "pre-receive"
    hook.write_text(f"#!/bin/sh\ntouch {asked}\nwhile [ ! -e {go} ]; do sleep 0.02; done\n")
    process = hosted.desk.start()
    try:
        until(asked.exists, "the branch is being pushed")
        process.send_signal(signal.SIGTERM)
        process.communicate()
    finally:
        go.touch()
    assert process.returncode == 143
    assert hosted.desk.state_of(hosted.desk.last)["word"] == "interrupted"
    assert hosted.desk.run().code == 0
    assert len(hosted.desk.pushed()) == 1
    assert hosted.pull_request.state is State.OPEN


def test_a_process_killed_as_its_pull_request_opens_is_followed_by_no_second_one(
    hosted: ForgeDesk,
) -> None:
    process = hosted.desk.start()
    until(lambda: bool(hosted.pull_requests()) or process.poll() is not None, "it is opened")
    process.kill()
    process.communicate()
    done = hosted.desk.run()
    assert done.code == 0, done.out + done.err
    assert len(hosted.desk.pushed()) == 1
    assert hosted.pull_request.state is State.OPEN


def test_a_forges_token_is_not_offered_to_upstreams_host(hosted: ForgeDesk, tmp_path: Path) -> None:
    with GiteaServer(tmp_path / "elsewhere") as elsewhere:
        other = elsewhere.create_repository("owner", "upstream")
        other.private = True
        hosted.desk.fork.checkout.git("remote", "set-url", "upstream", elsewhere.git_url(other))
        done = hosted.desk.run()
        assert done.code == 1, done.out + done.err
        assert "wants a login" in done.err
        assert {sent.authorization for sent in elsewhere.requests} == {""}
