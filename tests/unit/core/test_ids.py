import subprocess
from datetime import UTC, datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from forklift.core import ids

AT = datetime(2026, 11, 5, 14, 3, 9, tzinfo=UTC)


def is_a_git_ref(name: str) -> bool:
    done = subprocess.run(["git", "check-ref-format", name], check=False)
    return done.returncode == 0


@pytest.mark.parametrize(
    ("given_name", "name"),
    [
        ("https://git.example.org/team/tool.git", "tool"),
        ("git@git.example.org:team/tool.git/", "tool"),
        ("git@git.example.org:tool", "tool"),
        ("/home/me/my fork", "my-fork"),
        ("/home/me/tool/.git", "tool"),
        ("C:\\src\\tool", "tool"),
        ("-rf", "rf"),
        ("..", "project"),
        ("", "project"),
        ("/", "project"),
        ("проект", "project"),
    ],
)
def test_names_a_project_after_the_last_part_of_its_path_or_address(
    given_name: str, name: str
) -> None:
    assert ids.project_name(given_name) == name


@settings(max_examples=60)
@given(st.text(max_size=80))
@example("a.lock")
@example("a..b")
@example("@")
@example("x" * 23 + ".lock")
def test_every_name_it_makes_is_a_valid_git_ref(text: str) -> None:
    run = ids.run_id(text, AT, lambda _: False)
    assert is_a_git_ref(f"refs/heads/{ids.project_name(text)}")
    assert is_a_git_ref(f"refs/heads/{run}")
    assert is_a_git_ref(f"refs/heads/{ids.head_branch(AT, run)}")
    assert is_a_git_ref(f"refs/heads/{ids.fork_key(text, text)}")


@given(st.text())
def test_a_project_name_is_safe_as_a_file_name_and_as_an_argument(text: str) -> None:
    name = ids.project_name(text)
    assert name.replace(".", "").replace("_", "").replace("-", "").isascii()
    assert 0 < len(name) <= 24
    assert name[0] not in "-."
    assert "/" not in name
    assert ids.project_name(name) == name


def test_a_second_run_in_the_same_second_gets_a_suffix() -> None:
    taken = {"tool_20261105_140309", "tool_20261105_140309-2"}
    assert ids.run_id("tool", AT, taken.__contains__) == "tool_20261105_140309-3"


def test_a_head_branch_says_when_and_is_the_same_for_the_same_run_only() -> None:
    branch = ids.head_branch(AT, "tool_20261105_140309")
    assert branch.startswith(ids.HEAD_PREFIX + "20261105-")
    assert branch == ids.head_branch(AT, "tool_20261105_140309")
    assert branch != ids.head_branch(AT, "tool_20261105_140309-2")


@pytest.mark.parametrize(
    "spelling",
    [
        "https://git.example.org/team/tool.git",
        "https://git.example.org/team/tool/",
        "https://me:token@GIT.Example.org/team/tool",
        "https://git.example.org:443/team/tool",
        "git@git.example.org:team/tool.git",
        "ssh://git@git.example.org:22/team/tool",
    ],
)
def test_one_fork_has_one_key_however_its_address_is_spelled(spelling: str) -> None:
    assert ids.fork_key("tool", spelling) == ids.fork_key(
        "tool", "https://git.example.org/team/tool"
    )


@pytest.mark.parametrize(
    "other",
    [
        "https://git.example.org/team/Tool",
        "https://git.example.org:8443/team/tool",
        "https://git.example.com/team/tool",
        "/srv/git.example.org/team/tool",
    ],
)
def test_different_forks_have_different_keys(other: str) -> None:
    assert ids.fork_key("tool", other) != ids.fork_key("tool", "https://git.example.org/team/tool")
