"""Making the agent's own copy of a repository. After the agent has started, the host never runs
Git here again."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from forklift.git.bare import BareRepository
from forklift.git.command import alone, git
from forklift.git.objects import copy_objects

_CHECKOUT_LIMIT = timedelta(minutes=20)


async def make_workspace(
    source: Sequence[BareRepository],
    at: Path,
    *,
    branch: str,
    commit: str,
    refs: Mapping[str, str],
    unseen: Sequence[str] = (),
) -> None:
    """A self-contained clone of `commit` on `branch`: no remotes, no alternates, no hard links, no
    reflog, no host path, no URL. `refs` are set besides; `unseen` files git will not add.

    The objects of every repository in `source` are copied (a result lies in two).
    """
    at.mkdir(mode=0o755)
    env = alone()
    await git("init", "--quiet", "--template=", f"--initial-branch={branch}", at=at, env=env)
    inside = at / ".git"
    for repository in source:
        await asyncio.to_thread(copy_objects, repository.path / "objects", inside / "objects")
    _git_config(inside)
    wanted = {f"refs/heads/{branch}": commit, **refs}
    lines = "".join(f"create {name} {oid}\n" for name, oid in wanted.items())
    await git("update-ref", "--stdin", at=at, env=env, stdin=lines.encode())
    (inside / "info").mkdir(exist_ok=True)
    (inside / "info" / "exclude").write_text("".join(f"/{name}\n" for name in unseen))
    await git(
        "-c", "checkout.workers=0", "read-tree", "-u", "--reset", "HEAD",
        at=at, env=env, limit=_CHECKOUT_LIMIT,
    )  # fmt: skip


def _git_config(inside: Path) -> None:
    # No reflog: it would record who made the workspace; git would start one by itself.
    (inside / "config").write_text(
        "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
        "\tlogAllRefUpdates = false\n[advice]\n\tdetachedHead = false\n[gc]\n\tauto = 0\n"
    )
