"""Pull requests on GitHub and GitHub Enterprise (REST, API version 2022-11-28).

Draft is a state of its own that only GraphQL can change later. A label that does not exist would be
created by asking for it, so it is looked up first. Everything happens in the configured repository:
a fork's pull request is never opened in its parent.
"""

from collections.abc import AsyncGenerator, Iterable
from pathlib import Path

from pydantic import BaseModel, TypeAdapter

from forklift.core.text import one_line
from forklift.errors import ForgeError
from forklift.forges.answer import Answer, Dialect, web_address
from forklift.forges.github_draft import set_draft
from forklift.forges.http import ForgeClient, Params, Patience, segment
from forklift.forges.notes import note, noted, unknown_label
from forklift.forges.opening import open_once
from forklift.forges.port import ForgeAddress, Proposal, PullRequest, State

_DIALECT = Dialect(
    forge="GitHub",
    scheme="Bearer",
    page_size="per_page",
    scopes=(
        "the scope 'repo' (a fine-grained one: 'Contents' and 'Pull requests', read and write)"
    ),
    renew="set it as GH_TOKEN, or log in with: gh auth login",
    headers={
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
    },
)
_LONGEST_TITLE = 255
_LONGEST_BODY = 65_000  # of 65,536, which GitHub counts in its own way
_CUT = "\n\n(cut here: GitHub takes no longer text)"


class _User(BaseModel):
    login: str


class _Permissions(BaseModel):
    push: bool = False


class _Repository(BaseModel):
    full_name: str
    private: bool = True
    archived: bool = False
    permissions: _Permissions = _Permissions()


class _Home(BaseModel):
    full_name: str


class _End(BaseModel):
    ref: str
    repo: _Home | None = None
    """None when the fork was deleted."""


class _Pull(BaseModel):
    number: int
    node_id: str
    html_url: str
    title: str
    state: str
    draft: bool = False
    merged_at: str | None = None
    head: _End
    base: _End


class _Assigned(BaseModel):
    assignees: list[_User] = []


_USER = TypeAdapter(_User)
_REPOSITORY = TypeAdapter(_Repository)
_PULL = TypeAdapter(_Pull)
_PULLS = TypeAdapter(list[_Pull])
_ASSIGNED = TypeAdapter(_Assigned)


class GitHubPullRequests:
    def __init__(
        self,
        address: ForgeAddress,
        *,
        extra_ca: Path | None = None,
        patience: Patience | None = None,
    ) -> None:
        self._api = ForgeClient(address, _DIALECT, extra_ca=extra_ca, patience=patience)
        self._owner = address.repository.owner
        self._home = f"/repos/{segment(self._owner)}/{segment(address.repository.name)}"

    async def probe(self) -> str:
        answer = await self._api.ask("GET", self._home)
        repository = self._api.read(answer, _REPOSITORY)
        who = await self._api.ask("GET", "/user")
        # An app's token (as in GitHub Actions) is nobody: it has no user to tell.
        name = one_line(self._api.read(who, _USER).login) if who.status != 403 else "the token"
        scopes = answer.headers.get("x-oauth-scopes")
        enough = {"repo"} if repository.private else {"repo", "public_repo"}
        # Only classic tokens have the header; a fine-grained one shows its rights when used.
        if scopes is not None and not enough & set(scopes.replace(" ", "").split(",")):
            raise ForgeError(
                f"the token of {name} lacks the scope 'repo', which pushing to "
                f"{self._api.repository} needs; add it in the token's settings on GitHub, or "
                "with: gh auth refresh --scopes repo,workflow"
            )
        if not repository.permissions.push:
            raise ForgeError(
                f"{name} may not write to {self._api.repository}; ask its owner for write access"
            )
        if repository.archived:
            raise ForgeError(
                f"{self._api.repository} is archived and takes no pull requests; unarchive it in "
                "its settings"
            )
        return name

    async def find_open(self, head_prefix: str, base: str) -> list[PullRequest]:
        found = {
            pull.number: _shown(pull)
            async for pull in self._pulls({"state": "open", "base": base})
            if pull.head.ref.startswith(head_prefix)
        }
        return [found[number] for number in sorted(found, reverse=True)]

    async def find_by_head(self, head: str) -> PullRequest | None:
        async for pull in self._pulls({"state": "all", **self._from(head)}):
            if pull.head.ref == head:
                return _shown(pull)
        return None

    async def create(self, proposal: Proposal) -> PullRequest:
        async def find() -> int | None:
            params = {"state": "open", "base": proposal.base, **self._from(proposal.head)}
            async for pull in self._pulls(params):
                if (pull.head.ref, pull.base.ref) == (proposal.head, proposal.base):
                    return pull.number
            return None

        opened = await open_once(find, lambda: self._post(proposal), _is_duplicate)
        if isinstance(opened, int):
            return await self.update(opened, proposal)
        return await self._dressed(self._api.read(opened, _PULL), proposal)

    async def update(self, number: int, proposal: Proposal) -> PullRequest:
        path = f"{self._home}/pulls/{number}"
        pull = await self._api.send("PATCH", path, _text(proposal), _PULL)
        return await self._dressed(pull, proposal)

    async def aclose(self) -> None:
        await self._api.aclose()

    def _from(self, head: str) -> dict[str, str]:
        return {"head": f"{self._owner}:{head}"}

    async def _pulls(self, params: Params) -> AsyncGenerator[_Pull]:
        """Newest first, and only those whose head lies in this repository itself."""
        order = {"sort": "created", "direction": "desc"}
        async for pull in self._api.pages(f"{self._home}/pulls", _PULLS, {**params, **order}):
            if pull.head.repo and pull.head.repo == pull.base.repo:
                yield pull

    async def _post(self, proposal: Proposal) -> Answer:
        body = {**_text(proposal), "head": proposal.head, "base": proposal.base}
        path = f"{self._home}/pulls"
        answer = await self._api.ask("POST", path, body={**body, "draft": proposal.draft})
        if proposal.draft and answer.status == 422 and "draft" in answer.said.lower():
            # Private repositories on some plans have no drafts; `_dressed` says so.
            return await self._api.ask("POST", path, body=body)
        return answer

    async def _dressed(self, pull: _Pull, proposal: Proposal) -> PullRequest:
        """With draft state, labels, people and what could not be done about them."""
        notes: list[str] = []
        draft = pull.draft
        if draft != proposal.draft:
            change = set_draft(self._api, pull.node_id, draft=proposal.draft)
            notes += await noted("the draft state was not changed", change)
            draft = draft if notes else proposal.draft
        notes += await self._label(pull.number, proposal.labels)
        assigning = self._assign(pull.number, proposal.assignees)
        notes += await noted("it is not known who was assigned", assigning)
        for reviewer in proposal.reviewers:
            # One at a time: one who may not would keep out all the others.
            path = f"{self._home}/pulls/{pull.number}/requested_reviewers"
            answer = await self._api.ask("POST", path, body={"reviewers": [reviewer]})
            notes += note(self._api, f"{reviewer} was not asked to review", answer)
        return _shown(pull.model_copy(update={"draft": draft}), notes)

    async def _label(self, number: int, wanted: tuple[str, ...]) -> list[str]:
        notes: list[str] = []
        known: list[str] = []
        for name in wanted:
            answer = await self._api.ask("GET", f"{self._home}/labels/{segment(name)}")
            if answer.status == 404:
                notes.append(unknown_label(self._api, name))
            elif answer.ok:
                known.append(name)
            else:
                notes += note(self._api, f"the label '{one_line(name)}' was not set", answer)
        if known:
            path = f"{self._home}/issues/{number}/labels"
            answer = await self._api.ask("POST", path, body={"labels": known})
            notes += note(self._api, "the labels were not set", answer)
        return notes

    async def _assign(self, number: int, wanted: tuple[str, ...]) -> list[str]:
        if not wanted:
            return []
        path = f"{self._home}/issues/{number}/assignees"
        answer = await self._api.ask("POST", path, body={"assignees": list(wanted)})
        if not answer.ok:
            return note(self._api, "nobody was assigned", answer)
        # Who may not be assigned is passed over without a word.
        there = {user.login.lower() for user in self._api.read(answer, _ASSIGNED).assignees}
        return [
            f"{one_line(name)} was not assigned: GitHub left them out; have they access?"
            for name in wanted
            if name.lower() not in there
        ]


def _text(proposal: Proposal) -> dict[str, object]:
    body = proposal.body
    if len(body) > _LONGEST_BODY:
        body = body[: _LONGEST_BODY - len(_CUT)] + _CUT
    return {"title": one_line(proposal.title, _LONGEST_TITLE), "body": body}


def _is_duplicate(answer: Answer) -> bool:
    return answer.status == 422 and "already exists" in answer.said


def _shown(pull: _Pull, notes: Iterable[str] = ()) -> PullRequest:
    merged = pull.merged_at is not None
    state = State.MERGED if merged else State.OPEN if pull.state == "open" else State.CLOSED
    return PullRequest(
        number=pull.number,
        url=web_address(pull.html_url),
        head=pull.head.ref,
        base=pull.base.ref,
        title=one_line(pull.title),
        state=state,
        draft=pull.draft,
        notes=tuple(notes),
    )
