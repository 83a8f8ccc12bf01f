"""What the README and the tutorial show is what happens: real Git, containers, and OpenCode."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pages import ROOT, Block, Page

pytestmark = pytest.mark.docker

BRANCH = re.compile(r"forklift/upstream-\d{8}-[0-9a-f]{8}")
THE_BRANCH = "$(git ls-remote --heads origin 'forklift/*' | cut -d/ -f3-)"
CHANGING = (
    (BRANCH, "BRANCH"),
    (re.compile(r"\bgreeter_\d{8}_\d{6}\b"), "RUN"),
    (re.compile(r"\b[0-9a-f]{10,64}\b"), "COMMIT"),
    (re.compile(r"/tmp/forklift-demo-\w+"), "ROOT"),
    (re.compile(r"git version \S+|docker \d\S+|\d+ GiB free|127\.0\.0\.1:\d+"), "FACT"),
)


def calm(text: str) -> list[str]:
    """The lines, without what differs from run to run."""
    for pattern, name in CHANGING:
        text = pattern.sub(name, text)
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def missing(shown: str, happened: str) -> list[str]:
    """Lines of `shown` that did not come, in that order."""
    lines = iter(calm(happened))
    return [line for line in calm(shown) if line not in lines]


def environment(home: Path, runtime: Path) -> dict[str, str]:
    (home / ".gitconfig").write_text("[user]\n\tname = You\n\temail = you@example.org\n")
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(runtime),
        "GIT_CONFIG_NOSYSTEM": "1",
    }


def test_the_readme_shows_what_the_demonstration_prints(tmp_path: Path, runtime: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/demo.py")],
        env=environment(tmp_path, runtime), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    shown = [b.text for b in Page(ROOT / "README.md").blocks() if b.mark == "transcript: demo"]
    assert len(shown) == 3
    assert [missing(text, done.stdout) for text in shown] == [[], [], []]


def test_every_step_of_the_tutorial_works_and_prints_what_it_shows(
    tmp_path: Path, runtime: Path
) -> None:
    steps = read_steps(Page(ROOT / "docs/tutorial/first-sync.md").blocks())
    assert len(steps) > 8
    done = subprocess.run(
        ["bash", "-c", script(steps, free_port())], cwd=tmp_path, check=False,
        env=environment(tmp_path, runtime), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    printed = done.stdout.split("--- next step ---\n")
    for (commands, shown), happened in zip(steps, printed, strict=True):
        assert missing(shown.replace("/home/you", str(tmp_path)), happened) == [], commands


def read_steps(blocks: list[Block]) -> list[tuple[str, str]]:
    """Commands to run, each with the output that is shown for it."""
    steps: list[tuple[str, str]] = []
    for block in blocks:
        if block.mark == "run":
            steps.append((block.text, ""))
        elif block.language == "text" and steps:
            steps[-1] = (steps[-1][0], block.text)
    return steps


def script(steps: list[tuple[str, str]], port: int) -> str:
    """One shell for all steps, as the reader has; the branch has the name that this run gave it."""
    commands = "\necho '--- next step ---'\n".join(commands for commands, _ in steps)
    commands = BRANCH.sub(lambda _: THE_BRANCH, commands.replace("4567", str(port)))
    return f"set -e\ntrap 'kill $(jobs -p) 2>/dev/null' EXIT\n{commands}trap - EXIT\n"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
