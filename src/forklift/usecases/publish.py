"""Publish a verified result: one branch, one pull request; asked twice, still one of each."""

import shlex
from dataclasses import dataclass

from forklift.core.ids import HEAD_PREFIX
from forklift.core.journal import Event
from forklift.core.outcome import Merged, Unpublished, UpToDate
from forklift.core.text import one_line
from forklift.errors import ForgeError, PushRefused
from forklift.forges.plain_git import instructions
from forklift.forges.port import Proposal, PullRequest, State
from forklift.git.quarantine import RESULT, Quarantine
from forklift.usecases.kit import Kit, OpenForge
from forklift.usecases.live_run import LiveRun
from forklift.usecases.parcel import Parcel
from forklift.usecases.survey import Ground, Heads


@dataclass(frozen=True, slots=True)
class Wishes:
    """How the pull request is to be made."""

    no_pr: bool = False
    draft: bool = False
    labels: tuple[str, ...] = ()
    assignees: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()


async def publish(
    kit: Kit, run: LiveRun, ground: Ground, heads: Heads, forge: OpenForge | None, parcel: Parcel,
    wishes: Wishes,
) -> Merged | Unpublished | UpToDate:  # fmt: skip
    quarantine = Quarantine(run.path / "quarantine.git", ground.depot)
    branch, expect = parcel.branch, dict(heads.proposals).get(parcel.branch, "")
    if forge is not None and not wishes.no_pr and expect == "":
        try:
            branch, expect = await _branch_to_update(ground, heads, forge, parcel)
        except ForgeError as error:
            return Unpublished(
                f"{kit.redact(error.message)}; the verified result is kept, and the next run"
                " publishes it",
                _by_hand(ground, run, branch),
            )
    try:
        if expect != parcel.commit:
            await quarantine.push(
                ground.origin, parcel.commit, branch, expect=expect, at=ground.checkout.root
            )
        run.record(Event("host", "git.pushed", {"branch": branch, "commit": parcel.commit}))
        ground.depot.note_pushed(branch, parcel.commit)
    except PushRefused as refused:
        return Unpublished(kit.redact(refused.message), _by_hand(ground, run, branch))
    if forge is None or wishes.no_pr:
        return _as_branch(ground, heads, parcel, branch, wishes)
    return await _as_pull_request(kit, run, heads, forge, parcel, branch, wishes)


async def _branch_to_update(
    ground: Ground, heads: Heads, forge: OpenForge, parcel: Parcel
) -> tuple[str, str]:
    """The open pull request's branch, if nobody but us has pushed to it; else a new one."""
    waiting = await forge.pull_requests.find_open(HEAD_PREFIX, heads.base)
    at = dict(heads.proposals)
    left = ground.depot.pushed()
    for pull_request in waiting:
        head = pull_request.head
        # Ours as we left it, or this very result, pushed by a run that died before it said so.
        if head in at and at[head] in {left.get(head), parcel.commit}:
            return head, at[head]
    return parcel.branch, ""


def _as_branch(ground: Ground, heads: Heads, parcel: Parcel, branch: str, wishes: Wishes) -> Merged:
    how = instructions(ground.origin.url, branch, heads.base)
    headline = f"pushed {branch} to origin"
    headline += "" if wishes.no_pr else " (no forge is configured, so no pull request was opened)"
    details = (*parcel.doubts, *how.splitlines())
    return Merged(headline, branch, parcel.commit, None, bool(parcel.doubts), details)


async def _as_pull_request(
    kit: Kit, run: LiveRun, heads: Heads, forge: OpenForge, parcel: Parcel, branch: str,
    wishes: Wishes,
) -> Merged | Unpublished | UpToDate:  # fmt: skip
    proposal = Proposal(
        head=branch,
        base=heads.base,
        title=parcel.title,
        body=parcel.body,
        draft=wishes.draft or bool(parcel.doubts),
        labels=wishes.labels,
        assignees=wishes.assignees,
        reviewers=wishes.reviewers,
    )
    try:
        # Looked for first: a branch that was pushed before may have one, open or closed.
        known = await forge.pull_requests.find_by_head(branch)
        if known is not None and known.state is State.CLOSED:
            # A run that never learned of its pull request goes on here: the person's no stands.
            return UpToDate(
                f"{branch} holds the result, and its pull request was closed ({known.url});"
                " delete the branch to start over",
                known.url,
            )
        made = await _open_or_update(forge, known, proposal)
    except ForgeError as error:
        command = f"git push origin --delete {branch}"
        return Unpublished(
            f"{branch} is pushed, but there is no pull request: {kit.redact(error.message)};"
            " run forklift again to open it",
            f"open one by hand from {branch} to {heads.base}, or drop it with: {command}",
        )
    verb = "updated" if known is not None and known.state is State.OPEN else "opened"
    run.record(Event("host", f"forge.pull_request_{verb}", {"url": made.url, "branch": branch}))
    kind = "draft pull request" if proposal.draft else "pull request"
    details = (*parcel.doubts, *(one_line(note) for note in made.notes))
    return Merged(
        f"{kind} {verb}: {made.url}", branch, parcel.commit, made.url, proposal.draft, details
    )


async def _open_or_update(
    forge: OpenForge, known: PullRequest | None, proposal: Proposal
) -> PullRequest:
    if known is not None and known.state is State.OPEN:
        return await forge.pull_requests.update(known.number, proposal)
    return await forge.pull_requests.create(proposal)


def _by_hand(ground: Ground, run: LiveRun, branch: str) -> str:
    at, kept = shlex.quote(str(ground.checkout.root)), shlex.quote(str(run.path / "quarantine.git"))
    return (
        f"git -C {at} fetch {kept} {RESULT} && "
        f"git -C {at} push origin FETCH_HEAD:refs/heads/{branch}"
    )
