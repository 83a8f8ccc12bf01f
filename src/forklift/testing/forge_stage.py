"""What the conformance suite needs of a forge besides the adapter that it tests."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

from forklift.core.secret import Secret
from forklift.forges.http import Patience
from forklift.forges.port import ForgeAddress, PullRequests, State
from forklift.testing.forge_server import ForgeServer
from forklift.testing.forge_state import HostedPullRequest, HostedRepository

HASTE = Patience(pauses=(timedelta(), timedelta()), longest_pause=timedelta())
"""Repeats as the product does, and waits for nothing."""

Adapter = Callable[[ForgeAddress], PullRequests]


@dataclass(frozen=True, slots=True)
class Shown:
    """A pull request as the forge itself shows it, past any adapter."""

    title: str
    body: str
    labels: frozenset[str]
    assignees: frozenset[str]
    reviewers: frozenset[str]


class Stage(ABC):
    """A repository with the branch `main`, a label, a helper who may do anything, and a fork."""

    owner = "owner"
    helper = "helper"
    label = "sync"

    @abstractmethod
    def adapter(self) -> PullRequests:
        """For the repository, with the token of `owner`."""
        ...

    @abstractmethod
    def add_branch(self, name: str) -> None:
        """With a commit that `main` does not have."""
        ...

    @abstractmethod
    def open_many(self, count: int, prefix: str) -> None:
        """Open this many pull requests, from branches whose names start so."""
        ...

    @abstractmethod
    def open_from_fork(self, head: str) -> None:
        """Open a pull request whose head is a fork's branch of this name."""
        ...

    @abstractmethod
    def settle(self, number: int, state: State) -> None:
        """Close or merge it."""
        ...

    @abstractmethod
    def shown(self, number: int) -> Shown: ...

    @abstractmethod
    def known_labels(self) -> frozenset[str]: ...

    @abstractmethod
    def count(self) -> int:
        """How many pull requests there are, in any state."""
        ...


class ServerStage(Stage):
    """A forge in this process."""

    outsider = "outsider"
    """Somebody with an account and without access."""

    def __init__(self, server: ForgeServer, adapter: Adapter) -> None:
        self.server = server
        self._adapter = adapter
        self.repository = server.create_repository(self.owner, "project")
        self.repository.labels[self.label] = server.next_number()
        server.add_user(self.helper)
        self.repository.writers.add(self.helper)
        server.add_user(self.outsider)
        self.token = server.token_for(self.owner)

    @cached_property
    def fork(self) -> HostedRepository:
        """Somebody else's, made when it is first asked for."""
        return self.server.fork(self.repository, "forker")

    def adapter(self) -> PullRequests:
        return self.adapter_with(self.token)

    def adapter_with(
        self, token: Secret, repository: HostedRepository | None = None
    ) -> PullRequests:
        return self._adapter(self.server.address(repository or self.repository, token))

    def add_branch(self, name: str) -> None:
        self.repository.add_branch(name)

    def open_many(self, count: int, prefix: str) -> None:
        for number in range(count):
            self.repository.add_pull_request(f"{prefix}{number}")

    def open_from_fork(self, head: str) -> None:
        self.fork.add_branch(head)
        self.repository.add_pull_request(head, author="forker", head_repository=self.fork.number)

    def settle(self, number: int, state: State) -> None:
        self.find(number).state = state

    def shown(self, number: int) -> Shown:
        pull = self.find(number)
        return Shown(
            pull.title,
            pull.body,
            frozenset(pull.labels),
            frozenset(pull.assignees),
            frozenset(pull.reviewers),
        )

    def known_labels(self) -> frozenset[str]:
        return frozenset(self.repository.labels)

    def count(self) -> int:
        return len(self.repository.pull_requests)

    def find(self, number: int) -> HostedPullRequest:
        pull = self.repository.find(number)
        assert pull is not None, f"no pull request {number}"
        return pull
