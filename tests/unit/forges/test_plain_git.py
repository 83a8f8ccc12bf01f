"""What a person is told when there is no forge to open a pull request on."""

import subprocess
from pathlib import Path

import pytest

from forklift.forges.plain_git import instructions
from forklift.testing.git_http import branches, commit, create_bare


@pytest.mark.parametrize(
    ("url", "page"),
    [
        (
            "git@github.com:owner/name.git",
            "https://github.com/owner/name/compare/main...forklift/up?expand=1",
        ),
        (
            "https://gitlab.com/group/sub/name",
            (
                "https://gitlab.com/group/sub/name/-/merge_requests/new"
                "?merge_request%5Bsource_branch%5D=forklift%2Fup"
                "&merge_request%5Btarget_branch%5D=main"
            ),
        ),
        (
            "https://user:secret@codeberg.org/owner/name.git",
            "https://codeberg.org/owner/name/compare/main...forklift/up",
        ),
        (
            "http://gitea.example.org:3000/owner/name.git",
            "http://gitea.example.org:3000/owner/name/compare/main...forklift/up",
        ),
    ],
)
def test_a_known_host_gets_the_page_to_open(url: str, page: str) -> None:
    assert instructions(url, "forklift/up", "main") == (
        f"open a pull request for forklift/up at: {page}"
    )


def test_an_unknown_host_gets_commands_without_the_password() -> None:
    lines = instructions("https://me:secret@git.example.org/o/n.git", "forklift/up", "main")

    assert "secret" not in lines
    assert "git fetch https://git.example.org/o/n.git forklift/up" in lines


def test_the_commands_merge_the_branch(tmp_path: Path) -> None:
    remote, checkout = tmp_path / "odd name" / "remote.git", tmp_path / "checkout"
    remote.parent.mkdir()
    create_bare(remote, "main")
    commit(remote, "forklift/up", {"new.txt": "new\n"}, start="main")
    subprocess.run(["git", "clone", "-q", str(remote), str(checkout)], check=True)

    lines = instructions(str(remote), "forklift/up", "main").splitlines()[1:]
    subprocess.run(["sh", "-ec", "\n".join(lines)], cwd=checkout, check=True, capture_output=True)

    head = subprocess.run(
        ["git", "rev-parse", "main"], cwd=checkout, check=True, capture_output=True, text=True
    )
    assert head.stdout.strip() == branches(remote)["forklift/up"]


def test_a_name_that_a_shell_would_run_is_quoted() -> None:
    lines = instructions("/srv/git/name.git", "$(touch /tmp/x)", "main;id")

    assert "'$(touch /tmp/x)'" in lines
    assert "git switch 'main;id'" in lines
