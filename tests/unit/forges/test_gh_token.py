"""Asking GitHub's own command line, with a program of that name on the path."""

import time
from pathlib import Path

import pytest

from forklift.forges.gh_token import gh_token


def gh(folder: Path, script: str) -> dict[str, str]:
    program = folder / "gh"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder)}


@pytest.fixture(autouse=True)
def found_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


def test_the_stored_token_of_that_host_is_given(tmp_path: Path) -> None:
    script = '[ "$*" = "auth token --hostname git.example.org" ] && echo gho_stored'

    assert gh_token("git.example.org", gh(tmp_path, script)) == "gho_stored"


def test_without_gh_there_is_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert gh_token("github.com", {"PATH": str(tmp_path)}) is None


def test_a_host_that_gh_does_not_know_has_no_token(tmp_path: Path) -> None:
    assert gh_token("github.com", gh(tmp_path, "echo no oauth token; exit 1")) is None


def test_bytes_that_are_no_text_are_no_token(tmp_path: Path) -> None:
    assert gh_token("github.com", gh(tmp_path, "printf '\\377\\376'")) is None


def test_a_variable_meant_for_another_host_does_not_answer_for_this_one(tmp_path: Path) -> None:
    environ = gh(tmp_path, 'echo "${GH_ENTERPRISE_TOKEN}${GH_TOKEN}${GITHUB_TOKEN}stored"')
    environ |= {"GH_ENTERPRISE_TOKEN": "x", "GH_TOKEN": "y", "GITHUB_TOKEN": "z"}

    assert gh_token("github.com", environ) == "stored"


def test_gh_is_told_not_to_ask_anybody(tmp_path: Path) -> None:
    environ = gh(tmp_path, 'read -r line; echo "$GH_PROMPT_DISABLED$line"')

    assert gh_token("github.com", environ) == "1"


def test_gh_does_not_run_in_the_repository_at_hand(tmp_path: Path) -> None:
    assert gh_token("github.com", gh(tmp_path, "pwd")) == "/"


def test_a_gh_that_hangs_is_ended_with_all_its_children(
    tmp_path: Path,
) -> None:
    alive = tmp_path / "alive"
    environ = gh(tmp_path, f'sleep 600 & echo $! > "{alive}"; wait')

    assert gh_token("github.com", environ, longest_wait=1) is None

    while _lives(alive.read_text().strip()):  # the suite's own limit ends this if it never does
        time.sleep(0.01)


def _lives(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False
