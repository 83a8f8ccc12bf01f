"""What the scripts say and do, with a docker program that plays each state of a machine."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ENSURE = ROOT / "scripts/ensure-docker.sh"
BUILD = ROOT / "docker/kitchen-sink/build.sh"
ABSENT = ("git", "npm", "pyenv")


def run(script: Path, tmp_path: Path, docker: str, *arguments: str) -> tuple[int, str]:
    # No network, and nothing of this machine's configuration: git, npm and pyenv have no answer.
    for name, script_text in {"docker": docker, **dict.fromkeys(ABSENT, "exit 1")}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script_text}\n")
        (tmp_path / name).chmod(0o755)
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        ["/bin/sh", str(script), *arguments],
        env=environ, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_an_engine_that_answers_is_left_alone(tmp_path: Path) -> None:
    code, said = run(ENSURE, tmp_path, "echo 28.0.1")
    assert (code, said) == (0, "docker: ready (28.0.1)\n")


def test_a_user_who_is_refused_is_told_how_to_be_let_in(tmp_path: Path) -> None:
    refusal = "echo 'permission denied while trying to connect' >&2; exit 1"
    code, said = run(ENSURE, tmp_path, refusal)
    assert (code, said.count("\n")) == (1, 1)
    assert "sudo usermod -aG docker $USER" in said


def test_the_build_knows_its_options_and_says_so(tmp_path: Path) -> None:
    for arguments in (["--bogus"], ["--tag"]):
        code, said = run(BUILD, tmp_path, "exit 0", *arguments)
        assert code == 1
        assert said.startswith("build: ")


def test_the_build_needs_an_engine(tmp_path: Path) -> None:
    code, said = run(BUILD, tmp_path, "exit 1")
    assert (code, said) == (1, "build: docker does not answer; see: forklift doctor\n")


@pytest.mark.parametrize("layout", ["clone", "wheel"])
def test_an_image_of_this_recipe_is_not_built_again(tmp_path: Path, layout: str) -> None:
    script = BUILD if layout == "clone" else wheel(tmp_path)
    built = tmp_path / "built"
    # The first run asks for the label and finds another: it would build, and shows with what.
    play = f"""
case "$1 $2" in
    "version "*) exit 0 ;;
    "image inspect") [ "$3" = --format ] && cat {built}; exit 0 ;;
    "build "*) for a; do case $a in forklift.recipe=*) echo ${{a#*=}} >{built} ;; esac; done ;;
esac
"""
    built.write_text("another\n")
    base = ("--base", "here", "--if-needed")
    code, said = run(script, tmp_path, play, *base)
    assert code == 0, said
    assert "built forklift/kitchen-sink:latest" in said
    code, said = run(script, tmp_path, play, *base)
    assert (code, said) == (0, "build: forklift/kitchen-sink:latest is up to date\n")


def wheel(tmp_path: Path) -> Path:
    """The folders as a wheel lays them out."""
    package = tmp_path / "site/forklift"
    package.mkdir(parents=True)
    subprocess.run(["cp", "-R", str(BUILD.parent), str(package / "kitchen_sink")], check=True)
    (package / "guest").mkdir()
    init = (ROOT / "src/forklift/guest/init.py").read_text()
    (package / "guest/init.py").write_text(init)
    return package / "kitchen_sink/build.sh"
