"""The conformance suite's stage on a real Gitea, through its own API.

The token must be an administrator's with all scopes: the suite makes people, and acts as one of
them (`Sudo`) to open a pull request from a fork. Each stage makes a repository of its own and takes
it away in the end, with the people.
"""

import base64
import secrets
import time
import urllib.parse
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import httpx2

from forklift.core.secret import Secret
from forklift.forges.port import ForgeAddress, PullRequests, Repository, State
from forklift.testing.forge_http import Fields
from forklift.testing.forge_stage import Adapter, Shown, Stage

_TRIES_TO_MERGE = 50
"""Gitea finds out in the background whether a pull request can be merged."""


class RealGiteaStage(Stage):
    def __init__(self, url: str, token: str, adapter: Adapter) -> None:
        mark = secrets.token_hex(4)
        self._url = url.rstrip("/")
        self._token = Secret(token)
        self._adapter = adapter
        self._name = f"conformance-{mark}"
        self._http = httpx2.Client(
            base_url=f"{self._url}/api/v1", headers={"Authorization": f"token {token}"}, timeout=30
        )
        self.owner = self._ask("GET", "/user").text("login")
        self.helper = f"helper-{mark}"
        self._forker = f"forker-{mark}"
        self._home = f"/repos/{self.owner}/{self._name}"

    def __enter__(self) -> Self:
        repository = {"name": self._name, "auto_init": True, "default_branch": "main"}
        self._ask("POST", "/user/repos", repository)
        for name in (self.helper, self._forker):
            person = {
                "username": name,
                "email": f"{name}@example.invalid",
                "password": secrets.token_urlsafe(20),
                "must_change_password": False,
            }
            self._ask("POST", "/admin/users", person)
        self._ask("PUT", f"{self._home}/collaborators/{self.helper}", {"permission": "write"})
        self._ask("POST", f"{self._home}/labels", {"name": self.label, "color": "#00aabb"})
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The fork first: a person who owns something cannot be removed.
        for path in (f"/repos/{self._forker}/{self._name}", self._home):
            self._http.delete(path)
        for name in (self.helper, self._forker):
            self._http.delete(f"/admin/users/{name}")
        self._http.close()

    def adapter(self) -> PullRequests:
        host = urllib.parse.urlsplit(self._url).netloc
        named = Repository(host, self.owner, self._name)
        return self._adapter(ForgeAddress(f"{self._url}/api/v1", named, self._token))

    def add_branch(self, name: str) -> None:
        self._write(self._home, name)

    def open_many(self, count: int, prefix: str) -> None:
        for number in range(count):
            self._write(self._home, f"{prefix}{number}")
            self._propose(f"{prefix}{number}")

    def open_from_fork(self, head: str) -> None:
        self._ask("POST", f"{self._home}/forks", {}, as_user=self._forker)
        self._write(f"/repos/{self._forker}/{self._name}", head, as_user=self._forker)
        self._propose(f"{self._forker}:{head}", as_user=self._forker)

    def settle(self, number: int, state: State) -> None:
        path = f"{self._home}/pulls/{number}"
        if state is State.CLOSED:
            self._ask("PATCH", path, {"state": "closed"})
            return
        for _ in range(_TRIES_TO_MERGE):
            answer = self._http.post(f"{path}/merge", json={"Do": "merge"})
            if answer.status_code != 405:
                answer.raise_for_status()
                return
            time.sleep(0.1)
        raise AssertionError(f"Gitea never merged pull request {number}")

    def shown(self, number: int) -> Shown:
        pull = self._ask("GET", f"{self._home}/pulls/{number}")
        reviews = self._list(f"{self._home}/pulls/{number}/reviews")
        return Shown(
            pull.text("title"),
            pull.text("body"),
            frozenset(label.text("name") for label in pull.each("labels")),
            frozenset(user.text("login") for user in pull.each("assignees")),
            frozenset(
                review.within("user").text("login")
                for review in reviews
                if review.text("state") == "REQUEST_REVIEW"
            ),
        )

    def known_labels(self) -> frozenset[str]:
        return frozenset(label.text("name") for label in self._list(f"{self._home}/labels"))

    def count(self) -> int:
        answer = self._http.get(f"{self._home}/pulls", params={"state": "all", "limit": 1})
        return int(answer.headers["X-Total-Count"])

    def _write(self, home: str, branch: str, as_user: str = "") -> None:
        """A new file on a new branch, or on the one that is there."""
        content = base64.b64encode(secrets.token_hex(8).encode()).decode()
        body = {"content": content, "message": f"Change {branch}", "branch": "main"}
        path = f"{home}/contents/{secrets.token_hex(8)}.txt"
        self._ask("POST", path, {**body, "new_branch": branch}, as_user=as_user)

    def _propose(self, head: str, as_user: str = "") -> None:
        body = {"head": head, "base": "main", "title": "A change"}
        self._ask("POST", f"{self._home}/pulls", body, as_user=as_user)

    def _ask(
        self, method: str, path: str, body: Mapping[str, object] | None = None, as_user: str = ""
    ) -> Fields:
        headers = {"Sudo": as_user} if as_user else {}
        answer = self._http.request(method, path, json=body, headers=headers)
        answer.raise_for_status()
        return Fields.read(answer.content)

    def _list(self, path: str) -> list[Fields]:
        answer = self._http.get(path)
        answer.raise_for_status()
        return Fields.read(b'{"items":' + answer.content + b"}").each("items")
