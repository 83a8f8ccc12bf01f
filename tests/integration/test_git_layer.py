"""The git layer on real repositories."""

import asyncio
import socket
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from forklift.core.secret import Secret
from forklift.errors import PushRefused, SetupError, UnsafeOutput
from forklift.git.checkout import find_checkout
from forklift.git.command import GitStalled, alone, git
from forklift.git.depot import Depot, FetchLimits
from forklift.git.quarantine import BUNDLE_PROGRAM, RESULT, Quarantine
from forklift.git.workspace import make_workspace
from forklift.testing.repositories import Fork, Repo, conflict, diverge, new_fork, new_repo


@pytest.fixture
def fork(tmp_path: Path) -> Fork:
    return new_fork(tmp_path)


async def opened(fork: Fork, tmp_path: Path) -> Depot:
    """A depot with both remotes' main fetched to refs/forklift/…/main."""
    checkout = await find_checkout(fork.checkout.path)
    depot = Depot(tmp_path / "state" / "depots" / "greeter.git", fork.checkout.path)
    await depot.ensure(checkout)
    for name in ("origin", "upstream"):
        remote = await checkout.remote(name)
        await depot.fetch(remote, {"refs/heads/main": f"refs/forklift/{name}/main"})
    await depot.forget_seed()
    return depot


async def test_finds_the_checkout_from_below_it_and_from_a_linked_worktree(fork: Fork) -> None:
    below = fork.checkout.path / "docs"
    below.mkdir()
    fork.checkout.git("worktree", "add", "--quiet", "../linked", "-b", "side")
    from_below = await find_checkout(below)
    from_linked = await find_checkout(fork.root / "linked")
    assert from_below.root == fork.checkout.path
    assert from_linked.main_root == fork.checkout.path
    assert from_linked.common == from_below.common


async def test_says_plainly_that_a_directory_is_no_checkout(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="is not in a git repository; go to your fork's checkout"):
        await find_checkout(tmp_path)


async def test_a_missing_remote_comes_with_the_line_that_adds_it(tmp_path: Path) -> None:
    checkout = await find_checkout(new_repo(tmp_path / "alone").path)
    with pytest.raises(SetupError, match="git remote add upstream"):
        await checkout.remote("upstream")


async def test_a_login_in_a_remote_url_is_never_shown(fork: Fork) -> None:
    fork.checkout.git("remote", "set-url", "origin", "https://ada:hunter22@example.org/x.git")
    remote = await (await find_checkout(fork.checkout.path)).remote("origin")
    assert remote.url == "https://example.org/x.git"


async def test_a_forge_token_reaches_git_through_its_environment_only(fork: Fork) -> None:
    fork.checkout.git("remote", "set-url", "origin", "https://example.org/x.git")
    remote = await (await find_checkout(fork.checkout.path)).remote("origin")
    env = remote.with_token("forklift", Secret("s3cret-token")).environment()
    asked = b"protocol=https\nhost=example.org\n\n"
    filled = await git("credential", "fill", at=fork.root, env=env, stdin=asked)
    assert "password=s3cret-token" in filled.text
    assert [name for name, value in env.items() if "s3cret-token" in value] == [
        "FORKLIFT_GIT_PASSWORD"
    ]


async def test_a_forge_token_is_not_offered_to_another_host(fork: Fork) -> None:
    fork.checkout.git("remote", "set-url", "origin", "https://example.org/x.git")
    remote = await (await find_checkout(fork.checkout.path)).remote("origin")
    env = remote.with_token("forklift", Secret("s3cret-token")).environment()
    asked = b"protocol=https\nhost=elsewhere.example\n\n"
    filled = await git("credential", "fill", at=fork.root, env=env, stdin=asked, ok=(0, 1, 128))
    assert "s3cret-token" not in filled.text


async def test_the_depot_shares_no_file_with_the_checkout(fork: Fork, tmp_path: Path) -> None:
    depot = await opened(fork, tmp_path)
    ours = {f.stat().st_ino for f in (depot.path / "objects").rglob("*") if f.is_file()}
    theirs = {f.stat().st_ino for f in (fork.checkout.path / ".git").rglob("*") if f.is_file()}
    assert ours
    assert not ours & theirs


async def test_fetching_leaves_the_users_checkout_byte_for_byte(fork: Fork, tmp_path: Path) -> None:
    diverge(fork)
    (fork.checkout.path / "draft.txt").write_text("not committed")
    before = snapshot(fork.checkout.path)
    await opened(fork, tmp_path)
    assert snapshot(fork.checkout.path) == before


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(f.relative_to(root)): f.read_bytes() for f in root.rglob("*") if f.is_file()}


async def test_a_shallow_checkout_still_gives_a_whole_depot(fork: Fork, tmp_path: Path) -> None:
    diverge(fork)
    shallow = Repo(tmp_path / "shallow")
    fork.checkout.git("clone", "-q", "--depth=1", f"file://{fork.origin.path}", str(shallow.path))
    shallow.git("remote", "add", "upstream", str(fork.upstream.path))
    depot = await opened(replace(fork, checkout=shallow), tmp_path)
    assert await depot.count("refs/forklift/origin/main") == 2
    await depot.git("fsck", "--connectivity-only", "--strict")


async def test_lists_branches_tags_and_the_default_branch(fork: Fork, tmp_path: Path) -> None:
    fork.upstream_work.git("tag", "-m", "first", "v1.0.0")
    fork.upstream_work.git("push", "--quiet", "origin", "v1.0.0")
    depot = await opened(fork, tmp_path)
    remote = await (await find_checkout(fork.checkout.path)).remote("upstream")
    listing = await depot.list_remote(remote, tags=True)
    assert listing.default_branch == "main"
    assert listing.tags == {"v1.0.0": fork.upstream_work.head}
    assert listing.branches == {"main": fork.upstream_work.head}


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("{tmp}/nowhere.git", "is no git repository that can be read from here"),
        ("http://127.0.0.1:9/x.git", "does not answer"),
        ("http://does-not-exist.invalid/x.git", "does not resolve|does not answer"),
    ],
)
async def test_a_fetch_that_fails_says_why_in_one_line(
    fork: Fork, tmp_path: Path, url: str, line: str
) -> None:
    fork.checkout.git("remote", "set-url", "upstream", url.format(tmp=tmp_path))
    with pytest.raises(SetupError, match=line) as caught:
        await opened(fork, tmp_path)
    assert "\n" not in caught.value.message


async def test_a_stalled_remote_is_given_up_at_the_limit(fork: Fork, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        fork.checkout.git("remote", "set-url", "upstream", f"http://127.0.0.1:{port}/x.git")
        checkout = await find_checkout(fork.checkout.path)
        limits = FetchLimits(listing=timedelta(seconds=0.5))
        depot = Depot(tmp_path / "depot.git", fork.checkout.path, limits)
        await depot.ensure(checkout)
        with pytest.raises(SetupError, match="did not answer within"):
            await depot.list_remote(await checkout.remote("upstream"))


async def test_a_command_over_its_limit_is_ended_with_its_children(tmp_path: Path) -> None:
    new_repo(tmp_path / "r")
    alias = ("-c", "alias.nap=!sleep 60 & echo $! > pid; wait", "nap")
    with pytest.raises(GitStalled):
        await git(*alias, at=tmp_path / "r", env=alone(), limit=timedelta(seconds=0.5))
    pid = (tmp_path / "r" / "pid").read_text().strip()
    for _ in range(100):
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or state.read_text().split()[2] == "Z":
            break
        await asyncio.sleep(0.02)
    else:
        pytest.fail("the child is still alive")


async def test_forecasts_a_clean_merge_and_makes_it_without_a_checkout(
    fork: Fork, tmp_path: Path
) -> None:
    depot = await opened(diverge(fork), tmp_path)
    ours = str(await depot.resolve("refs/forklift/origin/main"))
    theirs = str(await depot.resolve("refs/forklift/upstream/main"))
    forecast = await depot.forecast(ours, theirs)
    merged = await depot.commit(forecast.tree, [ours, theirs], "Merge upstream\n")
    assert forecast.clean
    assert await depot.is_ancestor(ours, merged)
    assert await depot.is_ancestor(theirs, merged)
    assert await depot.file(merged, "version.txt", 100) == "2\n"
    assert await depot.file(merged, "OURS.md", 100) == "Kept by the fork.\n"


async def test_forecasts_a_conflict_with_the_files_it_is_in(fork: Fork, tmp_path: Path) -> None:
    depot = await opened(conflict(fork), tmp_path)
    forecast = await depot.forecast("refs/forklift/origin/main", "refs/forklift/upstream/main")
    assert not forecast.clean
    assert forecast.conflicts == ("greet.py",)


async def test_a_workspace_knows_no_host_path_url_remote_or_reflog(
    fork: Fork, tmp_path: Path
) -> None:
    depot = await opened(conflict(fork), tmp_path)
    workspace = await workspace_of(depot, tmp_path)
    told = b"".join(f.read_bytes() for f in (workspace / ".git").rglob("*") if f.is_file())
    for secret in (str(fork.root), str(tmp_path), "origin.git", "upstream.git"):
        assert secret.encode() not in told
    repo = Repo(workspace)
    assert repo.git("remote") == ""
    assert not (workspace / ".git" / "logs").exists()
    assert not (workspace / ".git" / "objects" / "info" / "alternates").exists()
    assert repo.git("status", "--porcelain") == ""
    assert repo.git("rev-parse", "upstream/main") == fork.upstream_work.head


async def test_a_workspace_shares_no_inode_with_the_depot(fork: Fork, tmp_path: Path) -> None:
    depot = await opened(conflict(fork), tmp_path)
    workspace = await workspace_of(depot, tmp_path)
    theirs = {f.stat().st_ino for f in workspace.rglob("*") if f.is_file()}
    ours = {f.stat().st_ino for f in depot.path.rglob("*") if f.is_file()}
    assert not ours & theirs


async def workspace_of(depot: Depot, tmp_path: Path) -> Path:
    ours = str(await depot.resolve("refs/forklift/origin/main"))
    theirs = str(await depot.resolve("refs/forklift/upstream/main"))
    at = tmp_path / "run" / "workspace"
    at.parent.mkdir()
    refs = {"refs/remotes/upstream/main": theirs}
    await make_workspace([depot], at, branch="main", commit=ours, refs=refs)
    return at


async def parcel_from(workspace: Path, tmp_path: Path, *known: str) -> Path:
    """What the bundle container prints, made by the very program it runs."""
    program = BUNDLE_PROGRAM.replace("cd /workspace", f"cd {workspace}")
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", program, "bundle", "main", *known, env=alone(),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    parcel = tmp_path / "parcel"
    parcel.write_bytes(out)
    return parcel


async def quarantined(depot: Depot, tmp_path: Path) -> Quarantine:
    quarantine = Quarantine(tmp_path / "quarantine.git", depot)
    await quarantine.create()
    return quarantine


async def test_a_result_travels_by_bundle_and_is_pushed_to_one_branch(
    fork: Fork, tmp_path: Path
) -> None:
    depot = await opened(conflict(fork), tmp_path)
    workspace = Repo(await workspace_of(depot, tmp_path))
    ours, theirs = workspace.head, workspace.git("rev-parse", "upstream/main")
    workspace.git("merge", "--quiet", "upstream/main", check=False)
    made = workspace.commit("Merge", {"greet.py": "resolved\n"})
    parcel = await parcel_from(workspace.path, tmp_path, ours, theirs)
    quarantine = await quarantined(depot, tmp_path)
    assert await quarantine.receive(parcel, "main") == made
    remote = await (await find_checkout(fork.checkout.path)).remote("origin")
    await quarantine.push(remote, made, "forklift/x", expect="", at=fork.checkout.path)
    assert fork.origin.git("rev-parse", "forklift/x") == made
    with pytest.raises(PushRefused, match="the branch moved on origin"):
        await quarantine.push(remote, ours, "forklift/x", expect="", at=fork.checkout.path)


async def test_a_result_that_is_upstream_itself_needs_no_bundle(fork: Fork, tmp_path: Path) -> None:
    depot = await opened(conflict(fork), tmp_path)
    workspace = Repo(await workspace_of(depot, tmp_path))
    theirs = workspace.git("rev-parse", "upstream/main")
    ours = workspace.head
    workspace.git("reset", "--quiet", "--hard", theirs)
    parcel = await parcel_from(workspace.path, tmp_path, ours, theirs)
    quarantine = await quarantined(depot, tmp_path)
    assert await quarantine.receive(parcel, "main") == theirs
    assert not await quarantine.is_ancestor(ours, RESULT)


@pytest.mark.parametrize(
    "content",
    [b"", b"hello\n", b"0" * 40 + b"\n", b"0" * 40 + b"\n# v2 git bundle\n\n", b"\xff" * 300],
)
async def test_a_parcel_that_is_no_result_is_refused(
    fork: Fork, tmp_path: Path, content: bytes
) -> None:
    depot = await opened(fork, tmp_path)
    quarantine = await quarantined(depot, tmp_path)
    parcel = tmp_path / "parcel"
    parcel.write_bytes(content)
    with pytest.raises(UnsafeOutput):
        await quarantine.receive(parcel, "main")


async def test_changes_and_contents_are_read_by_path(fork: Fork, tmp_path: Path) -> None:
    fork.fork_commits("Odd names", {"a b\tc.txt": "x\n", "ünï.txt": "y\n", "version.txt": None})
    depot = await opened(fork, tmp_path)
    changes = await depot.changes("refs/forklift/upstream/main", "refs/forklift/origin/main")
    paths = {change.path: change for change in changes}
    assert set(paths) == {"a b\tc.txt", "ünï.txt", "version.txt"}
    assert paths["version.txt"].after is None
    added = paths["ünï.txt"].after
    assert added is not None
    assert await depot.blobs([added.oid, "0" * 40], 10) == {added.oid: b"y\n"}
