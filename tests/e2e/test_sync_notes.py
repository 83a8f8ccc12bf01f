"""Where FORK.md lies, and what may lie in its place."""

from pathlib import Path

import pytest

from forklift.testing.repositories import Repo
from tests.support.desk import RESOLVE, Desk

pytestmark = pytest.mark.docker


def test_untracked_notes_reach_the_agent_and_are_no_part_of_the_merge(conflicting: Desk) -> None:
    (conflicting.fork.checkout.path / "FORK.md").write_text("Keep our greeting.\n")
    done = conflicting.run(agent=f"{RESOLVE} cat FORK.md > ../harness-state/seen; git add -A .")
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    assert (conflicting.last / "harness-state" / "seen").read_text() == "Keep our greeting.\n"
    told = (conflicting.last / "harness-state" / "instructions.txt").read_text()
    assert "Keep our greeting." in told


def test_a_linked_agents_directory_is_no_obstacle(conflicting: Desk) -> None:
    root = conflicting.fork.checkout.path
    (root / ".claude").mkdir()
    (root / ".agents").symlink_to(".claude")
    done = conflicting.run("--dry-run")
    assert (done.code, done.word) == (0, "forecast"), done.err


def test_notes_that_are_no_file_are_told_in_one_line(conflicting: Desk, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("not to be read\n")
    (conflicting.fork.checkout.path / "FORK.md").symlink_to(secret)
    done = conflicting.run()
    assert done.code == 1
    assert done.err == (
        "forklift: FORK.md is a symbolic link, not a file; it was not read; put a text file in its"
        " place\n"
    )
    assert conflicting.runs() == []


def test_notes_are_not_written_through_a_link_that_the_tree_holds(
    conflicting: Desk, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    somebody = Repo(tmp_path / "somebody")
    Repo(tmp_path).git("clone", "-q", str(conflicting.fork.origin.path), str(somebody.path))
    (somebody.path / ".agents").symlink_to(outside)
    somebody.commit("Link", {})
    somebody.git("push", "-q", "origin", "HEAD")
    mine = conflicting.fork.checkout.path / ".agents" / "FORK.md"
    mine.parent.mkdir()
    mine.write_text("Keep our greeting.\n")
    done = conflicting.run(agent=RESOLVE)
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    assert list(outside.iterdir()) == []
    told = (conflicting.last / "harness-state" / "instructions.txt").read_text()
    assert "Keep our greeting." in told


def test_an_instruction_that_is_not_utf_8_is_passed_on_harmlessly(conflicting: Desk) -> None:
    done = conflicting.run("--instruction", "caf\udce9 \x1b[2J", agent=RESOLVE)
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    told = (conflicting.last / "harness-state" / "instructions.txt").read_text()
    assert "- caf\\u{dce9} \\x1b[2J" in told
