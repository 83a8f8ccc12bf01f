"""Who answers for a sandbox, and whether that process still lives."""

import os
from pathlib import Path

from forklift.sandboxes.port import Owner

_PROC = Path("/proc")
_STATE, _STARTED = 0, 19
"""Where a process's state and start time stand behind its name in /proc/<pid>/stat."""


def current_owner() -> Owner:
    pid = os.getpid()
    return Owner(pid, int(_stat(pid)[_STARTED]), _namespace())


def is_dead(owner: Owner) -> bool:
    """True only when that is certain: a process in another pid namespace cannot be judged."""
    if owner.namespace != _namespace():
        return False
    try:
        stat = _stat(owner.pid)
    except (FileNotFoundError, ProcessLookupError):
        return True
    # A zombie answers for nothing; another start time is another process under a reused number.
    return stat[_STATE] in "ZX" or int(stat[_STARTED]) != owner.started


def _namespace() -> str:
    boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot}/{(_PROC / 'self/ns/pid').stat().st_ino}"


def _stat(pid: int) -> list[str]:
    text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    return text[text.rindex(")") + 2 :].split()  # a process's name may hold spaces and brackets
