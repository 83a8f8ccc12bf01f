import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from forklift.errors import ForkLocked, InternalError, SetupError
from forklift.stores.fork_lock import Holder, hold

SINCE = datetime(2026, 11, 5, 14, 3, 9, tzinfo=UTC)
ME = Holder("tool_20261105_140309", 4711, SINCE)

HOLD_UNTIL_KILLED = """
import sys, time
from datetime import UTC, datetime
from pathlib import Path
from forklift.stores.fork_lock import Holder, hold
with hold(Path(sys.argv[1]), "tool-1", Holder("tool_other", 99, datetime(2026, 11, 5, tzinfo=UTC))):
    print("held", flush=True)
    time.sleep(600)
"""


def test_the_second_run_is_told_who_holds_the_fork_and_since_when(tmp_path: Path) -> None:
    with (
        hold(tmp_path, "tool-1", ME),
        pytest.raises(ForkLocked) as caught,
        hold(tmp_path, "tool-1", ME),
    ):
        pass
    for words in ("tool_20261105_140309", "4711", "2026-11-05 14:03:09", "kill 4711"):
        assert words in caught.value.message
    assert "\n" not in caught.value.message


def test_another_fork_is_free_and_so_is_this_one_afterwards(tmp_path: Path) -> None:
    with hold(tmp_path, "tool-1", ME), hold(tmp_path, "tool-2", ME):
        pass
    with hold(tmp_path, "tool-1", ME):
        pass


def test_a_run_that_fails_lets_go(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), hold(tmp_path, "tool-1", ME):
        raise ZeroDivisionError
    with hold(tmp_path, "tool-1", ME):
        pass


def test_the_holder_can_say_its_name_later(tmp_path: Path) -> None:
    with hold(tmp_path, "tool-1", Holder("", 4711, SINCE)) as lock:
        with pytest.raises(ForkLocked, match=r"another run .*4711"), hold(tmp_path, "tool-1", ME):
            pass
        lock.say(ME)
        with pytest.raises(ForkLocked, match=ME.run_id), hold(tmp_path, "tool-1", ME):
            pass


def test_a_process_that_is_killed_outright_lets_go(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_UNTIL_KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(ForkLocked, match="tool_other"), hold(tmp_path, "tool-1", ME):
            pass
        other.send_signal(signal.SIGKILL)
        other.wait()
    with hold(tmp_path, "tool-1", ME):
        pass


def test_a_program_that_the_holder_starts_does_not_keep_the_lock(tmp_path: Path) -> None:
    with hold(tmp_path, "tool-1", ME):
        child = subprocess.Popen(["sleep", "600"])
    try:
        with hold(tmp_path, "tool-1", ME):
            pass
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize("contents", [b"", b"\xff\x00", b"[]", b'{"run": "x"}', b"[" * 4096])
def test_a_lock_file_that_says_nothing_useful_still_locks(tmp_path: Path, contents: bytes) -> None:
    with hold(tmp_path, "tool-1", ME):
        (tmp_path / "locks" / "tool-1.lock").write_bytes(contents)
        with pytest.raises(ForkLocked, match="another run holds"), hold(tmp_path, "tool-1", ME):
            pass


def test_the_lock_file_stays_and_is_private(tmp_path: Path) -> None:
    with hold(tmp_path / "state", "tool-1", ME):
        pass
    lock = tmp_path / "state" / "locks" / "tool-1.lock"
    assert lock.stat().st_mode & 0o777 == 0o600
    assert lock.parent.stat().st_mode & 0o777 == 0o700
    assert lock.parent.parent.stat().st_mode & 0o777 == 0o700
    assert lock.read_bytes() == b""


def test_a_link_in_the_lock_files_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "locks" / "tool-1.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(SetupError, match="cannot write"), hold(tmp_path, "tool-1", ME):
        pass
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_pipe_in_the_lock_files_place_makes_nobody_wait(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    os.mkfifo(tmp_path / "locks" / "tool-1.lock")
    with pytest.raises(SetupError, match="cannot write"), hold(tmp_path, "tool-1", ME):
        pass


@pytest.mark.parametrize("key", ["", "../x", ".hidden", "a/b"])
def test_a_key_that_is_no_file_name_is_our_own_mistake(tmp_path: Path, key: str) -> None:
    with pytest.raises(InternalError), hold(tmp_path, key, ME):
        pass
