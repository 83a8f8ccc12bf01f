"""Where untrusted work runs. A backend implements `Sandboxes` and `Sandbox`; nothing else.

`forklift.testing.sandbox_conformance` holds what every backend must do.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from forklift.core.owner import Owner


@dataclass(frozen=True, slots=True)
class Limits:
    memory_bytes: int = 8 << 30
    cpus: float = 2.0
    pids: int = 2048
    file_bytes: int = 8 << 30
    tmp_bytes: int = 2 << 30
    log_bytes: int = 10 << 20


@dataclass(frozen=True, slots=True)
class Mount:
    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """Everything a sandbox is; two equal specs make two equal sandboxes."""

    name: str
    """Unique among living sandboxes: `forklift-<run id>[-<purpose>]`."""
    run_id: str
    owner: Owner
    deadline: datetime
    """After this any Forklift may end it, whoever owns it."""
    image: str
    """An image's digest, as `Sandboxes.find_image` gave it."""
    uid: int
    gid: int
    mounts: tuple[Mount, ...]
    argv: tuple[str, ...]
    """The program and its arguments; replaces the image's entrypoint."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Never in any process's argument list: a run's token is in here."""
    workdir: str = "/workspace"
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Image:
    name: str
    digest: str
    harness: str | None
    """The version of the harness it carries (label `forklift.harness`), or None."""


@dataclass(frozen=True, slots=True)
class Exit:
    code: int
    out_of_memory: bool = False


class Sandbox(Protocol):
    """One living sandbox."""

    @property
    def spec(self) -> SandboxSpec: ...

    async def wait(self) -> Exit:
        """Until it has ended. Raises `SandboxUnavailable` when the backend itself dies."""
        ...

    async def kill(self) -> None:
        """End it now. Ending what has already ended is no error."""
        ...

    async def output(self, limit: int) -> bytes:
        """The last `limit` bytes of what it printed; memory stays bounded however much that was."""
        ...

    async def freeze(self) -> None:
        """End it and forget it; what it keeps lies in its writable mounts, which stay."""
        ...


class Sandboxes(Protocol):
    """A backend."""

    async def probe(self) -> str:
        """The backend's name and version. Raises `SandboxUnavailable` with what to do next."""
        ...

    async def find_image(self, name: str) -> Image:
        """Raises `SandboxUnavailable` when it is not here; never asks a registry."""
        ...

    async def start(self, spec: SandboxSpec) -> Sandbox:
        """Start, or `SandboxUnavailable`. A name that is taken is refused."""
        ...

    async def resume(self, spec: SandboxSpec) -> Sandbox:
        """Start on a frozen sandbox's directories. A leftover of that name is ended first."""
        ...

    async def capture(self, spec: SandboxSpec, into: Path, limit: int) -> Exit:
        """Run to the end, stdout into the new file `into`; ended when it grows over `limit` bytes.

        Raises `UnsafeOutput` when the limit was passed.
        """
        ...

    async def destroy(self, name: str) -> None:
        """Remove the sandbox of that name, alive or not. None there is no error."""
        ...

    async def reap(self, is_dead: Callable[[Owner], bool], now: datetime) -> list[str]:
        """Destroy what a dead owner left or whose deadline passed, nothing else; their names."""
        ...
