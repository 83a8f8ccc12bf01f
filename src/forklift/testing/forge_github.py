"""GitHub in this process: an Enterprise server (`/api/v3`), and the API at the root as well.

From the public documentation and the answers quoted in public issue threads: the duplicate's 422
with "A pull request already exists for …", "No commits between …", `head` filtered by
`owner:branch`, draft changed by GraphQL only and errors with status 200 there, reviewers refused
with 422 all together, assignees without access passed over in silence, labels created by asking
for them, X-OAuth-Scopes of classic tokens, primary rate limits as 403, single sign-on as 403, the
refusal of workflow files to a token without that scope, redirects of renamed repositories.
"""

import re
import ssl
from datetime import datetime
from pathlib import Path

from forklift.forges.port import State
from forklift.testing import git_http
from forklift.testing.forge_http import Reply
from forklift.testing.forge_server import Call, ForgeServer, Handler, Route, hexadecimal
from forklift.testing.forge_state import HostedPullRequest, HostedRepository, Token

_REPO = r"(?:/api/v3)?/repos/(?P<owner>[^/]+)/(?P<name>[^/]+)"
_DOCS = "https://docs.github.com/rest"


class GitHubServer(ForgeServer):
    kind = "github"
    api_path = "/api/v3"
    keeps_workflows = True

    def __init__(
        self, root: Path, *, has_drafts: bool = True, tls: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(root, tls=tls)
        self.has_drafts = has_drafts
        """False is a private repository on a plan without them."""

    def routes(self) -> list[Route]:
        table: list[tuple[str, str, Handler]] = [
            ("GET", r"(?:/api/v3)?/user", self._user),
            ("POST", r"(?:/api)?/graphql", self._graphql),
            ("GET", _REPO, self._repository),
            ("GET", _REPO + r"/labels/(?P<label>[^/]+)", self._label),
            ("GET", _REPO + r"/pulls", self._list),
            ("POST", _REPO + r"/pulls", self._create),
            ("PATCH", _REPO + r"/pulls/(?P<number>\d+)", self._edit),
            ("POST", _REPO + r"/pulls/(?P<number>\d+)/requested_reviewers", self._review),
            ("POST", _REPO + r"/issues/(?P<number>\d+)/labels", self._add_labels),
            ("POST", _REPO + r"/issues/(?P<number>\d+)/assignees", self._assign),
        ]
        return [(method, re.compile(path), handler) for method, path, handler in table]

    def complaint(self, status: int, message: str) -> object:
        return {"message": message, "documentation_url": _DOCS, "status": str(status)}

    def all_scopes(self) -> frozenset[str] | None:
        return frozenset({"repo", "workflow"})

    def new_token_value(self) -> str:
        return f"ghp_{hexadecimal(36)}"

    def unknown_token(self) -> Reply:
        return Reply(401, self.complaint(401, "Bad credentials"))

    def limited(self, until: datetime) -> Reply:
        headers = {
            "X-RateLimit-Limit": "5000",
            "X-RateLimit-Remaining": "0",
            "X-RateLimit-Reset": str(int(until.timestamp())),
        }
        return Reply(403, self.complaint(403, "API rate limit exceeded for user ID 1."), headers)

    def _user(self, call: Call) -> Reply:
        if call.token.app:
            raise self.refuse(403, "Resource not accessible by integration")
        return Reply(200, _shown_user(call.user), _scopes(call.token))

    def _repository(self, call: Call) -> Reply:
        repository = self._found(call)
        writes = repository.may_write(call.user)
        content = {
            "id": repository.number,
            "full_name": repository.full_name,
            "private": repository.private,
            "archived": repository.archived,
            "permissions": {"admin": writes, "push": writes, "pull": True},
        }
        return Reply(200, content, _scopes(call.token))

    def _label(self, call: Call) -> Reply:
        name = call.names["label"]
        if name not in self._found(call).labels:
            raise self.refuse(404, "Not Found")
        return Reply(200, {"name": name})

    def _list(self, call: Call) -> Reply:
        repository = self._found(call)
        state, base = call.sent.parameter("state", "open"), call.sent.parameter("base")
        owner, _, branch = call.sent.parameter("head").partition(":")
        found = [
            self._shown(repository, pull)
            for pull in sorted(repository.pull_requests, key=lambda one: -one.number)
            if (state == "all" or (pull.state is State.OPEN) == (state == "open"))
            and (not base or pull.base == base)
            and (not branch or (pull.head == branch and self._owner_of(pull) == owner))
        ]
        return self.page(call, found, "per_page", usual=30, cap=100)

    def _create(self, call: Call) -> Reply:
        repository = self._found(call)
        self._needs_repo(call)
        head, base = call.fields.text("head"), call.fields.text("base")
        for name, branch in (("head", head), ("base", base)):
            if not repository.has_branch(branch):
                raise self._invalid({"field": name, "code": "invalid"})
        if not git_http.brings_something(repository.git_dir, base, head):
            raise self._invalid(
                {"code": "custom", "message": f"No commits between {base} and {head}"}
            )
        if repository.open_for(repository.number, head, base):
            what = f"A pull request already exists for {repository.owner}:{head}."
            raise self._invalid({"code": "custom", "message": what})
        draft = call.fields.flag("draft")
        if draft and not self.has_drafts:
            raise self.refuse(422, "Draft pull requests are not supported in this repository.")
        pull = repository.add_pull_request(head, base=base, author=call.user)
        pull.title, pull.body = call.fields.text("title"), call.fields.text("body")
        pull.draft = draft
        return Reply(201, self._shown(repository, pull))

    def _edit(self, call: Call) -> Reply:
        repository, pull = self._writable(call)
        pull.title = call.fields.text("title", pull.title)
        pull.body = call.fields.text("body", pull.body)
        return Reply(200, self._shown(repository, pull))

    def _review(self, call: Call) -> Reply:
        repository, pull = self._writable(call)
        for name in call.fields.texts("reviewers"):
            if name == pull.author:
                raise self.refuse(422, "Review cannot be requested from pull request author.")
            if name not in repository.writers | repository.readers:
                raise self.refuse(
                    422,
                    "Reviews may only be requested from collaborators. One or more of the users or "
                    "teams you specified is not a collaborator of the "
                    f"{repository.full_name} repository.",
                )
        pull.reviewers += call.fields.texts("reviewers")
        return Reply(201, self._shown(repository, pull))

    def _add_labels(self, call: Call) -> Reply:
        repository, pull = self._writable(call)
        for name in call.fields.texts("labels"):
            # As the real one does: asking for an unknown label creates it.
            repository.labels.setdefault(name, self.next_number())
            pull.labels.append(name)
        return Reply(200, [{"name": name} for name in pull.labels])

    def _assign(self, call: Call) -> Reply:
        repository, pull = self._writable(call)
        allowed = repository.writers | repository.readers
        pull.assignees += [name for name in call.fields.texts("assignees") if name in allowed]
        return Reply(201, {"assignees": [_shown_user(name) for name in pull.assignees]})

    def _graphql(self, call: Call) -> Reply:
        query, node = call.fields.text("query"), call.fields.within("variables").text("id")
        found = re.fullmatch(r"PR_(\d+)_(\d+)", node)
        repository = self.repository_numbered(int(found[1])) if found else None
        pull = repository.find(int(found[2])) if repository and found else None
        if repository is None or pull is None or not repository.may_write(call.user):
            message = f"Could not resolve to a node with the global id of '{node}'."
            return Reply(200, {"data": None, "errors": [{"type": "NOT_FOUND", "message": message}]})
        drafts = "convertPullRequestToDraft" in query
        if not drafts and "markPullRequestReadyForReview" not in query:
            return Reply(200, {"errors": [{"message": "Parse error"}]})
        if drafts and not self.has_drafts:
            message = "Draft pull requests are not supported in this repository."
            return Reply(200, {"errors": [{"type": "UNPROCESSABLE", "message": message}]})
        pull.draft = drafts
        return Reply(200, {"data": {}})

    def _found(self, call: Call) -> HostedRepository:
        full_name = f"{call.names['owner']}/{call.names['name']}"
        repository = self.visible(full_name, call, "Not Found")
        if repository.private and not call.token.has("repo"):
            raise self.refuse(404, "Not Found")
        return repository

    def _needs_repo(self, call: Call) -> None:
        if not call.token.has("repo", "public_repo"):
            raise self.refuse(404, "Not Found")

    def _writable(self, call: Call) -> tuple[HostedRepository, HostedPullRequest]:
        repository = self._found(call)
        self._needs_repo(call)
        pull = repository.find(int(call.names["number"]))
        if pull is None:
            raise self.refuse(404, "Not Found")
        if not repository.may_write(call.user):
            raise self.refuse(403, "Must have push access to repository")
        return repository, pull

    def _invalid(self, what: dict[str, str]) -> Exception:
        refused = self.refuse(422, "")
        errors = [{"resource": "PullRequest", **what}]
        content = {"message": "Validation Failed", "errors": errors, "documentation_url": _DOCS}
        return type(refused)(Reply(422, content))

    def _owner_of(self, pull: HostedPullRequest) -> str:
        head = self.repository_numbered(pull.head_repository)
        return head.owner if head else ""

    def _shown(self, repository: HostedRepository, pull: HostedPullRequest) -> dict[str, object]:
        head = self.repository_numbered(pull.head_repository)
        return {
            "number": pull.number,
            "node_id": f"PR_{repository.number}_{pull.number}",
            "html_url": f"{self.url}/{repository.full_name}/pull/{pull.number}",
            "title": pull.title,
            "body": pull.body,
            "state": "open" if pull.state is State.OPEN else "closed",
            "merged_at": "2026-01-01T00:00:00Z" if pull.state is State.MERGED else None,
            "draft": pull.draft,
            "user": _shown_user(pull.author),
            "head": {
                "ref": pull.head,
                "label": f"{self._owner_of(pull)}:{pull.head}",
                "repo": {"full_name": head.full_name} if head else None,
            },
            "base": {"ref": pull.base, "repo": {"full_name": repository.full_name}},
        }


def _shown_user(name: str) -> dict[str, object]:
    return {"login": name, "type": "User"}


def _scopes(token: Token) -> dict[str, str]:
    """Of classic tokens only."""
    if token.scopes is None:
        return {}
    return {"X-OAuth-Scopes": ", ".join(sorted(token.scopes)), "X-Accepted-OAuth-Scopes": "repo"}
