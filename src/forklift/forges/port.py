"""Pull requests on a forge: what only the host may do.

An adapter registers itself in the entry-point group `forklift.forges` and passes
`forklift.testing.forge_conformance`.
"""

import enum
from dataclasses import dataclass
from typing import Protocol

from forklift.core.secret import Secret


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository on a forge. `owner` may hold slashes (GitLab groups)."""

    host: str
    owner: str
    name: str

    def __str__(self) -> str:
        return f"{self.host}/{self.owner}/{self.name}"


@dataclass(frozen=True, slots=True)
class ForgeAddress:
    """Where and as whom a forge is spoken to. The token goes to `api_url`'s host only."""

    api_url: str
    repository: Repository
    token: Secret


class State(enum.Enum):
    OPEN = "open"
    CLOSED = "closed"
    MERGED = "merged"


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a pull request should be. `head` and `base` are branches of the same repository."""

    head: str
    base: str
    title: str
    body: str
    draft: bool = False
    labels: tuple[str, ...] = ()
    assignees: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PullRequest:
    number: int
    url: str
    head: str
    base: str
    title: str
    state: State
    draft: bool
    notes: tuple[str, ...] = ()
    """What could not be done on the side: a label that does not exist, a reviewer who may not."""


class PullRequests(Protocol):
    """One repository's pull requests. Every failure is a `ForgeError` that says what to do next."""

    async def probe(self) -> str:
        """Who the token belongs to; raises when it is refused, expired or may not write here."""
        ...

    async def find_open(self, head_prefix: str, base: str) -> list[PullRequest]:
        """Open ones from branches *of this repository* whose names start so, newest first."""
        ...

    async def find_by_head(self, head: str) -> PullRequest | None:
        """The newest from exactly this branch of this repository, whatever its state."""
        ...

    async def create(self, proposal: Proposal) -> PullRequest:
        """Open it. One that is already open for the same branches is updated and returned:
        asking twice leaves one. Labels, assignees and reviewers that cannot be set become notes.
        """
        ...

    async def update(self, number: int, proposal: Proposal) -> PullRequest:
        """Make title, body and draft state so; add labels, assignees and reviewers."""
        ...

    async def aclose(self) -> None: ...
