"""What there is to sync: the checkout, its remotes, its notes, and where both sides stand."""

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path

from forklift.core.fork_notes import ForkNotes, parse
from forklift.core.ids import HEAD_PREFIX, fork_key, project_name
from forklift.core.releases import latest_release
from forklift.core.text import one_line
from forklift.errors import SetupError, UnsafeOutput
from forklift.git.checkout import Checkout, Remote, find_checkout
from forklift.git.command import require_version
from forklift.git.depot import Depot, Listing
from forklift.stores.untrusted import exists_safely, read_text

NOTES = ("FORK.md", ".agents/FORK.md")
_LARGEST_NOTES = 256 << 10
_ORIGIN = "refs/forklift/origin/"
_UPSTREAM = "refs/forklift/upstream/"
_PROPOSALS = "refs/forklift/proposals/"
_SEEN = "refs/forklift/seen/"


@dataclass(frozen=True, slots=True)
class Ground:
    """A fork, found."""

    checkout: Checkout
    origin: Remote
    upstream: Remote
    project: str
    key: str
    depot: Depot


@dataclass(frozen=True, slots=True)
class Notes:
    """FORK.md as the run uses it."""

    content: ForkNotes
    overlay: tuple[str, str] | None
    """Name and text to lay beside the code, where the fork's own tree does not hold it."""


@dataclass(frozen=True, slots=True)
class Heads:
    """Where both sides stand, as recorded before anything else happens."""

    base: str
    """The branch of origin that is brought up to date."""
    origin: str
    upstream_ref: str
    """The branch or tag of upstream that is merged."""
    upstream: str
    proposals: tuple[tuple[str, str], ...]
    """Branches of origin that earlier runs pushed, and their commits; newest name first."""
    dropped: int = 0
    """Commits that upstream took back since the last look (a force push)."""
    dropped_but_kept: int = 0
    """Of those, how many the fork has merged already and keeps."""


async def find_ground(path: Path, state_root: Path) -> Ground:
    _, checkout = await asyncio.gather(require_version(), find_checkout(path))
    origin, upstream = await checkout.remotes("origin", "upstream")
    project = project_name(str(checkout.main_root))
    # After the remote, not the directory: two checkouts of one fork share one lock and one depot.
    where = _absolute(origin.raw_url, checkout.root)
    key = fork_key(project_name(where), where)
    depot = Depot(state_root / "depots" / f"{key}.git", checkout.root)
    return Ground(checkout, origin, upstream, project, key, depot)


async def fetch_heads(ground: Ground, branch: str | None, target: str) -> Heads:
    """Fetch both sides into the depot. The user's checkout is not touched.

    Whoever calls holds the fork's lock.
    """
    depot = ground.depot
    await depot.ensure(ground.checkout)
    depot.clear_locks()
    theirs_has_tags = target == "latest-release"
    ours, theirs = await asyncio.gather(
        depot.list_remote(ground.origin),
        depot.list_remote(ground.upstream, tags=theirs_has_tags),
    )
    base = _choose(ground.origin, ours, branch)
    ref, name, expected = _choose_upstream(ground.upstream, theirs, branch, target)
    ahead = {n: oid for n, oid in ours.branches.items() if n.startswith(HEAD_PREFIX)}
    wanted = {f"refs/heads/{base}": f"{_ORIGIN}{base}"}
    wanted |= {f"refs/heads/{n}": f"{_PROPOSALS}{n}" for n in ahead}
    have = await depot.refs("refs/forklift/")
    expect_ours = {f"{_ORIGIN}{base}": ours.branches[base]}
    expect_ours |= {f"{_PROPOSALS}{n}": oid for n, oid in ahead.items()}
    # What is here already needs no second round trip. One after the other: both write one depot.
    if any(have.get(mine) != oid for mine, oid in expect_ours.items()):
        await depot.fetch(ground.origin, wanted)
    if have.get(f"{_UPSTREAM}{name}") != expected:
        await depot.fetch(ground.upstream, {ref: f"{_UPSTREAM}{name}"})
    await depot.forget_seed()
    await depot.drop(_PROPOSALS, keep=frozenset(f"{_PROPOSALS}{n}" for n in ahead))
    return await _heads(depot, base, name)


async def _heads(depot: Depot, base: str, name: str) -> Heads:
    refs = await depot.refs("refs/forklift/")
    origin, upstream = refs.get(f"{_ORIGIN}{base}"), refs.get(f"{_UPSTREAM}{name}")
    if origin is None or upstream is None:
        raise SetupError(
            f"{depot.path} is damaged; remove it, it is made anew: rm -rf {depot.path}"
        )
    pushed = [
        (ref.removeprefix(_PROPOSALS), oid)
        for ref, oid in refs.items()
        if ref.startswith(_PROPOSALS)
    ]
    newest = tuple(sorted(pushed, reverse=True))
    dropped, kept = await _rewritten(depot, refs.get(f"{_SEEN}{name}"), upstream, origin)
    return Heads(base, origin, name, upstream, newest, dropped, kept)


async def remember(ground: Ground, heads: Heads) -> None:
    """Note where upstream stands, so that a later look can tell what it took back."""
    await ground.depot.set_ref(f"{_SEEN}{heads.upstream_ref}", heads.upstream)


async def _rewritten(depot: Depot, seen: str | None, upstream: str, origin: str) -> tuple[int, int]:
    if seen is None or seen == upstream or await depot.is_ancestor(seen, upstream):
        return 0, 0
    dropped = await depot.count(seen, f"^{upstream}")
    shared = await depot.merge_base(seen, origin)
    kept = await depot.count(shared, f"^{upstream}") if shared else 0
    return dropped, kept


async def read_notes(ground: Ground, heads: Heads) -> Notes:
    """FORK.md from the checkout where the owner keeps it, else from the fork's own tree."""
    there = await ground.depot.listed(heads.origin, NOTES)
    for name in NOTES:
        tracked = (
            await ground.depot.file(heads.origin, name, _LARGEST_NOTES) if name in there else None
        )
        mine = _own_notes(ground.checkout.root, name)
        text = mine if mine is not None else tracked
        if text is not None:
            overlay = (name, text) if tracked is None else None
            return Notes(_parsed(name, text), overlay)
    return Notes(ForkNotes("", (), (), ()), None)


def _own_notes(root: Path, name: str) -> str | None:
    # Behind a linked directory there are none: many keep `.agents` as a link to something else.
    if not exists_safely(root, name):
        return None
    try:
        return read_text(root / name, _LARGEST_NOTES, root=root)
    except UnsafeOutput as unsafe:
        raise SetupError(f"{unsafe.message}; put a text file in its place") from unsafe


def _parsed(name: str, text: str) -> ForkNotes:
    try:
        return parse(text)
    except SetupError as error:
        raise SetupError(f"{name}: {error.message}") from error


def _choose(remote: Remote, listing: Listing, branch: str | None) -> str:
    """The branch asked for, else the remote's default, else main or master."""
    if branch is not None and branch not in listing.branches:
        raise SetupError(
            f"{remote.name} ({remote.url}) has no branch '{one_line(branch, 80)}';"
            f" it has: {_some(listing)}"
        )
    for name in (branch, listing.default_branch, "main", "master"):
        if name is not None and name in listing.branches:
            return name
    raise SetupError(
        f"{remote.name} ({remote.url}) has no default branch that exists; name one with --branch"
        f" (it has: {_some(listing)})"
    )


def _choose_upstream(
    remote: Remote, listing: Listing, branch: str | None, target: str
) -> tuple[str, str, str]:
    """Their full ref, the name we show, and the commit it stands for."""
    if target != "latest-release":
        name = _choose(remote, listing, branch)
        return f"refs/heads/{name}", name, listing.branches[name]
    newest = latest_release(listing.tags)
    if newest is None:
        raise SetupError(
            f"{remote.name} ({remote.url}) has no release tag such as v1.2.3; use --target tip"
        )
    name, oid = newest
    return f"refs/tags/{name}", name, oid


def _some(listing: Listing) -> str:
    names = sorted(name for name in listing.branches if not name.startswith(HEAD_PREFIX))
    shown = ", ".join(one_line(name, 60) for name in names[:8]) or "none"
    return f"{shown}, and {len(names) - 8} more" if len(names) > 8 else shown


def _absolute(url: str, at: Path) -> str:
    """A path as an absolute one: two forks beside two `../origin.git` are not the same fork."""
    if "://" in url or re.match(r"^[^/]*[^/.:][^/:]*:", url):
        return url
    return str((at / url).resolve())
