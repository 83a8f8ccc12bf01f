"""A bare repository that Forklift made: questions about history, and merges without a checkout."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from forklift.errors import UnsafeOutput
from forklift.git.command import (
    OUTPUT_LIMIT,
    QUICK,
    Finished,
    GitFailed,
    GitTooLoud,
    alone,
    git,
)

_MOST_CHANGES = 64 << 20
"""Bytes: half a million paths."""
_AT_ONCE = 16 << 20
_LISTED = ("ls-tree", "-r", "--format=x")


@dataclass(frozen=True, slots=True)
class Forecast:
    """What `git merge` would make of two commits, found without touching a file."""

    tree: str
    """The merged tree; where it conflicts it holds conflict markers."""
    clean: bool
    conflicts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A path in a tree: its mode and object id."""

    mode: str
    oid: str


@dataclass(frozen=True, slots=True)
class Change:
    """A path that differs between two trees. A side without the path is None."""

    path: str
    before: Entry | None
    after: Entry | None


@dataclass(frozen=True, slots=True)
class Commit:
    oid: str
    author: str
    subject: str


class BareRepository:
    def __init__(self, path: Path) -> None:
        self.path = path

    async def create(self) -> None:
        self.path.mkdir(parents=True, mode=0o700)
        # No template: a template directory of the user's may hold hooks.
        await self.git("init", "--quiet", "--bare", "--template=", ".")

    async def git(
        self, *args: str, limit: timedelta = QUICK, stdin: bytes = b"",
        ok: Iterable[int] = (0,), most: int = OUTPUT_LIMIT,
    ) -> Finished:  # fmt: skip
        return await git(
            *args, at=self.path, env=alone(), limit=limit, stdin=stdin, ok=ok, most=most
        )

    async def resolve(self, name: str) -> str | None:
        """The commit a name stands for, or None."""
        found = await self.git(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", ok=(0, 1)
        )
        return found.text or None

    async def tree_of(self, commit: str) -> str:
        return (await self.git("rev-parse", "--verify", f"{commit}^{{tree}}")).text

    async def is_ancestor(self, older: str, newer: str) -> bool:
        return (await self.git("merge-base", "--is-ancestor", older, newer, ok=(0, 1))).code == 0

    async def merge_base(self, one: str, other: str) -> str | None:
        return (await self.git("merge-base", one, other, ok=(0, 1))).text or None

    async def count(self, *selection: str) -> int:
        return int((await self.git("rev-list", "--count", *selection)).text)

    async def log(self, *selection: str, most: int) -> list[Commit]:
        wanted = await self.git(
            "log", "-z", f"--max-count={most}", "--format=%H%x1f%an%x1f%s", *selection
        )
        rows = wanted.out.decode(errors="replace").split("\0")
        return [Commit(*row.split("\x1f", 2)) for row in rows if row.count("\x1f") >= 2]

    async def forecast(self, ours: str, theirs: str) -> Forecast:
        done = await self.git(
            "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages",
            ours, theirs, ok=(0, 1),
        )  # fmt: skip
        tree, *paths = done.out.decode(errors="surrogateescape").rstrip("\0").split("\0")
        return Forecast(
            tree.strip(), done.code == 0, tuple(dict.fromkeys(path for path in paths if path))
        )

    async def commit(self, tree: str, parents: Sequence[str], message: str) -> str:
        flags = [flag for parent in parents for flag in ("-p", parent)]
        return (await self.git("commit-tree", tree, *flags, stdin=message.encode())).text

    async def changes(self, before: str, after: str) -> list[Change]:
        """What differs between two trees or commits, path by path, renames taken apart."""
        try:
            done = await self.git(
                "diff-tree", "-r", "-z", "--no-renames", "--raw", before, after,
                most=_MOST_CHANGES,
            )  # fmt: skip
        except GitTooLoud as loud:
            raise UnsafeOutput("it changes more files than can be looked at") from loud
        fields = done.out.decode(errors="surrogateescape").split("\0")
        return [_change(head, path) for head, path in zip(fields[::2], fields[1::2], strict=False)]

    async def holds_more_files(self, than: str, result: str, by: int) -> bool:
        """Whether `result`'s tree lists more than `by` files more than that of `than`.

        To be asked before `changes`: of a tree that lists itself ten times, twelve levels deep, git
        would make a list in memory first. This counts as it goes, and stops.
        """
        before = await self.git(*_LISTED, than)
        try:
            await self.git(*_LISTED, result, most=len(before.out) + by * len("x\n"))
        except GitTooLoud:
            return True
        return False

    async def blobs(
        self, oids: Iterable[str], largest: int, keep: Callable[[bytes], bytes] = bytes
    ) -> dict[str, bytes]:
        """What `keep` keeps of these blobs' contents; larger ones and what is no blob are left out.

        Applied at once: not more than a few blobs are ever held whole.
        """
        wanted = list(dict.fromkeys(oids))
        if not wanted:
            return {}
        sizes = await self.git("cat-file", "--batch-check", stdin=_lines(wanted))
        rows = [row.split() for row in sizes.out.decode().splitlines()]
        fitting = {
            r[0]: int(r[2]) for r in rows if len(r) == 3 and r[1] == "blob" and int(r[2]) <= largest
        }
        contents: dict[str, bytes] = {}
        for part in _parts(fitting):
            batch = _batch((await self.git("cat-file", "--batch", stdin=_lines(part))).out)
            contents |= {oid: keep(content) for oid, content in batch}
        return contents

    async def listed(self, commit: str, paths: Sequence[str]) -> frozenset[str]:
        """Those of `paths` that are in the commit's tree."""
        done = await self.git("ls-tree", "-z", "--name-only", commit, "--", *paths)
        return frozenset(done.out.decode(errors="surrogateescape").split("\0"))

    async def file(self, commit: str, path: str, largest: int) -> str | None:
        """The text of one file of a commit, or None where there is none (or no such blob)."""
        try:
            size = await self.git("cat-file", "-s", f"{commit}:{path}")
            if int(size.text) > largest:
                return None
            return (await self.git("cat-file", "blob", f"{commit}:{path}")).out.decode(
                errors="replace"
            )
        except GitFailed:
            return None


def _change(head: str, path: str) -> Change:
    old_mode, new_mode, old, new, _ = head.removeprefix(":").split(" ")
    return Change(path, _entry(old_mode, old), _entry(new_mode, new))


def _entry(mode: str, oid: str) -> Entry | None:
    return None if mode == "000000" else Entry(mode, oid)


def _lines(oids: Iterable[str]) -> bytes:
    return "".join(f"{oid}\n" for oid in oids).encode()


def _parts(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """The ids in groups whose contents fit into memory together."""
    part: list[str] = []
    total = 0
    for oid, size in sizes.items():
        if part and total + size > _AT_ONCE:
            yield part
            part, total = [], 0
        part.append(oid)
        total += size
    if part:
        yield part


def _batch(out: bytes) -> Iterator[tuple[str, bytes]]:
    at = 0
    while at < len(out):
        end = out.index(b"\n", at)
        oid, _, size = out[at:end].decode().split()
        start = end + 1
        yield oid, out[start : start + int(size)]
        at = start + int(size) + 1
