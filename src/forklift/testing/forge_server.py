"""A forge in this process: what Gitea's, GitHub's and GitLab's have in common.

Real HTTP on the loopback interface, real Git behind `/<owner>/<name>.git`, and the faults that real
forges have: see `fail`, `limit_rate`, `move`. What each forge does its own way is in
`forge_gitea.py`, `forge_github.py` and `forge_gitlab.py`, which say where that knowledge is from.
"""

import itertools
import re
import secrets
import ssl
import threading
import urllib.parse
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from forklift.core.secret import Secret
from forklift.forges.port import ForgeAddress, Repository
from forklift.testing import forge_git, git_http
from forklift.testing.forge_http import Fault, Fields, Listener, Refused, Reply, Sent
from forklift.testing.forge_state import HostedPullRequest, HostedRepository, Person, Token


@dataclass(frozen=True, slots=True)
class Call:
    """An API request, as the handlers below see it."""

    sent: Sent
    names: Mapping[str, str]
    """What the route's pattern named, decoded."""
    fields: Fields
    token: Token

    @property
    def user(self) -> str:
        return self.token.owner.name


Handler = Callable[[Call], Reply]
Route = tuple[str, re.Pattern[str], Handler]


class ForgeServer(ABC):
    kind: str
    """As in `forges.toml`."""
    api_path: str
    moved_status = 301
    redirects_writes = True
    keeps_workflows = False
    """Whether a push that changes workflow files takes a scope of its own."""

    def __init__(self, root: Path, *, tls: ssl.SSLContext | None = None) -> None:
        self.root = root
        self._lock = threading.RLock()
        self._numbers = itertools.count(1)
        self._listener = Listener(self._answer, tls)
        self._people: dict[str, Person] = {}
        self._tokens: dict[str, Token] = {}
        self._repositories: list[HostedRepository] = []
        self._moved: dict[str, str] = {}
        self._limited_until: datetime | None = None
        self._routes = self.routes()

    def __enter__(self) -> Self:
        self._listener.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.stop()

    # What a test arranges

    @property
    def url(self) -> str:
        return self._listener.url

    @property
    def api_url(self) -> str:
        return self.url + self.api_path

    @property
    def requests(self) -> Sequence[Sent]:
        """Everything that arrived, Git's requests too: who sent which Authorization where."""
        return tuple(self._listener.requests)

    def add_user(self, name: str) -> Person:
        return self._people.setdefault(name, Person(next(self._numbers), name))

    def token_for(
        self, user: str, *, scopes: Iterable[str] | None = None, expired: bool = False
    ) -> Secret:
        """Without scopes: one that may do whatever its user may."""
        value = self.new_token_value()
        granted = self.all_scopes() if scopes is None else frozenset(scopes)
        self._tokens[value] = Token(value, self.add_user(user), granted, expired)
        return Secret(value)

    def create_repository(
        self,
        owner: str,
        name: str,
        *,
        default_branch: str = "main",
        private: bool = False,
        organization: bool = False,
    ) -> HostedRepository:
        """With one commit. Its owner may write to it."""
        git_dir = self.root / owner / f"{name}.git"
        git_dir.parent.mkdir(parents=True, exist_ok=True)
        git_http.create_bare(git_dir, default_branch)
        return self._host(owner, name, git_dir, default_branch, private, organization)

    def fork(self, repository: HostedRepository, owner: str) -> HostedRepository:
        git_dir = self.root / owner / f"{repository.name}.git"
        git_dir.parent.mkdir(parents=True, exist_ok=True)
        git_http.copy_bare(repository.git_dir, git_dir)
        branch = repository.default_branch
        return self._host(owner, repository.name, git_dir, branch, repository.private, False)

    def pull_requests(self, repository: HostedRepository) -> Sequence[HostedPullRequest]:
        return tuple(repository.pull_requests)

    def git_url(self, repository: HostedRepository) -> str:
        return f"{self.url}/{repository.full_name}.git"

    def address(self, repository: HostedRepository, token: Secret) -> ForgeAddress:
        host = urllib.parse.urlsplit(self.url).netloc
        named = Repository(host, repository.owner, repository.name)
        return ForgeAddress(self.api_url, named, token)

    # What goes wrong

    def fail(
        self,
        method: str,
        path: str,
        status: int = 500,
        *,
        after_writing: bool = False,
        times: int = 1,
        content: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """The next requests whose path matches are answered so; maybe after doing their work."""
        said = self.complaint(status, "something went wrong") if content is None else content
        reply = Reply(status, said, headers or {})
        self._listener.add(Fault(method, re.compile(path), reply, after_writing, times))

    def drop(self, method: str, path: str, *, after_writing: bool, times: int = 1) -> None:
        """The next requests whose path matches get no answer at all."""
        self._listener.add(Fault(method, re.compile(path), None, after_writing, times))

    def limit_rate(self, until: datetime) -> None:
        self._limited_until = until

    def move(self, repository: HostedRepository, location: str) -> None:
        """From now on the API answers for the repository with a redirect there."""
        self._moved[repository.full_name] = location

    # What each forge does its own way

    @abstractmethod
    def routes(self) -> list[Route]: ...

    @abstractmethod
    def complaint(self, status: int, message: str) -> object:
        """The body of an error."""
        ...

    @abstractmethod
    def all_scopes(self) -> frozenset[str] | None: ...

    @abstractmethod
    def new_token_value(self) -> str: ...

    @abstractmethod
    def limited(self, until: datetime) -> Reply: ...

    def expired(self) -> Reply:
        return self.unknown_token()

    def unknown_token(self) -> Reply:
        return Reply(401, self.complaint(401, "Unauthorized"))

    # For the handlers

    def token(self, value: str) -> Token | None:
        return self._tokens.get(value)

    def person(self, name: str) -> Person | None:
        return self._people.get(name)

    def person_numbered(self, number: int) -> Person | None:
        return next((one for one in self._people.values() if one.number == number), None)

    def repository(self, full_name: str) -> HostedRepository | None:
        return next((one for one in self._repositories if one.full_name == full_name), None)

    def repository_numbered(self, number: int | None) -> HostedRepository | None:
        return next((one for one in self._repositories if one.number == number), None)

    def next_number(self) -> int:
        return next(self._numbers)

    def refuse(self, status: int, message: str) -> Refused:
        return Refused(Reply(status, self.complaint(status, message)))

    def visible(self, full_name: str, call: Call, missing: str) -> HostedRepository:
        """The repository, as far as this user may know of it."""
        if full_name in self._moved:
            raise self._redirect(call.sent.method, self._moved[full_name])
        found = self.repository(full_name)
        if found is None or not found.may_read(call.user):
            raise self.refuse(404, missing)
        return found

    def page(self, call: Call, items: Sequence[object], size: str, usual: int, cap: int) -> Reply:
        """One page and the Link header, as all three forges have it."""
        number = max(1, _whole(call.sent.parameter("page"), 1))
        length = min(cap, max(1, _whole(call.sent.parameter(size), usual)))
        shown = items[(number - 1) * length : number * length]
        headers = {"X-Total-Count": str(len(items))}
        if number * length < len(items):
            after = f"{self.url}{call.sent.path}?page={number + 1}&{size}={length}"
            headers["Link"] = f'<{after}>; rel="next"'
        elif number > 1:
            headers["Link"] = f'<{self.url}{call.sent.path}?page=1>; rel="first"'
        return Reply(200, list(shown), headers)

    def _redirect(self, method: str, location: str) -> Refused:
        if method != "GET" and not self.redirects_writes:
            return self.refuse(405, "Non GET methods are not allowed for moved projects")
        return Refused(Reply(self.moved_status, None, {"Location": location}))

    # The way of a request

    def _answer(self, sent: Sent) -> Reply:
        with self._lock:
            try:
                return forge_git.answer(self, sent) or self._api(sent)
            except Refused as refused:
                return refused.reply

    def _api(self, sent: Sent) -> Reply:
        token = self._authorized(sent.authorization)
        if self._limited_until is not None:
            return self.limited(self._limited_until)
        for method, pattern, handler in self._routes:
            found = pattern.fullmatch(sent.path) if method == sent.method else None
            if found:
                names = {key: urllib.parse.unquote(text) for key, text in found.groupdict().items()}
                return handler(Call(sent, names, sent.fields(), token))
        return Reply(404, self.complaint(404, "Not Found"))

    def _authorized(self, authorization: str) -> Token:
        value = authorization.partition(" ")[2]
        token = self._tokens.get(value)
        if token is None:
            raise Refused(self.unknown_token())
        if token.expired:
            raise Refused(self.expired())
        return token

    def _host(
        self, owner: str, name: str, git_dir: Path, branch: str, private: bool, organization: bool
    ) -> HostedRepository:
        self.add_user(owner)
        number = next(self._numbers)
        repository = HostedRepository(number, owner, name, git_dir, branch, private)
        repository.owned_by_organization = organization
        repository.writers.add(owner)
        self._repositories.append(repository)
        return repository


def hexadecimal(length: int) -> str:
    return secrets.token_hex(length // 2)


def now() -> datetime:
    return datetime.now(UTC)


def _whole(text: str, otherwise: int) -> int:
    return int(text) if text.isdecimal() else otherwise
