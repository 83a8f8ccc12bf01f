"""What a sync costs besides the agent: against plain Git, copied objects and a bare container.

Each round runs the baseline and the job one after the other on the same repositories; what is
printed is the median of the rounds' ratios. The agent is a script that resolves the conflict at
once, so that what is left is Forklift's own time.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from forklift.testing.repositories import Fork, Repo
from tests.support.desk import build_stand_in, instruction, write_opencode_env

IMAGE = "forklift/kitchen-sink:latest"
SMALL = (200, 4 << 10)
LARGE = (50_000, 20 << 10)
_RESOLVE = (
    "git merge -q upstream/main; git checkout -q --theirs f0.txt; git add -A; git commit -qm m"
)
_BY_AGENT = ("--instruction", instruction(_RESOLVE))


@dataclass(frozen=True, slots=True)
class Bench:
    fork: Fork
    environ: dict[str, str]
    home: Path
    image: str


def run(rounds: int = 5) -> dict[str, float]:
    results: dict[str, float] = {}
    for name, (files, size), times in (("small", SMALL, rounds), ("large", LARGE, 3)):
        with made(files, size) as bench:
            results |= {f"sync.{name}.{key}": value for key, value in measure(bench, times).items()}
    return results


def measure(bench: Bench, rounds: int) -> dict[str, float]:
    clean: list[float] = []
    by_agent: list[float] = []
    checkout: list[float] = []
    rss: list[float] = []
    forklift(bench, "--dry-run")  # the depot is made once per fork, not once per run
    for number in range(rounds):
        upstream_moves(bench, number, conflict=False)
        base = timed(lambda: baseline(bench))
        clean.append(timed(lambda: rss.append(forklift(bench))) / base)
        settle(bench)
        upstream_moves(bench, number, conflict=True)
        base = timed(lambda: baseline(bench))
        files = timed(lambda: only_checkout(bench))
        took = timed(lambda: rss.append(forklift(bench, *_BY_AGENT)))
        by_agent.append(took / base)
        checkout.append(took / (base + files))
        settle(bench)
    return {
        "clean_merge_over_baseline": statistics.median(clean),
        "agent_merge_over_baseline": statistics.median(by_agent),
        "agent_merge_over_baseline_with_checkout": statistics.median(checkout),
        "largest_process_mib": max(rss),
    }


def baseline(bench: Bench) -> None:
    """`git fetch` of both remotes, a copy of the objects, one bare `docker run`."""
    plain = bench.home / "plain"
    if not plain.exists():
        shutil.copytree(bench.fork.checkout.path, plain, symlinks=True)
    for remote in ("origin", "upstream"):
        Repo(plain).git("fetch", "-q", "--no-tags", remote)
    copy = bench.home / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    subprocess.run(["cp", "-r", str(plain / ".git" / "objects"), str(copy)], check=True)
    subprocess.run(
        ["docker", "run", "--rm", "--network", "none", "--entrypoint", "true", bench.image],
        check=True,
    )


def only_checkout(bench: Bench) -> None:
    """The work tree that an agent needs, written by plain git."""
    tree = bench.home / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    Repo(bench.home / "plain").git("worktree", "prune")
    Repo(bench.home / "plain").git("worktree", "add", "-q", "--detach", str(tree), "origin/main")


def forklift(bench: Bench, *arguments: str) -> float:
    """Run it; what the largest of its processes took, in MiB."""
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "forklift.cli.app", "sync", "--json", *arguments],
            cwd=bench.fork.checkout.path,
            env=bench.environ,
            stdout=out,
            stderr=out,
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        told = out.read()
    if process.returncode:
        raise RuntimeError(f"the sync did not merge: {told}")
    return used.ru_maxrss / 1024


def settle(bench: Bench) -> None:
    """A person merges; old runs go."""
    branch = max(
        (b for b in bench.fork.origin.branches() if b.startswith("forklift/")),
        key=lambda b: bench.fork.origin.git("log", "-1", "--format=%ct", b),
    )
    bench.fork.origin.git("update-ref", "refs/heads/main", branch)
    bench.fork.origin.git("update-ref", "-d", f"refs/heads/{branch}")
    shutil.rmtree(bench.home / "state" / "forklift" / "runs", ignore_errors=True)


def upstream_moves(bench: Bench, number: int, *, conflict: bool) -> None:
    which = "f0.txt" if conflict else "f1.txt"
    label = f"{'c' if conflict else 'm'}{number}"
    write_commit(bench.fork.upstream, which, f"upstream {label}\n")
    if conflict:
        write_commit(bench.fork.origin, which, f"fork {label}\n")
    else:
        write_commit(bench.fork.origin, f"ours-{label}.txt", f"fork {label}\n")


def write_commit(repo: Repo, path: str, text: str) -> None:
    """A commit on a bare repository, without a checkout."""
    stream = (
        "commit refs/heads/main\ncommitter A <a@example.org> 1700000000 +0000\ndata 2\nx\n"
        f"from refs/heads/main^0\nM 100644 inline {path}\ndata {len(text)}\n{text}\n"
    )
    repo.git("fast-import", "--quiet", "--force", stdin=stream.encode())


@contextmanager
def made(files: int, size: int) -> Generator[Bench]:
    with tempfile.TemporaryDirectory(prefix="forklift-bench-") as room:
        root = Path(room)
        image = build_stand_in(IMAGE, _folder(root / "image"))
        home = _folder(root / "home")
        write_opencode_env(home)
        fork = generated(root, files, size)
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_STATE_HOME": str(home / "state"),
            "FORKLIFT_IMAGE": image,
        }
        yield Bench(fork, environ, home, image)


def generated(root: Path, files: int, size: int) -> Fork:
    """A fork of `files` files of `size` random bytes each: nothing in it compresses."""
    upstream = Repo(_folder(root / "upstream.git"))
    upstream.git("init", "-q", "--bare", "--initial-branch=main")
    feed = subprocess.Popen(
        ["git", "-C", str(upstream.path), "fast-import", "--quiet"], stdin=subprocess.PIPE
    )
    if feed.stdin is None:
        raise RuntimeError("git fast-import has no input")
    with feed.stdin as stream:
        stream.write(b"commit refs/heads/main\ncommitter A <a@example.org> 1700000000 +0000\n")
        stream.write(b"data 5\nfirst\n")
        for number in range(files):
            folder = f"d{number // 500}/" if number > 1 else ""
            stream.write(f"M 100644 inline {folder}f{number}.txt\ndata {size}\n".encode())
            stream.write(os.urandom(size) + b"\n")
    if feed.wait():
        raise RuntimeError("git fast-import failed")
    Repo(root).git("clone", "-q", "--bare", "--no-hardlinks", str(upstream.path), "origin.git")
    Repo(root).git("clone", "-q", "--no-hardlinks", str(root / "origin.git"), "fork")
    checkout = Repo(root / "fork")
    checkout.git("remote", "add", "upstream", str(upstream.path))
    return Fork(root, upstream, Repo(root / "origin.git"), checkout, upstream)


def timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
