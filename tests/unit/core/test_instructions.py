"""What the agent is told."""

from datetime import timedelta

from forklift.core.instructions import Brief, instructions, shell_words

BRIEF = Brief(branch="main", upstream="upstream/main", limit=timedelta(seconds=480))


def test_the_agent_is_told_what_to_merge_how_long_it_has_and_how_to_ask() -> None:
    text = instructions(BRIEF)
    assert "Merge upstream/main into main" in text
    assert "You have 8 minutes" in text
    assert "STUCK.md" in text


def test_the_owners_notes_and_the_forecast_are_in_the_instructions() -> None:
    brief = Brief(
        branch="main", upstream="upstream/main", limit=timedelta(seconds=90),
        conflicts=("a\x1b[2Jb.py",), fork_notes="Keep vendor/.", extra=("Be brief.",),
        tests=("make test",),
    )  # fmt: skip
    text = instructions(brief)
    assert "- a\\x1b[2Jb.py" in text
    assert "Keep vendor/." in text
    assert "- Be brief." in text
    assert "Prove the result with: make test" in text
    assert "You have 1.5 minutes" in text


def test_several_commands_stop_at_the_first_that_fails() -> None:
    assert shell_words(["a # why", "b"]) == "(a # why\n) && (b\n)"
