from datetime import timedelta
from pathlib import Path

import pytest

from forklift.errors import SetupError
from forklift.settings import ForkSettings, read_forks


def write(at: Path, text: str) -> Path:
    path = at / "forks.toml"
    path.write_text(text)
    return path


def test_no_file_means_no_forks(tmp_path: Path) -> None:
    assert read_forks(tmp_path / "forks.toml") == ()


def test_a_path_alone_leaves_everything_else_to_the_defaults(tmp_path: Path) -> None:
    path = write(tmp_path, "[[fork]]\npath = '/src/tool'\n")
    assert read_forks(path) == (ForkSettings(Path("/src/tool")),)


def test_reads_every_option_of_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    path = write(
        tmp_path,
        """
        [[fork]]
        path = "~/src/tool"
        branch = "develop"
        timeout = 240
        strategy = "merge"
        target = "latest-release"
        instruction = ["Keep the login.", "Prefer ours in docs/."]
        no-pr = true
        draft = true
        label = "sync"
        assignee = ["ann"]
        reviewer = ["bob", "eve"]
        model = "anthropic/claude"
        variant = "high"
        agent = "build"
        opencode-env = "~/keys/opencode.env"
        image = "mine:1"
        extra-ca = "ca.pem"
        """,
    )
    assert read_forks(path) == (
        ForkSettings(
            path=Path("/home/me/src/tool"),
            branch="develop",
            timeout=timedelta(minutes=4),
            strategy="merge",
            target="latest-release",
            instruction=("Keep the login.", "Prefer ours in docs/."),
            no_pr=True,
            draft=True,
            label=("sync",),
            assignee=("ann",),
            reviewer=("bob", "eve"),
            model="anthropic/claude",
            variant="high",
            agent="build",
            opencode_env=Path("/home/me/keys/opencode.env"),
            image="mine:1",
            extra_ca=tmp_path / "ca.pem",
        ),
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("no_pr = true", "unknown key 'no_pr'; did you mean 'no-pr'?"),
        ("brnach = 'x'", "did you mean 'branch'?"),
        ("zzz = 1", "unknown key 'zzz' (known: path, branch"),
        ("branch = 3", "branch must be a string"),
        ("branch = ''", "branch must be a string"),
        ("timeout = '8m'", "timeout must be a whole number from 1 to 86400"),
        ("timeout = 0", "timeout must be"),
        ("timeout = true", "timeout must be"),
        ("strategy = 'rebase'", "strategy must be one of merge"),
        ("target = 'latest'", "target must be one of tip, latest-release; did you mean"),
        ("instruction = [1]", "instruction must be a string or a list"),
        ("label = ['a', '']", "label must be a string or a list"),
        ("draft = 'yes'", "draft must be true or false"),
        ("extra-ca = '~nobody-of-that-name/ca'", "home directory that does not exist"),
        ('model = \'a\\nb\'\nvariant = """a\nb"""', "variant must be a string"),
    ],
)
def test_names_the_entry_and_the_key(tmp_path: Path, line: str, words: str) -> None:
    path = write(tmp_path, f"[[fork]]\npath = '/src/tool'\n{line}\n")
    with pytest.raises(SetupError) as caught:
        read_forks(path)
    assert f"{path}, [[fork]] number 1: " in caught.value.message
    assert words in caught.value.message
    assert len(caught.value.message.splitlines()) == 1


def test_a_relative_checkout_is_refused_because_cron_and_a_terminal_would_disagree(
    tmp_path: Path,
) -> None:
    with pytest.raises(SetupError, match="path must be absolute"):
        read_forks(write(tmp_path, "[[fork]]\npath = 'src/tool'\n"))


def test_one_checkout_given_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"/a has two \[\[fork\]\] entries"):
        read_forks(write(tmp_path, "[[fork]]\npath = '/a'\n[[fork]]\npath = '/a/'\n"))
