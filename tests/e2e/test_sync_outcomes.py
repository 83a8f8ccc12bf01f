"""How a sync ends: each outcome, its exit code, its word in the record, what it leaves behind."""

import json
import subprocess
from pathlib import Path

import pytest

from forklift.testing.repositories import Fork, new_repo
from tests.support.desk import RESOLVE, Desk, DeskFor

pytestmark = pytest.mark.docker


def test_a_conflict_is_resolved_in_the_sandbox_verified_and_pushed_to_one_new_branch(
    conflicting: Desk,
) -> None:
    main = conflicting.fork.origin.git("rev-parse", "main")
    done = conflicting.run(agent=RESOLVE)
    assert (done.code, done.word) == (0, "merged"), done.err
    (branch,) = conflicting.pushed()
    assert conflicting.fork.origin.file(branch, "greet.py").endswith('return "Moin, " + name + "!"')
    assert conflicting.fork.origin.file(branch, "version.txt") == "2"
    assert conflicting.fork.origin.git("rev-parse", "main") == main
    assert conflicting.state_of(conflicting.last)["word"] == "merged"
    assert conflicting.containers() == []


def test_a_clean_merge_needs_no_agent(diverging: Desk) -> None:
    done = diverging.run(agent="exit 1")
    assert (done.code, done.word) == (0, "merged"), done.err
    assert not (diverging.last / "workspace").exists()


def test_the_agent_can_be_asked_for_a_clean_merge_too(diverging: Desk) -> None:
    done = diverging.run(
        "--agent",
        "always",
        agent="git merge --quiet --no-edit upstream/main; echo ran > ../harness-state/x",
    )
    assert done.word == "merged", done.err
    assert (diverging.last / "harness-state" / "x").exists()


def test_a_fork_that_has_all_of_upstream_is_up_to_date_without_a_run(level: Desk) -> None:
    done = level.run()
    assert (done.code, done.word) == (0, "up-to-date"), done.err
    assert level.runs() == []


def test_a_fork_without_commits_of_its_own_moves_to_upstream_itself(level: Desk) -> None:
    head = level.fork.upstream_commits("More", {"more.txt": "x\n"})
    assert level.run().word == "merged"
    (branch,) = level.pushed()
    assert level.fork.origin.git("rev-parse", branch) == head


def test_a_second_run_finds_the_result_waiting_and_does_nothing(conflicting: Desk) -> None:
    conflicting.run(agent=RESOLVE)
    done = conflicting.run(agent="exit 1")
    assert (done.code, done.word) == (0, "up-to-date")
    assert "waits for a person" in done.out
    assert len(conflicting.runs()) == 1


def test_after_a_person_merged_it_the_fork_is_up_to_date(conflicting: Desk) -> None:
    conflicting.run(agent=RESOLVE)
    conflicting.fork.person_merges(conflicting.pushed()[0])
    assert conflicting.run().word == "up-to-date"


def test_when_upstream_moves_on_the_next_run_takes_that_too(conflicting: Desk) -> None:
    conflicting.run(agent=RESOLVE)
    conflicting.fork.person_merges(conflicting.pushed()[0])
    conflicting.fork.upstream_commits("Third version", {"version.txt": "3\n"})
    done = conflicting.run(agent="exit 1")
    assert done.word == "merged", done.err
    assert len(conflicting.pushed()) == 2


def test_stuck_shows_the_questions_leaves_the_file_and_has_its_own_code(conflicting: Desk) -> None:
    done = conflicting.run(agent="printf 'Which greeting?\\n\\033[2J' > STUCK.md")
    assert (done.code, done.word) == (4, "stuck")
    assert "Which greeting?" in done.out
    assert "\x1b" not in done.out
    assert (conflicting.last / "workspace" / "STUCK.md").read_bytes() == b"Which greeting?\n\x1b[2J"
    assert conflicting.pushed() == []


def test_the_agents_failure_is_told_and_its_exit_code_is_not_ours(conflicting: Desk) -> None:
    done = conflicting.run(agent="echo out of ideas >&2; exit 4")
    assert (done.code, done.word) == (5, "agent")
    assert "exit 4" in done.out
    assert conflicting.state_of(conflicting.last)["word"] == "agent"


def test_the_limit_is_wall_clock_and_ends_the_container(conflicting: Desk) -> None:
    done = conflicting.run("--timeout", "3", agent="trap '' TERM; sleep 100 & wait; sleep 100")
    assert (done.code, done.word) == (2, "timeout")
    assert conflicting.containers() == []


def test_a_timeout_outranks_stuck(conflicting: Desk) -> None:
    done = conflicting.run("--timeout", "3", agent="echo help > STUCK.md; sleep 100")
    assert done.word == "timeout"


def test_stuck_outranks_a_failing_agent(conflicting: Desk) -> None:
    assert conflicting.run(agent="echo help > STUCK.md; exit 7").word == "stuck"


UNVERIFIED = {
    "nothing was done": ("true", "upstream's commits are not in the result"),
    "only part of upstream": (
        "echo x > x && git add x && git commit -qm x",
        "upstream's commits are not in the result",
    ),
    "the fork was thrown away": ("git reset -q --hard upstream/main", "history rewritten"),
    "an ours merge": ("git merge -q -s ours --no-edit upstream/main", "'ours' merge"),
    "markers were committed": (
        "git merge -q upstream/main; git add -A; git commit -qm done",
        "conflict markers are left in greet.py",
    ),
    "the stuck file was committed": (
        f"{RESOLVE} echo x > STUCK.md; git add -f STUCK.md; git commit -qm x; rm STUCK.md",
        "files of the run itself were committed: STUCK.md",
    ),
    "a merge is in progress": (
        f"{RESOLVE} git rev-parse HEAD > .git/MERGE_HEAD",
        "a merge is still in progress",
    ),
    "the branch is gone": ("git checkout -q --detach; git branch -qD main", "no branch 'main'"),
    "the repository is gone": ("rm -rf .git", "no plain directory of plain files"),
    "the history was rewritten": (
        "git checkout -q --orphan new; git add -A; git commit -qm new; git branch -qM new main",
        "history rewritten",
    ),
}


@pytest.mark.parametrize("case", UNVERIFIED)
def test_a_result_that_does_not_pass_is_withheld(conflicting: Desk, case: str) -> None:
    script, reason = UNVERIFIED[case]
    done = conflicting.run(agent=script)
    assert (done.code, done.word) == (3, "unverified"), done.err
    assert reason in done.out
    assert conflicting.pushed() == []


def test_a_change_of_the_forks_that_the_agent_drops_makes_it_a_draft_with_the_reason_first(
    desk_for: DeskFor,
) -> None:
    def prepare(fork: Fork) -> Fork:
        lines = "".join(f"line {n}\n" for n in range(30))
        fork.fork_commits("Base", {"long.txt": lines})
        fork.checkout.git("push", "-q", str(fork.upstream.path), "HEAD:main")
        fork.upstream_work.git("pull", "-q", "origin", "main")
        fork.fork_commits(
            "Ours", {"long.txt": lines.replace("line 1\n", "OURS\n"), "greet.py": "a\n"}
        )
        fork.upstream_commits(
            "Theirs", {"long.txt": lines.replace("line 29\n", "THEIRS\n"), "greet.py": "b\n"}
        )
        return fork

    desk = desk_for(prepare)
    done = desk.run(
        agent="git merge -q upstream/main; git checkout -q --theirs greet.py;"
        " git checkout -q upstream/main -- long.txt; git add -A; git commit -qm merged"
    )
    assert done.word == "merged", done.err
    body = (desk.last / "pull-request.md").read_text()
    assert "Draft, because:" in body.splitlines()[2]
    assert "the fork's change is gone although Git alone would have kept it: long.txt" in body


def test_a_dry_run_forecasts_and_changes_nothing_anywhere(conflicting: Desk) -> None:
    before = conflicting.fork.origin.branches()
    done = conflicting.run("--dry-run")
    assert (done.code, done.word) == (0, "forecast")
    assert "conflicts in 1: greet.py" in done.out
    assert conflicting.runs() == []
    assert conflicting.fork.origin.branches() == before


def test_json_says_the_same_in_one_line(diverging: Desk) -> None:
    done = diverging.run("--json")
    told = json.loads(done.out)
    assert (told["word"], told["exit_code"]) == ("merged", 0)
    assert told["branch"] == diverging.pushed()[0]


def test_unrelated_histories_are_refused_before_anything_is_made(level: Desk) -> None:
    other = new_repo(level.fork.root / "other")
    other.commit("Elsewhere", {"x": "y\n"})
    level.fork.checkout.git("remote", "set-url", "upstream", str(other.path))
    done = level.run()
    assert done.code == 1
    assert "no commit in common" in done.err
    assert level.runs() == []


def test_a_refused_push_keeps_the_result_and_prints_the_command_that_publishes_it(
    diverging: Desk,
) -> None:
    hook = diverging.fork.origin.path / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'no robots here' >&2\nexit 1\n")
    hook.chmod(0o755)
    done = diverging.run()
    assert (done.code, done.word) == (7, "publish")
    assert "no robots here" in done.out
    hook.unlink()
    command = done.out.split("by hand: ")[1].strip()
    subprocess.run(["sh", "-c", command], check=True, capture_output=True, env=diverging.environ)
    assert len(diverging.pushed()) == 1


def test_a_refused_push_is_made_good_by_the_next_run_without_an_agent(conflicting: Desk) -> None:
    hook = conflicting.fork.origin.path / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    assert conflicting.run(agent=RESOLVE).word == "publish"
    hook.unlink()
    done = conflicting.run(agent="exit 1")
    assert done.word == "merged", done.err
    assert len(conflicting.runs()) == 1
    assert len(conflicting.pushed()) == 1


def test_the_users_checkout_is_byte_for_byte_what_it_was(conflicting: Desk) -> None:
    root = conflicting.fork.checkout.path
    (root / "draft.txt").write_text("mine")
    conflicting.fork.checkout.git("stash", "push", "-q", "-u", "-m", "kept")
    (root / "greet.py").write_text("half an edit\n")
    before = {str(f): f.read_bytes() for f in root.rglob("*") if f.is_file()}
    conflicting.run(agent=RESOLVE)
    assert {str(f): f.read_bytes() for f in root.rglob("*") if f.is_file()} == before


def test_the_real_key_is_nowhere_in_the_run_and_nowhere_in_the_sandbox(conflicting: Desk) -> None:
    conflicting.run(
        agent=f"env > ../harness-state/env; cat /proc/1/environ >> ../harness-state/env; {RESOLVE}"
    )
    told = b"".join(f.read_bytes() for f in conflicting.last.rglob("*") if f.is_file())
    assert b"OPENCODE_API_KEY" in told
    assert b"sk-the-real-key" not in told


_FOREIGN_HARNESS = """\
#!/bin/sh
# Another harness: it knows the seeds' environment and directories, and nothing of our init.
set -e
test -n "$OPENCODE_API_KEY" && test -n "$OPENCODE_MODEL"
grep -q 'Merge upstream/main into main' /harness-state/instructions.txt
cd /workspace
git merge --quiet upstream/main || true
printf 'resolved by another harness\\n' > greet.py
git add greet.py
git commit --quiet --message 'Merge upstream'
"""


def test_an_image_with_a_harness_of_its_own_is_run_as_well(
    conflicting: Desk, docker_image: str, tmp_path: Path
) -> None:
    context = tmp_path / "image"
    context.mkdir()
    (context / "run.sh").write_text(_FOREIGN_HARNESS)
    (context / "Dockerfile").write_text(
        f"FROM {docker_image}\nUSER root\nCOPY run.sh /opt/forklift/harness/run.sh\n"
        "RUN chmod 0755 /opt/forklift/harness/run.sh\n"
    )
    tag = "forklift-test/foreign-harness:latest"
    subprocess.run(["docker", "build", "-q", "-t", tag, str(context)], check=True)
    done = conflicting.run("--image", tag)
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    (branch,) = conflicting.pushed()
    assert conflicting.fork.origin.file(branch, "greet.py") == "resolved by another harness"


def test_an_image_without_the_agent_says_so(
    conflicting: Desk, docker_image: str, tmp_path: Path
) -> None:
    context = tmp_path / "image"
    context.mkdir()
    (context / "Dockerfile").write_text(
        f'FROM {docker_image}\nUSER root\nRUN rm "$(command -v opencode)"\nUSER forklift\n'
    )
    tag = "forklift-test/no-agent:latest"
    subprocess.run(["docker", "build", "-q", "-t", tag, str(context)], check=True)
    done = conflicting.run("--image", tag)
    assert (done.code, done.word) == (5, "agent"), done.out + done.err
    assert "opencode cannot be started" in done.out
