"""Whose sandbox it is: a wrong "dead" would end somebody's running work."""

import os
import subprocess
from dataclasses import replace

from forklift.sandboxes.owner import current_owner, is_dead


def test_this_process_is_alive() -> None:
    assert current_owner().pid == os.getpid()
    assert not is_dead(current_owner())


def test_an_ended_process_is_dead() -> None:
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as child:
        started = _started(child.pid)
        owner = replace(current_owner(), pid=child.pid, started=started)
        assert not is_dead(owner)
    assert is_dead(owner)


def test_a_process_that_nobody_has_buried_yet_is_dead() -> None:
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as child:
        owner = replace(current_owner(), pid=child.pid, started=_started(child.pid))
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert is_dead(owner)


def test_another_process_under_the_same_number_does_not_count() -> None:
    assert is_dead(replace(current_owner(), started=current_owner().started + 1))


def test_a_process_elsewhere_is_never_judged_dead() -> None:
    assert not is_dead(replace(current_owner(), pid=2**22, namespace="another boot/1"))


def _started(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rsplit(")", 1)[1].split()[19])
