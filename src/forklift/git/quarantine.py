"""The quarantine: where a run's result is received and judged, before anything else sees it."""

import os
import shutil
from datetime import timedelta
from pathlib import Path

from forklift.errors import PushRefused, UnsafeOutput
from forklift.git.bare import BareRepository
from forklift.git.checkout import Remote
from forklift.git.command import GitFailed, GitStalled, git
from forklift.git.depot import Depot
from forklift.git.failures import explain_push, gist

RESULT = "refs/heads/result"
_PUSH_LIMIT = timedelta(minutes=15)
_TOLERATED = "zeroPaddedFilemode=ignore"
"""Old tools wrote such trees, and every clone carries them on; they harm nobody."""

BUNDLE_PROGRAM = """\
set -e
cd /workspace
if [ -L .git ] || [ ! -d .git ]; then exit 4; fi
[ -z "$(find -L .git ! -type f ! -type d -print -quit 2>/dev/null)" ] || exit 4
git rev-parse --git-dir >/dev/null
oid=$(git rev-parse --verify --quiet "refs/heads/$1^{commit}") || exit 3
branch=$1; shift
echo "$oid"
for known in "$@"; do [ "$oid" != "$known" ] || exit 0; done
exec git bundle create --quiet - "refs/heads/$branch" --not "$@"
"""
"""What the throw-away container runs: the result's commit on a line of its own, then the bundle of
what the host does not have. Arguments: the branch, then the commits the host has.

It ends with `NO_BRANCH` where there is none, and with `TRAP` where `.git` is no directory or holds
what is neither file nor directory: Git would wait at a pipe for ever.
"""
NO_BRANCH, TRAP = 3, 4

BUNDLE_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "HOME": "/tmp",  # noqa: S108 - the container's own, made for this one command
}


class Quarantine(BareRepository):
    """Borrows the depot's objects (the host's own, so it may) and keeps what it receives apart."""

    def __init__(self, path: Path, depot: Depot) -> None:
        super().__init__(path)
        self._depot = depot

    async def create(self) -> None:
        await super().create()
        borrowed = self.path / "objects" / "info"
        borrowed.mkdir(exist_ok=True)
        (borrowed / "alternates").write_text(f"{self._depot.path / 'objects'}\n")

    async def keep(self, commit: str) -> None:
        """Take a commit of the host's own making as the result."""
        await self.git("update-ref", RESULT, commit)

    async def receive(self, parcel: Path, branch: str) -> str:
        """Take the result out of what the bundle container printed. `UnsafeOutput` says why not."""
        claimed, bundle = _unpack(parcel)
        if bundle is None:
            if (known := await self.resolve(claimed)) is None:
                raise UnsafeOutput("the result names a commit that nobody has")
            await self.keep(known)
            return known
        try:
            await self.git("bundle", "verify", "--quiet", str(bundle))
            await self.git(
                "-c", "transfer.fsckObjects=true", "fetch", "--quiet", "--no-tags",
                "--no-write-fetch-head", "--no-recurse-submodules", str(bundle),
                f"+refs/heads/{branch}:{RESULT}",
            )  # fmt: skip
            await self._inspect()
        except GitFailed as failed:
            raise UnsafeOutput(
                f"the result's bundle is refused: {gist(failed.done.err)}"
            ) from failed
        # A refused update can exit 0: what counts is the ref.
        received = await self.resolve(RESULT)
        if received is None:
            raise UnsafeOutput("the result's bundle brought no branch")
        return received

    async def _inspect(self) -> None:
        """Refuse what attacks whoever checks it out: `.git` in disguise, submodules' tricks.

        `transfer.fsckObjects` alone is not enough: Git before 2.46 passes it over for bundles.
        """
        for pack in sorted((self.path / "objects" / "pack").glob("*.pack")):
            index = self.path / f"{pack.stem}.inspected"
            await self.git("index-pack", f"--strict={_TOLERATED}", "-o", str(index), str(pack))
            index.unlink()

    async def push(
        self, remote: Remote, commit: str, branch: str, *, expect: str, at: Path
    ) -> None:
        """Push `commit` to one branch, which must be at `expect` there ("" for: not exist)."""
        try:
            await git(
                f"--git-dir={self.path}", "push", "--quiet", "--no-verify", "--porcelain",
                "--no-recurse-submodules", f"--force-with-lease=refs/heads/{branch}:{expect}",
                "--end-of-options", remote.name, f"{commit}:refs/heads/{branch}",
                at=at, env=remote.environment(), limit=_PUSH_LIMIT,
            )  # fmt: skip
        except GitStalled as stalled:
            raise PushRefused(
                f"{remote.name} ({remote.url}) did not take the branch within"
                f" {_PUSH_LIMIT.total_seconds():.0f} s"
            ) from stalled
        except GitFailed as failed:
            said = f"{failed.done.err}\n{failed.done.text}"
            line = explain_push(remote.name, remote.url, said)
            raise PushRefused(line, detail=gist(said)) from failed


def _unpack(parcel: Path) -> tuple[str, Path | None]:
    """The commit on the first line, and the bundle after it as a file of its own."""
    with os.fdopen(os.open(parcel, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as read:
        first = read.readline(200)
        oid = first.decode(errors="replace").strip()
        if not (len(oid) in {40, 64} and set(oid) <= set("0123456789abcdef")):
            raise UnsafeOutput("what came out of the workspace is no result")
        start = read.tell()
        if not read.read(1):
            return oid, None
        read.seek(start)
        bundle = parcel.with_suffix(".bundle")
        with bundle.open("xb") as write:
            shutil.copyfileobj(read, write, 1 << 20)
    return oid, bundle
