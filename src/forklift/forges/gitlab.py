"""Merge requests on GitLab (API v4), called pull requests like everywhere else in Forklift.

Draft is a title prefix, people are numbers, a list of people replaces the one that is there, and a
description may hold commands ("/merge" at the start of a line) that GitLab would carry out.
"""

import re
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path

from pydantic import BaseModel, TypeAdapter

from forklift.core.text import one_line
from forklift.errors import ForgeError
from forklift.forges.answer import Answer, Dialect, web_address
from forklift.forges.http import ForgeClient, Params, Patience, segment
from forklift.forges.notes import note, noted, unknown_label
from forklift.forges.opening import open_once
from forklift.forges.port import ForgeAddress, Proposal, PullRequest, State
from forklift.forges.titles import is_marked, marked, unmarked

_DIALECT = Dialect(
    forge="GitLab",
    scheme="Bearer",
    page_size="per_page",
    scopes="the scope 'api'",
    renew="set it as GITLAB_TOKEN or in forges.toml",
)
_DRAFT = "Draft:"
_DEVELOPER = 30
_STATES = {"merged": State.MERGED, "closed": State.CLOSED}
_QUICK_ACTION = re.compile(r"^(\s*)/(?=\w)", re.MULTILINE)


class _User(BaseModel):
    id: int
    username: str
    is_admin: bool = False


class _Member(BaseModel):
    access_level: int


class _Project(BaseModel):
    id: int
    archived: bool = False
    merge_requests_enabled: bool = True


class _Pull(BaseModel):
    iid: int
    web_url: str
    title: str
    state: str
    draft: bool | None = None
    source_branch: str
    target_branch: str
    source_project_id: int | None = None
    """None when the fork was deleted."""
    target_project_id: int
    assignees: list[_User] = []
    reviewers: list[_User] = []


_USER = TypeAdapter(_User)
_USERS = TypeAdapter(list[_User])
_MEMBER = TypeAdapter(_Member)
_PROJECT = TypeAdapter(_Project)
_PULL = TypeAdapter(_Pull)
_PULLS = TypeAdapter(list[_Pull])


class GitLabPullRequests:
    def __init__(
        self,
        address: ForgeAddress,
        *,
        extra_ca: Path | None = None,
        patience: Patience | None = None,
    ) -> None:
        self._api = ForgeClient(address, _DIALECT, extra_ca=extra_ca, patience=patience)
        repository = address.repository
        self._home = f"/projects/{segment(f'{repository.owner}/{repository.name}')}"

    async def probe(self) -> str:
        project = await self._api.get(self._home, _PROJECT)
        user = await self._api.get("/user", _USER)
        name = one_line(user.username)
        # This listing alone knows rights that come through groups and invitations.
        answer = await self._api.ask("GET", f"{self._home}/members/all/{user.id}")
        stranger = answer.status == 404
        level = 0 if stranger else self._api.read(answer, _MEMBER).access_level
        if level < _DEVELOPER and not user.is_admin:
            raise ForgeError(
                f"{name} may not write to {self._api.repository}; ask its owner for the role "
                "'Developer'"
            )
        if project.archived or not project.merge_requests_enabled:
            raise ForgeError(
                f"{self._api.repository} takes no merge requests: it is archived, or they are "
                "switched off; change that in the project's settings"
            )
        return name

    async def find_open(self, head_prefix: str, base: str) -> list[PullRequest]:
        found = {
            pull.iid: _shown(pull)
            async for pull in self._pulls({"state": "opened", "target_branch": base})
            if pull.source_branch.startswith(head_prefix)
        }
        return [found[number] for number in sorted(found, reverse=True)]

    async def find_by_head(self, head: str) -> PullRequest | None:
        async for pull in self._pulls({"state": "all", "source_branch": head}):
            if pull.source_branch == head:
                return _shown(pull)
        return None

    async def create(self, proposal: Proposal) -> PullRequest:
        ends = {"source_branch": proposal.head, "target_branch": proposal.base}

        async def post() -> Answer:
            path = f"{self._home}/merge_requests"
            return await self._api.ask("POST", path, body={**_text(proposal), **ends})

        async def find() -> int | None:
            async for pull in self._pulls({"state": "opened", **ends}):
                if (pull.source_branch, pull.target_branch) == (proposal.head, proposal.base):
                    return pull.iid
            return None

        opened = await open_once(find, post, lambda answer: answer.status == 409)
        if isinstance(opened, int):
            return await self.update(opened, proposal)
        return await self._dressed(self._api.read(opened, _PULL), proposal)

    async def update(self, number: int, proposal: Proposal) -> PullRequest:
        pull = await self._api.send("PUT", self._path(number), _text(proposal), _PULL)
        return await self._dressed(pull, proposal)

    async def aclose(self) -> None:
        await self._api.aclose()

    def _path(self, number: int) -> str:
        return f"{self._home}/merge_requests/{number}"

    async def _pulls(self, params: Params) -> AsyncGenerator[_Pull]:
        """Newest first, and only those whose source is this project itself."""
        path = f"{self._home}/merge_requests"
        order = {"scope": "all", "order_by": "created_at", "sort": "desc"}
        async for pull in self._api.pages(path, _PULLS, {**params, **order}):
            if pull.source_project_id == pull.target_project_id:
                yield pull

    async def _dressed(self, pull: _Pull, proposal: Proposal) -> PullRequest:
        """With labels, people and what could not be done about them."""
        notes = await self._label(pull.iid, proposal.labels)
        for what, step in (
            ("it is not known who was assigned", self._assign(pull, proposal.assignees)),
            ("it is not known who was asked to review", self._request(pull, proposal.reviewers)),
        ):
            notes += await noted(what, step)
        return _shown(pull, notes)

    async def _label(self, number: int, wanted: tuple[str, ...]) -> list[str]:
        """Asking for a label that does not exist would create it, so it is looked up first."""
        notes: list[str] = []
        known: list[str] = []
        for name in wanted:
            answer = await self._api.ask("GET", f"{self._home}/labels/{segment(name)}")
            if answer.ok:
                known.append(name)
            elif answer.status == 404:
                notes.append(unknown_label(self._api, name))
            else:
                notes += note(self._api, f"the label '{one_line(name)}' was not set", answer)
        if known:
            body = {"add_labels": ",".join(known)}
            answer = await self._api.ask("PUT", self._path(number), body=body)
            notes += note(self._api, "the labels were not set", answer)
        return notes

    async def _assign(self, pull: _Pull, wanted: tuple[str, ...]) -> list[str]:
        ids, notes = await self._people(wanted, "was not assigned")
        if not ids:
            return notes
        there = [user.id for user in pull.assignees]
        body = {"assignee_ids": list(dict.fromkeys([*there, *ids.values()]))}
        answer = await self._api.ask("PUT", self._path(pull.iid), body=body)
        if not answer.ok:
            return notes + note(self._api, "nobody was assigned", answer)
        return notes + _missing(ids, self._api.read(answer, _PULL).assignees, "was not assigned")

    async def _request(self, pull: _Pull, wanted: tuple[str, ...]) -> list[str]:
        ids, notes = await self._people(wanted, "was not asked to review")
        if not ids:
            return notes
        there = [user.id for user in pull.reviewers]
        body = {"reviewer_ids": list(dict.fromkeys([*there, *ids.values()]))}
        answer = await self._api.ask("PUT", self._path(pull.iid), body=body)
        if not answer.ok:
            return notes + note(self._api, "nobody was asked to review", answer)
        there_now = self._api.read(answer, _PULL).reviewers
        return notes + _missing(ids, there_now, "was not asked to review")

    async def _people(self, names: Iterable[str], what: str) -> tuple[dict[str, int], list[str]]:
        """Their numbers, and a note for each name that nobody has."""
        ids: dict[str, int] = {}
        notes: list[str] = []
        for name in names:
            answer = await self._api.ask("GET", "/users", params={"username": name})
            users = self._api.read(answer, _USERS) if answer.ok else []
            if users:
                ids[name] = users[0].id
            elif answer.ok:
                notes.append(f"{one_line(name)} {what}: nobody on GitLab has that name")
            else:
                notes += note(self._api, f"{name} {what}", answer)
        return ids, notes


def _missing(ids: dict[str, int], there: Iterable[_User], what: str) -> list[str]:
    """Who may not is passed over without a word; some plans take one person only."""
    present = {user.id for user in there}
    return [
        f"{one_line(name)} {what}: GitLab left them out; have they access?"
        for name, number in ids.items()
        if number not in present
    ]


def _text(proposal: Proposal) -> dict[str, object]:
    return {
        "title": marked(proposal.title, _DRAFT if proposal.draft else ""),
        # Nothing is merged without a person: a "/merge" in the text must stay text.
        "description": _QUICK_ACTION.sub("\\1\u200b/", proposal.body),
    }


def _shown(pull: _Pull, notes: Iterable[str] = ()) -> PullRequest:
    return PullRequest(
        number=pull.iid,
        url=web_address(pull.web_url),
        head=pull.source_branch,
        base=pull.target_branch,
        title=one_line(unmarked(pull.title)),
        state=_STATES.get(pull.state, State.OPEN),
        draft=is_marked(pull.title) if pull.draft is None else pull.draft,
        notes=tuple(notes),
    )
