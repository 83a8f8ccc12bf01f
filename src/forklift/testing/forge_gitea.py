"""Gitea in this process.

Seen on a real Gitea 1.15 and in the sources of 1.27: the duplicate's 409 and its words, the cap of
50 on a page, `head.label` without an owner, `head.ref` turning into `refs/pull/N/head`, label
numbers, assignees that replace, an assignee without access answered by an empty 500, reviewers'
404 and 422, tokens of 40 hexadecimal digits, a POST that answers 500 and has written.
From the public documentation: scoped tokens (since 1.19), `draft` (since 1.20), redirects of
renamed repositories. Gitea limits no rates itself; the 429 is what a proxy before it sends.
"""

import re
import ssl
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from forklift.forges.port import State
from forklift.testing import git_http
from forklift.testing.forge_http import Reply
from forklift.testing.forge_server import Call, ForgeServer, Handler, Route, hexadecimal, now
from forklift.testing.forge_state import HostedPullRequest, HostedRepository

_REPO = r"/api/v1/repos/(?P<owner>[^/]+)/(?P<name>[^/]+)"


class GiteaServer(ForgeServer):
    kind = "gitea"
    api_path = "/api/v1"

    def __init__(
        self,
        root: Path,
        *,
        tells_drafts: bool = True,
        draft_marks: tuple[str, ...] = ("WIP:", "[WIP]"),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(root, tls=tls)
        self._draft_marks = draft_marks
        """As the server's administrator set them."""
        self._tells_drafts = tells_drafts
        """False is a Gitea before 1.20."""
        self._organization_labels: dict[str, dict[str, int]] = {}

    def routes(self) -> list[Route]:
        table: list[tuple[str, str, Handler]] = [
            ("GET", r"/api/v1/user", self._user),
            ("GET", r"/api/v1/orgs/(?P<org>[^/]+)/labels", self._org_labels),
            ("GET", _REPO, self._repository),
            ("GET", _REPO + r"/labels", self._labels),
            ("GET", _REPO + r"/pulls", self._list),
            ("POST", _REPO + r"/pulls", self._create),
            ("PATCH", _REPO + r"/pulls/(?P<number>\d+)", self._edit),
            ("POST", _REPO + r"/pulls/(?P<number>\d+)/requested_reviewers", self._review),
            ("POST", _REPO + r"/issues/(?P<number>\d+)/labels", self._add_labels),
        ]
        return [(method, re.compile(path), handler) for method, path, handler in table]

    def add_organization_label(self, organization: str, name: str) -> int:
        number = self.next_number()
        self._organization_labels.setdefault(organization, {})[name] = number
        return number

    def complaint(self, status: int, message: str) -> object:
        # A 500 tells its reason to the log only.
        return {"message": "" if status == 500 else message, "url": f"{self.url}/api/swagger"}

    def all_scopes(self) -> frozenset[str] | None:
        return None

    def new_token_value(self) -> str:
        return hexadecimal(40)

    def unknown_token(self) -> Reply:
        return Reply(401, self.complaint(401, "invalid username, password or token"))

    def limited(self, until: datetime) -> Reply:
        seconds = max(1, round((until - now()).total_seconds()))
        return Reply(429, b"Too Many Requests", {"Retry-After": str(seconds)})

    def _user(self, call: Call) -> Reply:
        self._needs(call, "read:user", "write:user")
        return Reply(200, self._shown_user(call.user))

    def _repository(self, call: Call) -> Reply:
        repository = self._found(call)
        writes = repository.may_write(call.user)
        content = {
            "id": repository.number,
            "full_name": repository.full_name,
            "private": repository.private,
            "archived": repository.archived,
            "has_pull_requests": repository.has_pull_requests,
            "default_branch": repository.default_branch,
            "permissions": {"admin": writes, "push": writes, "pull": True},
        }
        return Reply(200, content)

    def _labels(self, call: Call) -> Reply:
        self._needs(call, "read:issue", "write:issue")
        return self._label_page(call, self._found(call, "read:issue", "write:issue").labels)

    def _org_labels(self, call: Call) -> Reply:
        self._needs(call, "read:organization", "write:organization")
        known = self._organization_labels.get(call.names["org"])
        if known is None:
            raise self.refuse(404, "The target couldn't be found.")
        return self._label_page(call, known)

    def _label_page(self, call: Call, labels: dict[str, int]) -> Reply:
        shown = [{"id": number, "name": name} for name, number in labels.items()]
        return self.page(call, shown, "limit", usual=30, cap=50)

    def _list(self, call: Call) -> Reply:
        repository = self._found(call)
        state, base = call.sent.parameter("state", "open"), call.sent.parameter("base_branch")
        found = [
            self._shown(repository, pull)
            for pull in sorted(repository.pull_requests, key=lambda one: -one.number)
            if (state == "all" or (pull.state is State.OPEN) == (state == "open"))
            and (not base or pull.base == base)
        ]
        return self.page(call, found, "limit", usual=30, cap=50)

    def _create(self, call: Call) -> Reply:
        repository = self._found(call, "write:repository")
        head, base = call.fields.text("head"), call.fields.text("base")
        if not (repository.has_branch(head) and repository.has_branch(base)):
            raise self.refuse(404, "The target couldn't be found.")
        there = repository.open_for(repository.number, head, base)
        if there is not None:
            raise self.refuse(409, _duplicate(repository, there))
        if head == base or not git_http.brings_something(repository.git_dir, base, head):
            message = "Invalid PullRequest: There are no changes between the head and the base"
            raise self.refuse(422, message)
        pull = repository.add_pull_request(head, base=base, author=call.user)
        pull.title, pull.body = call.fields.text("title"), call.fields.text("body")
        return Reply(201, self._shown(repository, pull))

    def _edit(self, call: Call) -> Reply:
        repository, pull = self._writable(call, "write:repository")
        pull.title = call.fields.text("title") or pull.title
        pull.body = call.fields.text("body", pull.body)
        if "assignees" in call.fields:
            pull.assignees = self._assignable(repository, call.fields.texts("assignees"))
        return Reply(201, self._shown(repository, pull))

    def _assignable(self, repository: HostedRepository, names: Iterable[str]) -> list[str]:
        wanted = list(names)
        for name in wanted:
            if self.person(name) is None:
                what = f"user does not exist [uid: 0, name: {name}]"
                raise self.refuse(422, f"Assignee does not exist: [name: {what}]")
            if name not in repository.writers | repository.readers:
                raise self.refuse(500, "user doesn't have access to repo")
        return wanted

    def _review(self, call: Call) -> Reply:
        repository, pull = self._writable(call, "write:repository")
        for name in call.fields.texts("reviewers"):
            if self.person(name) is None:
                raise self.refuse(404, f"User '{name}' not exist")
            if name == pull.author or name not in repository.writers | repository.readers:
                raise self.refuse(
                    422, "not a valid review request: reviewer can't read or is poster"
                )
            pull.reviewers.append(name)
        return Reply(201, [{"user": self._shown_user(name)} for name in pull.reviewers])

    def _add_labels(self, call: Call) -> Reply:
        repository, pull = self._writable(call, "write:issue")
        known = self._organization_labels.get(repository.owner, {}) | repository.labels
        wanted = set(call.fields.numbers("labels"))
        pull.labels += [name for name, number in known.items() if number in wanted]
        return Reply(200, [{"name": name} for name in pull.labels])

    def _found(self, call: Call, *scopes: str) -> HostedRepository:
        self._needs(call, *(scopes or ("read:repository", "write:repository")))
        full_name = f"{call.names['owner']}/{call.names['name']}"
        return self.visible(full_name, call, "The target couldn't be found.")

    def _writable(self, call: Call, scope: str) -> tuple[HostedRepository, HostedPullRequest]:
        repository = self._found(call, scope)
        pull = repository.find(int(call.names["number"]))
        if pull is None:
            raise self.refuse(404, "The target couldn't be found.")
        if not repository.may_write(call.user):
            raise self.refuse(403, "")
        return repository, pull

    def _needs(self, call: Call, *any_of: str) -> None:
        if not call.token.has(*any_of):
            what = f"token does not have at least one of required scope(s): [{any_of[-1]}]"
            raise self.refuse(403, what)

    def _shown_user(self, name: str) -> dict[str, object]:
        person = self.person(name)
        return {"id": person.number if person else 0, "login": name, "username": name}

    def _shown(self, repository: HostedRepository, pull: HostedPullRequest) -> dict[str, object]:
        head = self.repository_numbered(pull.head_repository)
        there = head is not None and head.has_branch(pull.head)
        ref = pull.head if there else f"refs/pull/{pull.number}/head"
        shown: dict[str, object] = {
            "number": pull.number,
            "html_url": f"{self.url}/{repository.full_name}/pulls/{pull.number}",
            "title": pull.title,
            "body": pull.body,
            "state": "open" if pull.state is State.OPEN else "closed",
            "merged": pull.state is State.MERGED,
            "user": self._shown_user(pull.author),
            "labels": [{"name": name} for name in pull.labels],
            "assignees": [self._shown_user(name) for name in pull.assignees] or None,
            "head": {"label": pull.head, "ref": ref, "repo_id": head.number if head else -1},
            "base": {"label": pull.base, "ref": pull.base, "repo_id": repository.number},
        }
        if self._tells_drafts:
            shown["draft"] = pull.title.upper().startswith(self._draft_marks)
        return shown


def _duplicate(repository: HostedRepository, pull: HostedPullRequest) -> str:
    return (
        f"pull request already exists for these targets [id: {pull.number}, "
        f"issue_id: {pull.number}, head_repo_id: {repository.number}, "
        f"base_repo_id: {repository.number}, head_branch: {pull.head}, base_branch: {pull.base}]"
    )
