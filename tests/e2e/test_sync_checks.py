"""FORK.md at work: the fork's own setup, tests and protected paths, run in real sandboxes."""

import json
from collections.abc import Callable

import pytest

from forklift.testing.repositories import Fork, conflict, diverge
from tests.support.desk import RESOLVE, Desk, DeskFor

pytestmark = pytest.mark.docker

_SEEN = "its tests fail on purpose: version"
_TEST = (
    f"""test "$(cat version.txt)" != 2 || {{ echo "{_SEEN} $(cat version.txt)" >&2; exit 3; }}"""
)
"""Passes on the fork and fails where upstream's second version is taken."""

_MERGE = "git merge --quiet --no-edit upstream/main"
_MERGE_AND_REPAIR = f"{_MERGE}; echo 3 > version.txt; git commit --quiet -am 'Skip version 2'"


def _notes(prepare: Callable[[Fork], Fork], **keys: str) -> Callable[[Fork], Fork]:
    """The fork with a FORK.md that its owner committed."""

    def prepared(fork: Fork) -> Fork:
        front = "".join(f"{key}: {json.dumps(value)}\n" for key, value in keys.items())
        fork.fork_commits("Add notes", {"FORK.md": f"---\n{front}---\n\nBe careful.\n"})
        return prepare(fork)

    return prepared


def _body(desk: Desk) -> str:
    return (desk.last / "pull-request.md").read_text()


def _draft_reasons(desk: Desk) -> list[str]:
    """What stands at the very beginning of the pull request's text, below its title."""
    lines = [line for line in _body(desk).splitlines()[1:] if line]
    if lines[0] != "**Draft, because:**":
        return []
    rest = lines[1:]
    return [line[2:] for line in rest[: next(i for i, x in enumerate(rest) if x[:2] != "- ")]]


def test_tests_that_pass_are_told_and_no_agent_is_asked(desk_for: DeskFor) -> None:
    desk = desk_for(_notes(diverge, setup="echo ready > .ready", test="test -e .ready"))
    done = desk.run(agent="exit 1")
    assert (done.code, done.word) == (0, "merged"), done.err
    assert "- `test -e .ready`: passed" in _body(desk)
    assert "Git merged this alone" in _body(desk)
    assert _draft_reasons(desk) == []


def test_tests_that_failed_before_the_merge_too_are_told_and_make_no_draft(
    desk_for: DeskFor,
) -> None:
    desk = desk_for(_notes(diverge, test="exit 9"))
    done = desk.run(agent="exit 1")
    assert (done.code, done.word) == (0, "merged"), done.err
    assert "- `exit 9`: failed (exit 9)" in _body(desk)
    assert "- `exit 9`: failed (on the fork before the merge; exit 9)" in _body(desk)
    assert _draft_reasons(desk) == []


def test_a_clean_merge_that_breaks_the_tests_starts_the_agent_with_what_they_printed(
    desk_for: DeskFor,
) -> None:
    desk = desk_for(_notes(diverge, test=_TEST))
    keep = "cp /harness-state/instructions.txt /harness-state/seen.txt"
    done = desk.run(agent=f"{keep}; {_MERGE_AND_REPAIR}")
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    told = (desk.last / "harness-state" / "seen.txt").read_text()
    assert "Git merges this without a conflict, but the tests then fail" in told
    assert f"    {_SEEN} 2" in told
    assert _draft_reasons(desk) == []
    assert ": passed" in _body(desk)
    assert "- `version.txt`:" in _body(desk)
    before = desk.last / "check-result-git-alone" / "harness-state" / "output.txt"
    assert before.read_text() == f"{_SEEN} 2\n"
    assert desk.fork.origin.file(desk.pushed()[0], "version.txt") == "3"


def test_tests_that_the_agent_leaves_broken_make_a_draft_with_that_reason_first(
    desk_for: DeskFor,
) -> None:
    desk = desk_for(_notes(diverge, test=_TEST))
    done = desk.run(agent=_MERGE)
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    assert _draft_reasons(desk) == [
        "tests that pass on the fork before the merge fail on the result"
    ]
    assert "fail on the result" in done.out.splitlines()[1]
    assert ": failed (exit 3)" in _body(desk)
    assert ": passed (on the fork before the merge)" in _body(desk)


def test_a_conflict_whose_resolution_breaks_the_tests_makes_a_draft(desk_for: DeskFor) -> None:
    desk = desk_for(_notes(conflict, test=_TEST))
    done = desk.run(agent=RESOLVE)
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    assert _draft_reasons(desk) == [
        "tests that pass on the fork before the merge fail on the result"
    ]


def test_a_setup_that_fails_ends_the_run_in_one_line_before_the_agent(desk_for: DeskFor) -> None:
    desk = desk_for(_notes(conflict, setup="echo no such tool >&2; exit 6"))
    done = desk.run("--quiet", agent=RESOLVE)
    assert (done.code, done.word) == (5, "agent"), done.err
    (line,) = done.out.splitlines()
    assert "FORK.md's setup command failed with 6: echo no such tool" in line
    assert desk.pushed() == []
    assert (desk.last / "harness-state" / "setup.log").read_text() == "no such tool\n"


def test_tests_that_outlast_the_limit_are_told_as_not_finished(desk_for: DeskFor) -> None:
    desk = desk_for(_notes(diverge, test="sleep 300"))
    done = desk.run("--timeout", "4", agent="exit 1")
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    assert "- `sleep 300`: failed" not in _body(desk)
    assert "- `sleep 300`: not finished within 4 s" in _body(desk)
    assert _draft_reasons(desk) == []
    assert desk.containers() == []


def test_a_setup_that_fails_before_the_tests_says_that_they_did_not_run(desk_for: DeskFor) -> None:
    desk = desk_for(_notes(diverge, setup="exit 6", test="true"))
    done = desk.run(agent="exit 1")
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    assert "- `true`: failed" not in _body(desk)
    assert "FORK.md's setup command failed with 6" in _body(desk)


def test_a_protected_path_that_upstream_changed_makes_a_draft_with_that_reason_first(
    desk_for: DeskFor,
) -> None:
    desk = desk_for(_notes(diverge, protect="docs/"))
    done = desk.run()
    assert (done.code, done.word) == (0, "merged"), done.err
    assert _draft_reasons(desk) == ["protected paths changed: docs/news.md"]
    assert "protected paths changed: docs/news.md" in done.out


def test_a_protected_path_that_nobody_touched_makes_no_draft(desk_for: DeskFor) -> None:
    desk = desk_for(_notes(diverge, protect="README.md"))
    assert desk.run().word == "merged"
    assert _draft_reasons(desk) == []


def test_an_unknown_key_is_refused_with_its_line_and_the_key_that_was_meant(
    desk_for: DeskFor,
) -> None:
    desk = desk_for(_notes(diverge, setup="true", tests="make test"))
    done = desk.run("--quiet")
    assert (done.code, done.out) == (1, ""), done.err
    (line,) = done.err.splitlines()
    assert "FORK.md, line 3: unknown key 'tests'" in line
    assert "did you mean 'test'" in line
    assert desk.runs() == []


def test_the_notes_of_a_checkout_are_read_although_they_were_never_committed(
    diverging: Desk,
) -> None:
    root = diverging.fork.checkout.path
    (root / ".agents").mkdir()
    (root / ".agents" / "FORK.md").write_text("---\ntest: exit 0\n---\n")
    assert diverging.run().word == "merged"
    assert "- `exit 0`: passed" in _body(diverging)
    assert ".agents" not in diverging.fork.origin.git("ls-tree", diverging.pushed()[0])
