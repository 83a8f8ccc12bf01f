"""The commands as a person sees them. Without Docker."""

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

import forklift
from forklift.cli.app import COMMANDS
from forklift.core.model_access import Usage
from forklift.core.owner import Owner
from tests.cli.conftest import User


def test_the_version_is_told(user: User) -> None:
    assert user.types("--version").out == f"forklift {forklift.__version__}\n"


def test_help_lists_every_command(user: User) -> None:
    told = user.types("--help")
    assert told.code == 0
    assert all(f"\n  {name} " in told.out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_own_help(user: User, name: str) -> None:
    told = user.types(name, "--help")
    assert told.code == 0
    assert told.out.startswith(f"usage: forklift {name}")


def test_a_mistyped_command_gets_the_likely_one_in_one_line(user: User) -> None:
    told = user.types("statsu")
    assert told.code == 1
    assert "did you mean 'status'?" in told.err
    assert told.err.count("\n") == 1


@pytest.mark.parametrize(
    "words", [["--no-such"], ["status", "-n", "many"], ["--timeout", "soon"], ["show", "a", "b"]]
)
def test_wrong_options_are_one_line_and_exit_code_1(user: User, words: list[str]) -> None:
    told = user.types(*words)
    assert (told.code, told.out) == (1, "")
    assert told.err.startswith("forklift: ")
    assert told.err.count("\n") == 1
    assert "--help" in told.err


def test_paths_and_all_exclude_each_other(user: User) -> None:
    assert "exclude each other" in user.types("sync", "--all", "somewhere").err


def test_all_without_a_list_says_what_to_write_where(user: User) -> None:
    told = user.types("sync", "--all")
    assert told.code == 1
    assert str(user.home / "config/forklift/forks.toml") in told.err
    assert "[[fork]]" in told.err


def test_a_missing_model_key_says_where_it_goes(user: User) -> None:
    told = user.types()
    assert told.code == 1
    assert str(user.home / "config/forklift/opencode.env") in told.err


def test_an_error_is_an_object_too_when_json_is_asked_for(user: User) -> None:
    told = user.types("--json").json
    assert (told["word"], told["exit_code"]) == ("setup", 1)


class TestStatus:
    def test_says_how_to_begin_when_there_is_nothing(self, user: User) -> None:
        assert "start one in a fork's checkout: forklift" in user.types("status").out

    def test_lists_the_newest_first_with_its_word_and_pull_request(self, user: User) -> None:
        first = user.run("stuck", "the agent is stuck")
        second = user.run(pr_url="https://git.example.org/me/tool/pulls/7")
        lines = user.types("status").out.splitlines()
        assert [line.split()[:2] for line in lines] == [[second.id, "merged"], [first.id, "stuck"]]
        assert lines[0].endswith("/pulls/7")

    def test_shows_as_many_as_are_asked_for(self, user: User) -> None:
        user.run()
        newest = user.run()
        assert [row["run"] for row in user.types("status", "-n", "1", "--json").rows] == [newest.id]

    def test_a_run_whose_process_is_gone_has_died(self, user: User, dead: Owner) -> None:
        user.run("running", "at work", owner=dead)
        assert user.types("status").out.split()[1] == "died"

    def test_a_run_whose_process_lives_is_running(self, user: User, living: Owner) -> None:
        user.run("running", "at work", owner=living)
        assert user.types("status").out.split()[1] == "running"

    def test_a_damaged_state_is_told_and_hides_no_other_run(self, user: User) -> None:
        (user.run().path / "state.json").write_text("{")
        user.run()
        assert [line.split()[1] for line in user.types("status").out.splitlines()] == [
            "merged", "unreadable",
        ]  # fmt: skip

    def test_what_an_agent_said_cannot_steer_the_terminal(self, user: User) -> None:
        user.run("agent", "the agent failed: \x1b[2J\u202egnorw")
        assert user.types("status").out.isascii()
        assert "\x1b" not in user.types("status").out


class TestShow:
    def test_tells_where_a_run_came_from_and_what_it_used(self, user: User) -> None:
        run = user.run(
            metadata={"upstream_commit": "c0ffee", "model": "local/m"},
            usage=Usage(3, 1000, 200, 0, 0.25),
        )
        told = user.types("show").out
        assert f"run        {run.id}\n" in told
        assert "c0ffee" in told
        assert "3 requests, 1200 tokens, cost $0.2500" in told

    def test_ends_with_the_text_of_the_pull_request(self, user: User) -> None:
        (user.run().path / "pull-request.md").write_text("# Merge upstream main\n")
        assert user.types("show").out.endswith("--- pull request ---\n# Merge upstream main\n\n")

    def test_shows_the_agents_questions_harmlessly(self, user: User) -> None:
        run = user.run("stuck", "the agent is stuck")
        run.workspace.mkdir()
        (run.workspace / "STUCK.md").write_text("Which greeting?\x1b[2J\n")
        told = user.types("show").out
        assert "--- STUCK.md ---\nWhich greeting?" in told
        assert "\x1b" not in told

    def test_follows_no_link_that_an_agent_left(self, user: User) -> None:
        secret = user.home / "secret"
        secret.write_text("do not show this")
        run = user.run("stuck", "the agent is stuck")
        run.workspace.mkdir()
        (run.workspace / "STUCK.md").symlink_to(secret)
        told = user.types("show").out
        assert "do not show this" not in told
        assert "cannot be shown" in told

    def test_tells_when_the_journal_was_changed(self, user: User) -> None:
        run = user.run()
        assert "whole and unchanged" in user.types("show").out
        run.journal_path.write_text(run.journal_path.read_text().replace("merged", "stuck"))
        assert "entry 2 was changed" in user.types("show").out
        assert user.types("show", "--json").json["journal_fault"] == "entry 2 was changed"

    def test_tells_when_the_journals_end_was_cut_off(self, user: User) -> None:
        run = user.run()
        first = run.journal_path.read_text().splitlines(keepends=True)[0]
        run.journal_path.write_text(first)
        assert "its end was cut off: 1 entries are missing" in user.types("show").out

    def test_takes_the_beginning_of_an_id_while_it_is_clear(self, user: User) -> None:
        run = user.run()
        assert user.types("show", "--json", run.id[:-1]).json["run"] == run.id
        user.run()
        told = user.types("show", "tool_")
        assert told.code == 1
        assert "begins 2 runs" in told.err

    def test_an_unknown_run_is_one_line(self, user: User) -> None:
        told = user.types("show", "nothing")
        assert (told.code, told.err.count("\n")) == (1, 1)
        assert "list them: forklift status" in told.err


class TestLogs:
    def test_prints_what_there_is_under_its_name(self, user: User) -> None:
        run = user.run()
        (run.path / "container.log").write_text("the last line\n")
        told = user.types("logs").out
        assert f"--- container ({run.path / 'container.log'}) ---\nthe last line\n" in told
        assert "--- journal " in told
        assert "--- stderr " not in told

    def test_prints_one_of_them_alone(self, user: User) -> None:
        run = user.run()
        entries = user.types("logs", "--only", "journal").out.splitlines()
        assert [json.loads(entry)["action"] for entry in entries] == ["run.started", "run.ended"]
        told = user.types("logs", run.id, "--only", "setup")
        assert (told.code, told.err) == (1, f"forklift: run {run.id} has no setup log\n")

    def test_makes_a_transcript_harmless(self, user: User) -> None:
        run = user.run()
        (run.harness_state / "transcript.jsonl").write_text("\x1b]0;owned\x07 hello\n")
        told = user.types("logs", "--only", "transcript").out
        assert told == "\\x1b]0;owned\\x07 hello\n"

    def test_a_pipe_in_the_transcripts_place_neither_hangs_nor_hides_the_rest(
        self, user: User
    ) -> None:
        run = user.run()
        os.mkfifo(run.harness_state / "transcript.jsonl")
        told = user.types("logs")
        assert told.code == 0
        assert "cannot be shown" in told.out
        assert "run.ended" in told.out

    def test_a_reader_that_has_enough_is_no_error(self, user: User) -> None:
        run = user.run()
        (run.path / "container.log").write_text("line\n" * 200_000)
        command = f"{sys.executable} -m forklift.cli.app logs | head -n 1; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(
            ["bash", "-c", command], env=user.environ, cwd=user.home, capture_output=True,
            text=True, check=True,
        )  # fmt: skip
        assert (done.stdout.splitlines()[-1], done.stderr) == ("0", "")


class TestClean:
    def test_removes_what_is_old_enough_and_says_what(self, user: User) -> None:
        old = user.run(ago=timedelta(days=8))
        new = user.run(ago=timedelta(days=6))
        assert user.types("clean", "--older-than", "7d").out == f"removed {old.id}\n"
        assert new.path.exists()
        assert not old.path.exists()

    def test_a_dry_run_only_tells(self, user: User) -> None:
        old = user.run(ago=timedelta(days=8))
        told = user.types("clean", "--older-than", "1w", "--dry-run")
        assert told.out == f"would remove {old.id}\n"
        assert old.path.exists()

    def test_keeps_what_runs_and_what_waits_for_an_answer(self, user: User, living: Owner) -> None:
        running = user.run("running", "at work", ago=timedelta(days=8), owner=living)
        stuck = user.run("stuck", "the agent is stuck", ago=timedelta(days=8))
        told = user.types("clean", "--older-than", "1h").out
        assert f"kept {running.id}: it is running\n" in told
        assert f"kept {stuck.id}: it is stuck" in told
        assert user.types("clean", "--older-than", "1h", "--stuck", "--json").json["removed"] == [
            stuck.id
        ]
        assert running.path.exists()

    def test_touches_nothing_without_its_own_mark(self, user: User) -> None:
        user.run(ago=timedelta(days=8))
        mine = user.state / "runs" / "my-notes"
        mine.mkdir()
        user.types("clean", "--older-than", "0s")
        assert [path.name for path in (user.state / "runs").iterdir()] == ["my-notes"]

    @pytest.mark.parametrize("words", [[], ["--older-than", "soon"], ["--older-than", "-1d"]])
    def test_an_age_is_needed(self, user: User, words: list[str]) -> None:
        assert user.types("clean", *words).code == 1


def test_the_doctor_looks_at_everything_even_when_much_is_wrong(user: User) -> None:
    told = user.types("doctor", FORKLIFT_DOCKER="no-such-program")
    verdicts = {line.split()[1]: line.split()[0] for line in told.out.splitlines()}
    assert verdicts == {
        "git": "ok", "sandbox": "FAIL", "image": "FAIL", "model": "FAIL", "state": "ok",
        "settings": "ok", "fork": "FAIL",
    }  # fmt: skip
    assert told.code == 6
    assert "no-such-program is not installed" in told.out


def test_the_doctor_answers_programs_too(user: User) -> None:
    told = user.types("doctor", "--json", FORKLIFT_DOCKER="no-such-program")
    assert {row["what"] for row in told.rows if not row["fine"]} == {
        "sandbox", "image", "model", "fork",
    }  # fmt: skip


def test_the_doctor_reports_a_setting_that_is_ignored(user: User) -> None:
    told = user.types("doctor", FORKLIFT_DOCKER="no-such-program", FORKLIFT_IMGAE="x")
    assert "FORKLIFT_IMGAE is no setting and is ignored; did you mean 'FORKLIFT_IMAGE'?" in told.out


def test_the_image_is_built_by_the_script_that_ships_and_its_exit_code_is_ours(user: User) -> None:
    told = user.types("image", "build", FORKLIFT_DOCKER="no-such-program")
    assert told.code == 1
    assert "no-such-program does not answer" in told.err
    told = user.types("image", "build", "--", "--no-such-option")
    assert told.code == 1
    assert "unknown argument --no-such-option" in told.err


def test_a_state_directory_that_cannot_be_read_is_one_line(user: User) -> None:
    user.state.parent.mkdir()
    user.state.symlink_to(user.state)
    told = user.types("status")
    assert (told.code, told.err.count("\n")) == (1, 1)
    assert str(user.state) in told.err


def test_a_state_directory_in_a_place_that_cannot_be_written_is_named(user: User) -> None:
    (user.home / "file").write_text("")
    told = user.types("doctor", XDG_STATE_HOME=str(user.home / "file"), FORKLIFT_DOCKER="no-such")
    assert "FAIL  state" in told.out
    assert str(Path(user.home / "file" / "forklift")) in told.out


def test_a_locale_that_lacks_a_letter_ends_nothing(user: User) -> None:
    user.environ |= {"PYTHONIOENCODING": "ascii", "XDG_STATE_HOME": str(user.home / "zustände")}
    told = user.types("status")
    assert (told.code, told.err) == (0, "")
    assert "zust\\xe4nde" in told.out
