"""Catching the command at a chosen moment, and looking at what it leaves."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.desk import Desk
from tests.support.processes import children, is_alive, until

WORKING = "touch ../harness-state/working; sleep 100"
"""An agent that says it has begun, and then takes its time."""

_HOOK = """\
#!/bin/sh
cat >/dev/null
touch {reached}
waited=0
while [ ! -e {leave} ] && [ "$waited" -lt 600 ]; do sleep 0.1; waited=$((waited + 1)); done
touch {left}
"""


@dataclass(frozen=True, slots=True)
class Stop:
    """A hook at origin in which a push stands still until it is let go."""

    hook: Path
    room: Path

    @property
    def is_reached(self) -> bool:
        return (self.room / "reached").exists()

    def is_left(self) -> bool:
        return (self.room / "left").exists()

    def remove(self) -> None:
        """Later pushes do not stand still any more."""
        self.hook.unlink()

    def let_go(self) -> None:
        (self.room / "leave").touch()
        until(self.is_left, "the push that stood still has gone on")


@contextmanager
def stop_at(desk: Desk, name: str) -> Generator[Stop]:
    """`pre-receive`: before origin has the branch; `post-receive`: when it has."""
    room = desk.home / name
    room.mkdir()
    hook = desk.fork.origin.path / "hooks" / name
    hook.parent.mkdir(exist_ok=True)
    names = {part: str(room / part) for part in ("reached", "leave", "left")}
    hook.write_text(_HOOK.format(**names))
    hook.chmod(0o755)
    try:
        yield Stop(hook, room)
    finally:
        (room / "leave").touch()


@contextmanager
def started(desk: Desk, agent: str = WORKING) -> Generator["subprocess.Popen[str]"]:
    """The command, begun as a shell begins one; at the end of the test it is over in any case."""
    # Signals that the tests' own caller ignores (nohup, a script's `&`) would stay ignored.
    heeding = ["env", "--default-signal=INT,TERM,HUP"]
    process = subprocess.Popen(
        [*heeding, *desk.command(agent=agent)], cwd=desk.fork.checkout.path, env=desk.environ,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
        process_group=0,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
        process.kill()
        process.communicate()


def wait_for_agent(desk: Desk, process: "subprocess.Popen[str]") -> None:
    def works() -> bool:
        assert process.poll() is None, process.communicate()
        return any((run / "harness-state" / "working").exists() for run in desk.runs())

    until(works, "the agent works")


def strike(process: "subprocess.Popen[str]") -> None:
    """`kill -9`: no handler, no finally."""
    process.send_signal(signal.SIGKILL)
    process.wait(20)


def door_process(process: "subprocess.Popen[str]", door: str) -> int:
    """The run's own sidecar that keeps this door."""
    (pid,) = children(process.pid, f"forklift.sidecar {door}")
    return pid


def all_gone(pids: Iterable[int]) -> bool:
    return not any(is_alive(pid) for pid in pids)


@contextmanager
def small_disk(desk: Desk, size: str) -> Generator[Path]:
    """The state directory on a file system of its own."""
    at = desk.home / "state"
    at.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(at)], check=True)
    try:
        yield at
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True)


def fill(disk: Path) -> Path:
    """Take all that is left of the disk."""
    ballast = disk / "ballast"
    with ballast.open("wb") as file, contextlib.suppress(OSError):
        while True:
            file.write(b"\0" * (64 << 10))
            file.flush()
    assert os.statvfs(disk).f_bavail == 0
    return ballast
