"""Looking at living processes through /proc, as anybody on the machine could."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 30.0
"""For what must happen soon; a machine that is busy with other tests may take its time."""


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait until it holds. An assertion at the end of the patience, not a measurement."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, f"did not happen: {what}"
        time.sleep(0.01)


def command_lines() -> dict[int, str]:
    """Every process's arguments, by its number."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                raw = (entry / "cmdline").read_bytes()
                found[int(entry.name)] = raw.replace(b"\0", b" ").decode(errors="replace")
    return found


def children(pid: int, naming: str) -> list[int]:
    """The process's own children whose arguments hold `naming`."""
    return [
        child for child, line in command_lines().items() if naming in line and _parent(child) == pid
    ]


def is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        stat = Path(f"/proc/{pid}/stat").read_text()
        return stat[stat.rindex(")") + 2] not in "ZX"
    return False


def peak_memory(pid: int) -> int | None:
    """The most bytes it ever held at once; None when it is gone."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    return None


def _parent(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError):
        stat = Path(f"/proc/{pid}/stat").read_text()
        return int(stat[stat.rindex(")") + 2 :].split()[1])
    return 0
