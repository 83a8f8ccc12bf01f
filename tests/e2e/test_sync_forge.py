"""A sync that ends on a forge: real HTTP, real Git over it, one branch, one pull request."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from forklift.forges.port import State
from forklift.testing.forge_gitea import GiteaServer
from forklift.testing.forge_github import GitHubServer
from forklift.testing.forge_gitlab import GitLabServer
from tests.support.desk import RESOLVE, Desk
from tests.support.forge_desk import HELPER, LABEL, ForgeDesk, put_on_forge
from tests.support.processes import command_lines

pytestmark = pytest.mark.docker

_NEWS = {"docs/news.md": "Newer.\n"}


@pytest.fixture
def hosted(diverging: Desk, tmp_path: Path) -> Iterator[ForgeDesk]:
    """A fork on Gitea that Git alone can merge."""
    with GiteaServer(tmp_path / "forge") as server:
        yield put_on_forge(diverging, server)


def test_a_pull_request_is_opened_with_labels_people_and_as_the_draft_that_was_asked_for(
    hosted: ForgeDesk,
) -> None:
    done = hosted.desk.run("--draft", "--label", LABEL, "--assignee", HELPER, "--reviewer", HELPER)
    assert (done.code, done.word) == (0, "merged"), done.err
    made = hosted.pull_request
    assert made.head == hosted.desk.pushed()[0]
    assert (made.base, made.state) == ("main", State.OPEN)
    assert made.title.startswith("WIP:")
    assert (made.labels, made.assignees, made.reviewers) == ([LABEL], [HELPER], [HELPER])
    assert f"{hosted.server.url}/owner/greeter/pulls/1" in done.out
    assert "Git merged this alone" in made.body


def test_without_wishes_the_pull_request_is_ready_for_review(hosted: ForgeDesk) -> None:
    assert hosted.desk.run().word == "merged"
    assert hosted.pull_request.title.startswith("Merge upstream main (1 commit")


def test_a_second_run_names_the_pull_request_that_waits(hosted: ForgeDesk) -> None:
    hosted.desk.run()
    done = hosted.desk.run()
    assert (done.code, done.word) == (0, "up-to-date")
    assert "/owner/greeter/pulls/1" in done.out
    assert len(hosted.pull_requests()) == 1


def test_when_upstream_moves_on_the_same_pull_request_is_updated(hosted: ForgeDesk) -> None:
    hosted.desk.run()
    before = hosted.head_of(hosted.pull_request.head)
    newest = hosted.desk.fork.upstream_commits("More news", _NEWS)
    done = hosted.desk.run()
    assert done.word == "merged", done.err
    assert "updated" in done.out
    made = hosted.pull_request
    assert hosted.desk.pushed() == [made.head]
    assert hosted.head_of(made.head) != before
    assert newest[:10] in made.title
    assert hosted.desk.fork.origin.file(made.head, "docs/news.md") == "Newer."


def test_a_branch_that_a_person_pushed_to_stays_theirs_and_a_new_pull_request_is_opened(
    hosted: ForgeDesk,
) -> None:
    hosted.desk.run()
    theirs = hosted.pull_request
    told = (theirs.title, theirs.body)
    hosted.hosted.add_branch(theirs.head, {"review.md": "Mine.\n"})
    commit = hosted.head_of(theirs.head)
    hosted.desk.fork.upstream_commits("More news", _NEWS)
    done = hosted.desk.run()
    assert done.word == "merged", done.err
    assert hosted.head_of(theirs.head) == commit
    assert (theirs.title, theirs.body) == told
    assert [pull.state for pull in hosted.pull_requests()] == [State.OPEN, State.OPEN]
    assert sorted(pull.head for pull in hosted.pull_requests()) == sorted(hosted.desk.pushed())
    assert len(hosted.desk.pushed()) == 2


def test_a_pull_request_that_a_person_closed_is_told_and_neither_reopened_nor_repeated(
    hosted: ForgeDesk,
) -> None:
    hosted.desk.run()
    hosted.pull_request.state = State.CLOSED
    done = hosted.desk.run()
    assert (done.code, done.word) == (0, "up-to-date"), done.err
    assert "was closed" in done.out
    assert "delete the branch to start over" in done.out
    assert hosted.pull_request.state is State.CLOSED
    assert len(hosted.desk.pushed()) == 1


def test_after_a_closed_pull_request_upstreams_next_commits_get_one_of_their_own(
    hosted: ForgeDesk,
) -> None:
    hosted.desk.run()
    closed = hosted.pull_request
    closed.state = State.CLOSED
    kept = hosted.head_of(closed.head)
    hosted.desk.fork.upstream_commits("More news", _NEWS)
    assert hosted.desk.run().word == "merged"
    assert [pull.state for pull in hosted.pull_requests()] == [State.CLOSED, State.OPEN]
    assert hosted.head_of(closed.head) == kept


def test_a_pull_request_that_was_closed_before_its_run_knew_of_it_is_not_opened_again(
    hosted: ForgeDesk,
) -> None:
    # It is written, but neither the answer nor the look after it arrives.
    hosted.server.fail("POST", r"/pulls$", 500, after_writing=True)
    hosted.server.fail("GET", r"/pulls$", 200, content=[], times=3)
    hosted.server.fail("GET", r"/pulls$", 500)
    done = hosted.desk.run()
    assert (done.code, done.word) == (7, "publish"), done.out + done.err
    hosted.pull_request.state = State.CLOSED
    again = hosted.desk.run()
    assert (again.code, again.word) == (0, "up-to-date"), again.out + again.err
    assert "was closed" in again.out
    assert hosted.pull_request.state is State.CLOSED


def test_an_update_that_failed_after_its_push_is_finished_by_the_next_run(
    hosted: ForgeDesk,
) -> None:
    hosted.desk.run()
    newest = hosted.desk.fork.upstream_commits("More news", _NEWS)
    hosted.server.fail("PATCH", r"/pulls/1$", 500)
    done = hosted.desk.run()
    assert (done.code, done.word) == (7, "publish"), done.out + done.err
    again = hosted.desk.run()
    assert (again.code, again.word) == (0, "merged"), again.out + again.err
    assert newest[:10] in hosted.pull_request.title
    assert hosted.desk.pushed() == [hosted.pull_request.head]


def test_a_private_fork_is_fetched_with_the_forges_token(hosted: ForgeDesk) -> None:
    hosted.hosted.private = True
    done = hosted.desk.run()
    assert (done.code, done.word) == (0, "merged"), done.err
    assert hosted.desk.pushed() == [hosted.pull_request.head]


def test_a_host_that_the_fork_is_only_fetched_from_is_never_offered_the_token(
    hosted: ForgeDesk, tmp_path: Path
) -> None:
    checkout = hosted.desk.fork.checkout
    with GiteaServer(tmp_path / "mirror") as mirror:
        mirrored = mirror.create_repository("owner", "greeter", private=True)
        checkout.git("remote", "set-url", "--push", "origin", hosted.server.git_url(hosted.hosted))
        checkout.git("remote", "set-url", "origin", mirror.git_url(mirrored))
        done = hosted.desk.run()
        assert done.code == 1, done.out
        assert "wants a login" in done.err
        assert mirror.requests
        assert {sent.authorization for sent in mirror.requests} == {""}


def test_an_expired_token_ends_in_one_line_before_any_run_directory(hosted: ForgeDesk) -> None:
    hosted.use(hosted.server.token_for("owner", expired=True))
    done = hosted.desk.run("--quiet")
    assert done.code == 1, done.err
    assert len(done.err.splitlines()) == 1
    assert "make a new one" in done.err
    assert hosted.desk.runs() == []


def test_a_push_that_protection_refuses_is_kept_and_the_next_run_publishes_without_an_agent(
    conflicting: Desk, tmp_path: Path
) -> None:
    with GiteaServer(tmp_path / "forge") as server:
        hosted = put_on_forge(conflicting, server)
        hosted.refuse_pushes("Not allowed to push to protected branch")
        done = conflicting.run(agent=RESOLVE)
        assert (done.code, done.word) == (7, "publish"), done.err
        assert "Not allowed to push to protected branch" in done.out
        assert "push origin FETCH_HEAD:refs/heads/forklift/upstream-" in done.out
        assert hosted.pull_requests() == []
        hosted.allow_pushes()
        again = conflicting.run(agent="exit 1")
        assert (again.code, again.word) == (0, "merged"), again.err
        assert len(conflicting.runs()) == 1
        assert conflicting.pushed() == [hosted.pull_request.head]
        merged = conflicting.fork.origin.file(hosted.pull_request.head, "greet.py")
        assert merged.endswith('return "Moin, " + name + "!"')


def test_a_server_that_failed_after_it_had_written_leaves_one_pull_request(
    hosted: ForgeDesk,
) -> None:
    hosted.server.fail("POST", r"/pulls$", 500, after_writing=True)
    done = hosted.desk.run("--label", LABEL)
    assert (done.code, done.word) == (0, "merged"), done.err
    assert hosted.pull_request.labels == [LABEL]


def test_a_run_that_ended_between_push_and_pull_request_is_finished_by_the_next(
    hosted: ForgeDesk,
) -> None:
    hosted.server.fail("POST", r"/pulls$", 500, times=2)
    done = hosted.desk.run()
    assert (done.code, done.word) == (7, "publish"), done.err
    assert "run forklift again" in done.out
    assert hosted.pull_requests() == []
    (branch,) = hosted.desk.pushed()
    again = hosted.desk.run()
    assert (again.code, again.word) == (0, "merged"), again.err
    assert hosted.pull_request.head == branch
    assert hosted.desk.pushed() == [branch]
    assert len(hosted.desk.runs()) == 1


def test_a_forge_that_fails_before_the_push_is_told_with_the_command_and_made_good_by_the_next_run(
    hosted: ForgeDesk,
) -> None:
    hosted.server.fail("GET", r"/pulls$", 500)
    done = hosted.desk.run()
    assert (done.code, done.word) == (7, "publish"), done.err
    assert "by hand: git -C" in done.out
    assert hosted.desk.pushed() == []
    assert hosted.desk.run().word == "merged"
    assert hosted.desk.pushed() == [hosted.pull_request.head]
    assert len(hosted.desk.runs()) == 1


def test_on_github_a_pull_request_is_opened_and_then_updated(
    diverging: Desk, tmp_path: Path
) -> None:
    with GitHubServer(tmp_path / "forge") as server:
        hosted = put_on_forge(diverging, server)
        first = diverging.run("--draft", "--label", LABEL, "--reviewer", HELPER)
        assert (first.code, first.word) == (0, "merged"), first.err
        made = hosted.pull_request
        assert (made.draft, made.labels, made.reviewers) == (True, [LABEL], [HELPER])
        diverging.fork.upstream_commits("More news", _NEWS)
        second = diverging.run("--draft")
        assert second.word == "merged", second.err
        assert diverging.pushed() == [hosted.pull_request.head]


def test_on_gitlab_a_merge_request_is_opened_and_then_updated(
    diverging: Desk, tmp_path: Path
) -> None:
    with GitLabServer(tmp_path / "forge") as server:
        hosted = put_on_forge(diverging, server)
        first = diverging.run("--draft", "--label", LABEL, "--assignee", HELPER)
        assert (first.code, first.word) == (0, "merged"), first.err
        made = hosted.pull_request
        assert (made.labels, made.assignees) == ([LABEL], [HELPER])
        assert made.title.startswith("Draft:")
        diverging.fork.upstream_commits("More news", _NEWS)
        second = diverging.run("--draft")
        assert second.word == "merged", second.err
        assert diverging.pushed() == [hosted.pull_request.head]


def test_the_token_is_in_no_argument_no_file_of_the_state_and_no_output(hosted: ForgeDesk) -> None:
    value = hosted.token.reveal()
    seen: set[str] = set()
    hosted.slow_down_pushes()
    running = hosted.desk.start("--debug")
    while running.poll() is None:
        seen.update(command_lines().values())
    out, err = running.communicate()
    assert running.returncode == 0, err
    assert any("git" in line and "push" in line for line in seen), "the push was not looked at"
    assert [line for line in seen if value in line] == []
    assert value not in out + err
    files = [path for path in hosted.desk.state.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if value.encode() in path.read_bytes()] == []


def test_a_refusal_that_repeats_the_token_does_not_show_it(hosted: ForgeDesk) -> None:
    value = hosted.token.reveal()
    said = {"message": f"bad token {value}"}
    hosted.server.fail("POST", r"/pulls$", 403, content=said, times=9)
    done = hosted.desk.run("--debug")
    assert (done.code, done.word) == (7, "publish"), done.err
    assert value not in done.out + done.err
    files = [path for path in hosted.desk.state.rglob("*") if path.is_file()]
    assert [path for path in files if value.encode() in path.read_bytes()] == []
