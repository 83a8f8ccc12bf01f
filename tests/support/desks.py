"""Fixtures for the command as a user runs it; a conftest imports those it wants to offer."""

import os
import shutil
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from forklift.testing.repositories import Fork, conflict, diverge, new_fork
from tests.support.desk import Desk, DeskFor, build_stand_in, write_opencode_env


@pytest.fixture(scope="session")
def docker_image() -> str:
    return "forklift/kitchen-sink:latest"


@pytest.fixture(scope="session")
def stand_in_image(docker_image: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_stand_in(docker_image, tmp_path_factory.mktemp("stand-in"))


@pytest.fixture
def runtime() -> Generator[Path]:
    """Short: pytest's own directories are longer than a socket's path may be."""
    path = Path(tempfile.mkdtemp(prefix="fl-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def desk_for(stand_in_image: str, tmp_path: Path, runtime: Path) -> DeskFor:
    def make(prepare: Callable[[Fork], Fork]) -> Desk:
        # A project's name of its own, so that the containers of two tests are told apart.
        name = f"greeter-{os.urandom(3).hex()}"
        fork = prepare(new_fork(tmp_path, directory=name))
        home = tmp_path / "home"
        write_opencode_env(home)
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_RUNTIME_DIR": str(runtime),
            "FORKLIFT_IMAGE": stand_in_image,
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        return Desk(fork, stand_in_image, home, environ)

    return make


@pytest.fixture
def conflicting(desk_for: DeskFor) -> Desk:
    return desk_for(conflict)


@pytest.fixture
def diverging(desk_for: DeskFor) -> Desk:
    return desk_for(diverge)


@pytest.fixture
def level(desk_for: DeskFor) -> Desk:
    return desk_for(lambda fork: fork)
