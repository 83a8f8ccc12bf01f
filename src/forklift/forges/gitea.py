"""Pull requests on Gitea and Forgejo (API v1).

Draft is a title prefix here, labels are numbers, a page holds 50 at most, and a pull request's
branch may have the same name in a fork: only the head repository's number tells them apart.
"""

from collections.abc import AsyncGenerator, Iterable
from pathlib import Path

from pydantic import BaseModel, TypeAdapter

from forklift.core.text import one_line
from forklift.errors import ForgeError
from forklift.forges.answer import Answer, Dialect, web_address
from forklift.forges.http import ForgeClient, Patience, segment
from forklift.forges.notes import note, noted, unknown_label
from forklift.forges.opening import open_once
from forklift.forges.port import ForgeAddress, Proposal, PullRequest, State
from forklift.forges.titles import is_marked, marked, unmarked

_DIALECT = Dialect(
    forge="Gitea",
    scheme="token",
    page_size="limit",
    scopes="the scopes 'write:repository', 'write:issue' and 'read:user'",
    renew="set it as GITEA_TOKEN or in forges.toml",
)
_DRAFT = "WIP:"


class _User(BaseModel):
    login: str


class _Permissions(BaseModel):
    push: bool = False


class _Repository(BaseModel):
    permissions: _Permissions = _Permissions()
    archived: bool = False
    has_pull_requests: bool = True


class _End(BaseModel):
    label: str
    """The branch. `ref` turns into `refs/pull/N/head` when the branch is deleted."""
    repo_id: int


class _Pull(BaseModel):
    number: int
    html_url: str
    title: str
    state: str
    merged: bool = False
    draft: bool | None = None
    """Since 1.20; before, the title is all there is."""
    head: _End
    base: _End
    assignees: list[_User] | None = None


class _Label(BaseModel):
    id: int
    name: str


_USER = TypeAdapter(_User)
_REPOSITORY = TypeAdapter(_Repository)
_PULL = TypeAdapter(_Pull)
_PULLS = TypeAdapter(list[_Pull])
_LABELS = TypeAdapter(list[_Label])


class GiteaPullRequests:
    def __init__(
        self,
        address: ForgeAddress,
        *,
        extra_ca: Path | None = None,
        patience: Patience | None = None,
    ) -> None:
        self._api = ForgeClient(address, _DIALECT, extra_ca=extra_ca, patience=patience)
        self._owner = segment(address.repository.owner)
        self._home = f"/repos/{self._owner}/{segment(address.repository.name)}"

    async def probe(self) -> str:
        repository = await self._api.get(self._home, _REPOSITORY)
        who = await self._api.ask("GET", "/user")
        # Asking for one's own name takes a scope that nothing else here needs.
        name = one_line(self._api.read(who, _USER).login) if who.status != 403 else "the token"
        if not repository.permissions.push:
            raise ForgeError(
                f"{name} may not write to {self._api.repository}; ask its owner for write access"
            )
        if repository.archived or not repository.has_pull_requests:
            raise ForgeError(
                f"{self._api.repository} takes no pull requests: it is archived, or they are "
                "switched off; change that in the repository's settings"
            )
        return name

    async def find_open(self, head_prefix: str, base: str) -> list[PullRequest]:
        found = {
            pull.number: _shown(pull)
            async for pull in self._pulls("open", base)
            if pull.head.label.startswith(head_prefix) and pull.base.label == base
        }
        return [found[number] for number in sorted(found, reverse=True)]

    async def find_by_head(self, head: str) -> PullRequest | None:
        async for pull in self._pulls("all"):  # newest first, which is the default order
            if pull.head.label == head:
                return _shown(pull)
        return None

    async def create(self, proposal: Proposal) -> PullRequest:
        async def post() -> Answer:
            body = {**_text(proposal), "head": proposal.head, "base": proposal.base}
            return await self._api.ask("POST", f"{self._home}/pulls", body=body)

        async def find() -> int | None:
            return await self._open_one(proposal.head, proposal.base)

        opened = await open_once(find, post, lambda answer: answer.status == 409)
        if isinstance(opened, int):
            return await self.update(opened, proposal)
        return await self._dressed(self._api.read(opened, _PULL), proposal)

    async def update(self, number: int, proposal: Proposal) -> PullRequest:
        path = f"{self._home}/pulls/{number}"
        pull = await self._api.send("PATCH", path, _text(proposal), _PULL)
        return await self._dressed(pull, proposal)

    async def aclose(self) -> None:
        await self._api.aclose()

    async def _pulls(self, state: str, base: str = "") -> AsyncGenerator[_Pull]:
        """Those whose head lies in this repository: a fork's branch may have any name."""
        params = {"state": state, **({"base_branch": base} if base else {})}
        async for pull in self._api.pages(f"{self._home}/pulls", _PULLS, params):
            if pull.head.repo_id == pull.base.repo_id:
                yield pull

    async def _open_one(self, head: str, base: str) -> int | None:
        async for pull in self._pulls("open", base):
            if (pull.head.label, pull.base.label) == (head, base):
                return pull.number
        return None

    async def _dressed(self, pull: _Pull, proposal: Proposal) -> PullRequest:
        """With labels, people and what could not be done about them."""
        notes: list[str] = []
        if proposal.draft and pull.draft is False:
            notes.append(f"this server does not take '{_DRAFT}' as the mark of a draft")
        notes += await noted("no label was set", self._label(pull.number, proposal.labels))
        notes += await self._assign(pull, proposal.assignees)
        for reviewer in proposal.reviewers:
            path = f"{self._home}/pulls/{pull.number}/requested_reviewers"
            answer = await self._api.ask("POST", path, body={"reviewers": [reviewer]})
            notes += note(self._api, f"{reviewer} was not asked to review", answer)
        return _shown(pull, notes)

    async def _label(self, number: int, wanted: tuple[str, ...]) -> list[str]:
        if not wanted:
            return []
        known = await self._labels()
        notes = [unknown_label(self._api, name) for name in wanted if name not in known]
        if ids := [known[name] for name in wanted if name in known]:
            path = f"{self._home}/issues/{number}/labels"
            answer = await self._api.ask("POST", path, body={"labels": ids})
            notes += note(self._api, "the labels were not set", answer)
        return notes

    async def _labels(self) -> dict[str, int]:
        path = f"{self._home}/labels"
        known = {label.name: label.id async for label in self._api.pages(path, _LABELS)}
        try:
            above = self._api.pages(f"/orgs/{self._owner}/labels", _LABELS)
            return {label.name: label.id async for label in above} | known
        except ForgeError:
            # The owner is a person, or the token may not look at organisations.
            return known

    async def _assign(self, pull: _Pull, wanted: tuple[str, ...]) -> list[str]:
        """One at a time: one person who may not would keep out all the others."""
        notes: list[str] = []
        there = [user.login for user in pull.assignees or ()]
        for name in _new(wanted, there):
            # The list sent replaces the one that is there.
            body = {"assignees": [*there, name]}
            answer = await self._api.ask("PATCH", f"{self._home}/pulls/{pull.number}", body=body)
            notes += note(self._api, f"{name} was not assigned", answer)
            there += [name] if answer.ok else []
        return notes


def _text(proposal: Proposal) -> dict[str, object]:
    title = marked(proposal.title, _DRAFT if proposal.draft else "")
    return {"title": title, "body": proposal.body}


def _new(wanted: Iterable[str], there: Iterable[str]) -> list[str]:
    known = {name.lower() for name in there}
    return [name for name in dict.fromkeys(wanted) if name.lower() not in known]


def _shown(pull: _Pull, notes: Iterable[str] = ()) -> PullRequest:
    state = State.MERGED if pull.merged else State.OPEN if pull.state == "open" else State.CLOSED
    return PullRequest(
        number=pull.number,
        url=web_address(pull.html_url),
        head=pull.head.label,
        base=pull.base.label,
        title=one_line(unmarked(pull.title)),
        state=state,
        draft=is_marked(pull.title) if pull.draft is None else pull.draft,
        notes=tuple(notes),
    )
