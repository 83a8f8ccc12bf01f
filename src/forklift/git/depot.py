"""The depot: the host's own bare repository for a fork, where all fetches end."""

import asyncio
import contextlib
import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import cast

from forklift.errors import SetupError
from forklift.git.bare import BareRepository
from forklift.git.checkout import Checkout, Remote
from forklift.git.command import GitFailed, GitStalled, git
from forklift.git.failures import explain_fetch, gist
from forklift.git.objects import copy_objects

_SEED = "refs/forklift/seed/"
_PUSHED = "forklift-pushed.json"


@dataclass(frozen=True, slots=True)
class FetchLimits:
    listing: timedelta = timedelta(seconds=90)
    fetching: timedelta = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class Listing:
    """What a remote offers."""

    default_branch: str | None
    branches: Mapping[str, str]
    tags: Mapping[str, str]
    """Tag name to the commit it stands for (peeled where annotated)."""


class Depot(BareRepository):
    def __init__(self, path: Path, at: Path, limits: FetchLimits | None = None) -> None:
        super().__init__(path)
        self._at = at
        """Remote addresses may be relative: they are, as for git itself, to the checkout."""
        self._limits = limits or FetchLimits()

    async def ensure(self, checkout: Checkout) -> None:
        """Make the depot if there is none, from the checkout's own objects where they suffice.

        Made beside its place and renamed: a depot that exists is a whole one.
        """
        if (self.path / "HEAD").exists():
            return
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=self.path.parent) as room:
            fresh = BareRepository(Path(room) / "depot.git")
            await fresh.create()
            await fresh.git("config", "gc.auto", "2000")
            if not checkout.sparse_objects:
                await _seed(fresh, checkout)
            fresh.path.rename(self.path)

    def clear_locks(self) -> None:
        """Remove the lock files that a git which was killed has left: it would never come back.

        For the holder of the fork's lock only, whose git alone writes here.
        """
        for lock in (*self.path.glob("*.lock"), *(self.path / "refs").rglob("*.lock")):
            lock.unlink(missing_ok=True)

    async def list_remote(self, remote: Remote, *, tags: bool = False) -> Listing:
        patterns = ["HEAD", "refs/heads/*", *(["refs/tags/*"] if tags else [])]
        out = await self._reach(
            remote, "ls-remote", "--symref", remote.name, *patterns, limit=self._limits.listing
        )
        return _parse_listing(out.decode(errors="surrogateescape"))

    async def fetch(self, remote: Remote, refs: Mapping[str, str]) -> None:
        """Bring `refs` (theirs to ours), forced: ours mirror what may be rewritten there."""
        await self._reach(
            remote, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--force",
            "--no-recurse-submodules", "--end-of-options", remote.name,
            *(f"+{theirs}:{ours}" for theirs, ours in refs.items()),
            limit=self._limits.fetching,
        )  # fmt: skip

    async def forget_seed(self) -> None:
        """Drop what the checkout lent for the first fetch: its commits are no part of the fork."""
        await self.drop(_SEED)

    async def drop(self, prefix: str, keep: frozenset[str] = frozenset()) -> None:
        gone = [ref for ref in await self.refs(prefix) if ref not in keep]
        if not gone:
            return
        await self.git(
            "update-ref", "--stdin", stdin="".join(f"delete {r}\n" for r in gone).encode()
        )

    async def refs(self, prefix: str) -> dict[str, str]:
        """The refs below `prefix` and the commits they stand for (tags peeled)."""
        oid = "%(if)%(*objectname)%(then)%(*objectname)%(else)%(objectname)%(end)"
        done = await self.git("for-each-ref", f"--format={oid} %(refname)", prefix)
        rows = [row.split(" ", 1) for row in done.text.splitlines()]
        return {name: oid for oid, name in rows}

    def pushed(self) -> dict[str, str]:
        """Where this machine left each branch: what is elsewhere now, a person has put there."""
        try:
            facts: object = json.loads((self.path / _PUSHED).read_text())
        except (OSError, ValueError):
            return {}
        if not isinstance(facts, dict):
            return {}
        pairs = cast("dict[object, object]", facts).items()
        return {str(branch): str(oid) for branch, oid in pairs}

    def note_pushed(self, branch: str, oid: str) -> None:
        # A file and not a ref: the commit itself comes here with the next fetch.
        text = json.dumps({**self.pushed(), branch: oid}, indent=2)
        fresh = self.path / f"{_PUSHED}.new"
        fresh.write_text(text)
        fresh.replace(self.path / _PUSHED)

    async def set_ref(self, name: str, oid: str) -> None:
        await self.git("update-ref", name, oid)

    async def _reach(self, remote: Remote, *args: str, limit: timedelta) -> bytes:
        # From the checkout's directory (relative URLs), on the depot (--git-dir), with the user's
        # credentials: the address is in the environment, since it may hold a login.
        try:
            done = await git(
                f"--git-dir={self.path}",
                *args,
                at=self._at,
                env=remote.environment(),
                limit=limit,
            )
        except GitStalled as stalled:
            raise SetupError(
                f"{remote.name} ({remote.url}) did not answer within"
                f" {limit.total_seconds():.0f} s; check the network or the server and run again"
            ) from stalled
        except GitFailed as failed:
            line = explain_fetch(remote.name, remote.url, failed.done.err)
            raise SetupError(line, detail=gist(failed.done.err)) from failed
        return done.out


async def _seed(fresh: BareRepository, checkout: Checkout) -> None:
    """Copy the checkout's objects, and note its remote-tracking commits for the first fetch."""
    try:
        copying = asyncio.to_thread(
            copy_objects, checkout.common / "objects", fresh.path / "objects"
        )
        await copying
    except FileNotFoundError:
        return  # The user's git packed its objects meanwhile: the fetch brings them instead.
    tracked = await checkout.git(
        "for-each-ref", "--format=%(objectname) %(refname:lstrip=2)",
        "refs/remotes/origin", "refs/remotes/upstream",
    )  # fmt: skip
    rows = [row.split(" ", 1) for row in tracked.text.splitlines()]
    updates = "".join(f"create {_SEED}{name} {oid}\n" for oid, name in rows if "HEAD" not in name)
    with contextlib.suppress(GitFailed):
        await fresh.git("update-ref", "--stdin", stdin=updates.encode(errors="surrogateescape"))


def _parse_listing(text: str) -> Listing:
    default: str | None = None
    branches: dict[str, str] = {}
    tags: dict[str, str] = {}
    for row in text.splitlines():
        oid, _, name = row.partition("\t")
        if found := re.fullmatch(r"ref: refs/heads/(.+)", oid):
            default = found[1] if name == "HEAD" else default
        elif name.startswith("refs/heads/"):
            branches[name.removeprefix("refs/heads/")] = oid
        elif name.startswith("refs/tags/"):
            # A peeled entry follows its tag and takes its place.
            tags[name.removeprefix("refs/tags/").removesuffix("^{}")] = oid
    return Listing(default, branches, tags)
