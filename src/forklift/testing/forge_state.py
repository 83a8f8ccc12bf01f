"""What a forge remembers: people, tokens, repositories and pull requests."""

from dataclasses import dataclass, field
from pathlib import Path

from forklift.forges.port import State
from forklift.testing import git_http


@dataclass(frozen=True, slots=True)
class Person:
    number: int
    name: str


@dataclass(slots=True)
class Token:
    value: str
    owner: Person
    scopes: frozenset[str] | None
    """None: a token of a kind that does not tell, and may all that its owner may."""
    expired: bool = False
    app: bool = False
    """Of a GitHub app, such as GitHub Actions: there is no user behind it to tell."""

    def has(self, *any_of: str) -> bool:
        return self.scopes is None or not self.scopes.isdisjoint(any_of)


@dataclass(slots=True)
class HostedPullRequest:
    number: int
    head_repository: int | None
    """None when the fork was deleted."""
    head: str
    base: str
    title: str
    body: str
    author: str
    state: State = State.OPEN
    draft: bool = False
    """GitHub's own state; the other forges read it from the title."""
    labels: list[str] = field(default_factory=list[str])
    assignees: list[str] = field(default_factory=list[str])
    reviewers: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class HostedRepository:
    number: int
    owner: str
    name: str
    git_dir: Path
    default_branch: str
    private: bool = False
    archived: bool = False
    has_pull_requests: bool = True
    owned_by_organization: bool = False
    writers: set[str] = field(default_factory=set[str])
    readers: set[str] = field(default_factory=set[str])
    labels: dict[str, int] = field(default_factory=dict[str, int])
    pull_requests: list[HostedPullRequest] = field(default_factory=list[HostedPullRequest])

    @property
    def full_name(self) -> str:
        return f"{self.owner}/{self.name}"

    def may_write(self, name: str) -> bool:
        return name in self.writers

    def may_read(self, name: str) -> bool:
        return not self.private or name in self.readers | self.writers

    def branches(self) -> dict[str, str]:
        return git_http.branches(self.git_dir)

    def has_branch(self, name: str) -> bool:
        """Without starting Git: a listing asks this for each of its entries."""
        packed = self.git_dir / "packed-refs"
        listed = packed.read_text().splitlines() if packed.exists() else []
        reference = f"refs/heads/{name}"
        return (self.git_dir / reference).is_file() or any(
            line.endswith(f" {reference}") for line in listed
        )

    def add_branch(self, name: str, files: dict[str, str] | None = None) -> None:
        """One more commit on this branch, which begins at the default branch when it is new."""
        start = name if name in self.branches() else self.default_branch
        git_http.commit(self.git_dir, name, files or {"changed.txt": f"{name}\n"}, start=start)

    def protect(self, branch: str) -> None:
        git_http.protect(self.git_dir, branch)

    def find(self, number: int) -> HostedPullRequest | None:
        return next((pull for pull in self.pull_requests if pull.number == number), None)

    def add_pull_request(
        self,
        head: str,
        *,
        base: str | None = None,
        title: str = "A change",
        author: str = "somebody",
        head_repository: int | None = None,
        state: State = State.OPEN,
    ) -> HostedPullRequest:
        """Put one there as it is, without asking whether its branches exist."""
        pull = HostedPullRequest(
            number=len(self.pull_requests) + 1,
            head_repository=self.number if head_repository is None else head_repository,
            head=head,
            base=base or self.default_branch,
            title=title,
            body="",
            author=author,
            state=state,
        )
        self.pull_requests.append(pull)
        return pull

    def open_for(self, head_repository: int, head: str, base: str) -> HostedPullRequest | None:
        """The open one for the same branches, of which every forge allows one."""
        for pull in self.pull_requests:
            ends = (pull.head_repository, pull.head, pull.base)
            if pull.state is State.OPEN and ends == (head_repository, head, base):
                return pull
        return None
