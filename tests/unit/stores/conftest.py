"""Running a piece of a test without root's powers: root may do what the tests are about."""

import os
import tempfile
import traceback
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from forklift.stores.trees import remove_tree

_NOBODY = 65534


@pytest.fixture
def their_directory() -> Generator[Path]:
    """A directory that an unprivileged user can reach and owns (pytest's own are root's alone)."""
    path = Path(tempfile.mkdtemp(prefix="forklift-test-"))
    if os.geteuid() == 0:
        os.chown(path, _NOBODY, _NOBODY)
    yield path
    assert remove_tree(path) == ()


@pytest.fixture
def unprivileged() -> Callable[[Callable[[], None]], None]:
    """Runs a function in a child without privileges; its failure is the test's."""
    return _in_a_child


def _in_a_child(work: Callable[[], None]) -> None:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            _drop_privileges()
            work()
            status = 0
        except BaseException:  # noqa: BLE001 - the child's edge: the parent reports it
            traceback.print_exc()
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, "see the child's traceback above"


def _drop_privileges() -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
