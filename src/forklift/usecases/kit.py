"""What every use case is given: the ports, wired, and the few facts about this machine."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from forklift.agents.port import CodingAgent
from forklift.core.owner import Owner
from forklift.core.secret import Redactor, Secret
from forklift.forges.port import PullRequests
from forklift.git.checkout import Remote
from forklift.sandboxes.port import Limits, Sandboxes
from forklift.sidecar.policy import EgressPolicy


class Watch(Protocol):
    """Where progress goes: a terminal, or nowhere."""

    def step(self, text: str) -> None: ...

    def warn(self, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Guest:
    """As whom the guest runs."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class OpenForge:
    """A fork's forge, opened, and the login that its token makes for git."""

    kind: str
    pull_requests: PullRequests
    user: str
    token: Secret


@dataclass(frozen=True, slots=True)
class Kit:
    state_root: Path
    runtime_root: Path
    sandboxes: Sandboxes
    agent: CodingAgent
    image: str
    owner: Owner
    is_dead: Callable[[Owner], bool]
    guest: Guest
    clock: Callable[[], datetime]
    open_forge: Callable[[Remote], Awaitable[OpenForge | None]]
    """None: no forge is configured for this remote, and a branch is the result."""
    redact: Redactor
    egress: EgressPolicy = field(default_factory=EgressPolicy)
    limits: Limits = field(default_factory=Limits)
    extra_ca: Path | None = None
    versions: tuple[tuple[str, str], ...] = ()
