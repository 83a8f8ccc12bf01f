"""A result that an earlier run published and nobody has merged yet: nothing to do but wait."""

from forklift.core.outcome import UpToDate
from forklift.forges.port import State
from forklift.usecases.kit import OpenForge
from forklift.usecases.publish import Wishes
from forklift.usecases.survey import Ground, Heads


async def waiting_for_a_person(
    ground: Ground, heads: Heads, forge: OpenForge | None, wishes: Wishes
) -> UpToDate | None:
    """Set when a branch of ours on origin already holds both sides as they stand now."""
    for branch, commit in heads.proposals:
        if await _holds_both(ground, heads, commit):
            return await _told(branch, heads, forge, wishes)
    return None


async def _holds_both(ground: Ground, heads: Heads, commit: str) -> bool:
    depot = ground.depot
    return await depot.is_ancestor(heads.upstream, commit) and await depot.is_ancestor(
        heads.origin, commit
    )


async def _told(
    branch: str, heads: Heads, forge: OpenForge | None, wishes: Wishes
) -> UpToDate | None:
    what = f"upstream {heads.upstream_ref} is merged in {branch}"
    if forge is None or wishes.no_pr:
        return UpToDate(f"{what}, which waits for a person")
    found = await forge.pull_requests.find_by_head(branch)
    if found is None:
        return UpToDate(
            f"{what}, which has no pull request; open one, or delete the branch to start over"
        )
    if found.state is State.OPEN:
        return UpToDate(f"{what}, which waits for a person: {found.url}", found.url)
    return UpToDate(
        f"{what}, whose pull request was closed ({found.url}); delete the branch to start over",
        found.url,
    )
