"""GitLab in this process.

From the public documentation and the answers quoted in public issue threads: the duplicate's 409
with "Another open merge request already exists …", Draft as a title prefix, people as numbers,
lists of people that replace, people without access passed over in silence, labels created by
asking for them, quick actions carried out from descriptions, rights through `members/all`,
insufficient scopes as 403 with an `error`, expired tokens as 401 with one, rate limits as plain
text with RateLimit headers, redirects of moved projects for GET only. The words for a source
branch that does not exist are a guess.
"""

import re
from collections.abc import Sequence
from datetime import datetime

from forklift.forges.port import State
from forklift.testing.forge_http import Refused, Reply
from forklift.testing.forge_server import Call, ForgeServer, Handler, Route, hexadecimal, now
from forklift.testing.forge_state import HostedPullRequest, HostedRepository, Person

_PROJECT = r"/api/v4/projects/(?P<project>[^/]+)"
_STATES = {State.OPEN: "opened", State.CLOSED: "closed", State.MERGED: "merged"}
_DRAFT = re.compile(r"\s*(draft:|\[draft\]|\(draft\))", re.IGNORECASE)
_QUICK_ACTION = re.compile(r"^\s*/(close|merge)\b", re.MULTILINE)


class GitLabServer(ForgeServer):
    kind = "gitlab"
    api_path = "/api/v4"
    moved_status = 302
    redirects_writes = False

    def routes(self) -> list[Route]:
        table: list[tuple[str, str, Handler]] = [
            ("GET", r"/api/v4/user", self._user),
            ("GET", r"/api/v4/users", self._users),
            ("GET", _PROJECT, self._project),
            ("GET", _PROJECT + r"/members/all/(?P<user>\d+)", self._member),
            ("GET", _PROJECT + r"/labels/(?P<label>[^/]+)", self._label),
            ("GET", _PROJECT + r"/merge_requests", self._list),
            ("POST", _PROJECT + r"/merge_requests", self._create),
            ("PUT", _PROJECT + r"/merge_requests/(?P<number>\d+)", self._edit),
        ]
        return [(method, re.compile(path), handler) for method, path, handler in table]

    def complaint(self, status: int, message: str) -> object:
        return {"message": message if message.startswith(str(status)) else f"{status} {message}"}

    def all_scopes(self) -> frozenset[str] | None:
        return frozenset({"api"})

    def new_token_value(self) -> str:
        return f"glpat-{hexadecimal(20)}"

    def expired(self) -> Reply:
        words = "Token is expired. You can either do re-authorization or token refresh."
        return Reply(401, {"error": "invalid_token", "error_description": words})

    def limited(self, until: datetime) -> Reply:
        headers = {
            "Content-Type": "text/plain",
            "RateLimit-Remaining": "0",
            "RateLimit-Reset": str(int(until.timestamp())),
            "Retry-After": str(max(1, round((until - now()).total_seconds()))),
        }
        return Reply(429, b"Retry later\n", headers)

    def _user(self, call: Call) -> Reply:
        self._needs(call, "api", "read_api", "read_user")
        return Reply(200, _shown_user(call.token.owner))

    def _users(self, call: Call) -> Reply:
        person = self.person(call.sent.parameter("username"))
        return Reply(200, [_shown_user(person)] if person else [])

    def _project(self, call: Call) -> Reply:
        project = self._found(call, "api", "read_api")
        content = {
            "id": project.number,
            "path_with_namespace": project.full_name,
            "archived": project.archived,
            "merge_requests_enabled": project.has_pull_requests,
            # Rights that come through a group's invitation are not in here.
            "permissions": {"project_access": None, "group_access": None},
        }
        return Reply(200, content)

    def _member(self, call: Call) -> Reply:
        project = self._found(call, "api", "read_api")
        person = self.person_numbered(int(call.names["user"]))
        if person is None or person.name not in project.writers | project.readers:
            raise self.refuse(404, "Not found")
        level = 30 if project.may_write(person.name) else 20
        return Reply(200, {**_shown_user(person), "access_level": level})

    def _label(self, call: Call) -> Reply:
        if call.names["label"] not in self._found(call, "api", "read_api").labels:
            raise self.refuse(404, "Label Not Found")
        return Reply(200, {"name": call.names["label"]})

    def _list(self, call: Call) -> Reply:
        project = self._found(call, "api", "read_api")
        state = call.sent.parameter("state", "all")
        source, target = (call.sent.parameter(f"{end}_branch") for end in ("source", "target"))
        found = [
            self._shown(project, pull)
            for pull in sorted(project.pull_requests, key=lambda one: -one.number)
            if state in {"all", _STATES[pull.state]}
            and (not source or pull.head == source)
            and (not target or pull.base == target)
        ]
        return self.page(call, found, "per_page", usual=20, cap=100)

    def _create(self, call: Call) -> Reply:
        project = self._found(call, "api")
        if not project.may_write(call.user):
            raise self.refuse(403, "Forbidden")
        head, base = call.fields.text("source_branch"), call.fields.text("target_branch")
        for branch in (head, base):
            if not project.has_branch(branch):
                words = [f'Source branch "{branch}" does not exist']
                raise Refused(Reply(400, {"message": {"base": words}}))
        there = project.open_for(project.number, head, base)
        if there is not None:
            words = (
                f"Another open merge request already exists for this source branch: !{there.number}"
            )
            raise Refused(Reply(409, {"message": [words]}))
        pull = project.add_pull_request(head, base=base, author=call.user)
        self._write(project, pull, call)
        return Reply(201, self._shown(project, pull))

    def _edit(self, call: Call) -> Reply:
        project = self._found(call, "api")
        pull = project.find(int(call.names["number"]))
        if pull is None:
            raise self.refuse(404, "Not found")
        if not project.may_write(call.user):
            raise self.refuse(403, "Forbidden")
        self._write(project, pull, call)
        return Reply(200, self._shown(project, pull))

    def _write(self, project: HostedRepository, pull: HostedPullRequest, call: Call) -> None:
        pull.title = call.fields.text("title", pull.title)
        if "description" in call.fields:
            pull.body = call.fields.text("description")
            for action in _QUICK_ACTION.findall(pull.body):
                pull.state = State.MERGED if action == "merge" else State.CLOSED
        for name in filter(None, call.fields.text("add_labels").split(",")):
            # As the real one does: asking for an unknown label creates it.
            project.labels.setdefault(name, self.next_number())
            pull.labels.append(name)
        if "assignee_ids" in call.fields:
            pull.assignees = self._allowed(project, call.fields.numbers("assignee_ids"))
        if "reviewer_ids" in call.fields:
            pull.reviewers = self._allowed(project, call.fields.numbers("reviewer_ids"))

    def _allowed(self, project: HostedRepository, numbers: Sequence[int]) -> list[str]:
        people = [self.person_numbered(number) for number in numbers]
        members = project.writers | project.readers
        return [person.name for person in people if person and person.name in members]

    def _found(self, call: Call, *any_of: str) -> HostedRepository:
        self._needs(call, *any_of)
        return self.visible(call.names["project"], call, "404 Project Not Found")

    def _needs(self, call: Call, *any_of: str) -> None:
        if not call.token.has(*any_of):
            words = "The request requires higher privileges than provided by the access token."
            content = {"error": "insufficient_scope", "error_description": words, "scope": "api"}
            raise Refused(Reply(403, content))

    def _shown(self, project: HostedRepository, pull: HostedPullRequest) -> dict[str, object]:
        return {
            "id": 1_000 + pull.number,
            "iid": pull.number,
            "web_url": f"{self.url}/{project.full_name}/-/merge_requests/{pull.number}",
            "title": pull.title,
            "description": pull.body,
            "state": _STATES[pull.state],
            "draft": _DRAFT.match(pull.title) is not None,
            "source_branch": pull.head,
            "target_branch": pull.base,
            "source_project_id": pull.head_repository,
            "target_project_id": project.number,
            "labels": pull.labels,
            "assignees": self._people_shown(pull.assignees),
            "reviewers": self._people_shown(pull.reviewers),
        }

    def _people_shown(self, names: Sequence[str]) -> list[dict[str, object]]:
        people = [self.person(name) for name in names]
        return [_shown_user(person) for person in people if person]


def _shown_user(person: Person) -> dict[str, object]:
    return {"id": person.number, "username": person.name, "state": "active"}
