"""Building real repositories for tests and demos: an upstream, a fork of it, a checkout."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_ENVIRONMENT = {
    "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_AUTHOR_DATE": "2024-02-13T08:04:56Z",
    "GIT_COMMITTER_DATE": "2024-02-13T08:04:56Z",
}

Tree = Mapping[str, str | bytes | None]
"""Paths to contents; None deletes."""


@dataclass(frozen=True, slots=True)
class Repo:
    """A repository on disk, driven with the real git."""

    path: Path

    def git(self, *args: str, stdin: bytes | None = None, check: bool = True) -> str:
        done = subprocess.run(
            ["git", "-C", str(self.path), *args],
            env=_ENVIRONMENT, input=stdin, capture_output=True, check=False,
        )  # fmt: skip
        if check and done.returncode:
            raise RuntimeError(f"git {' '.join(args)}: {done.stderr.decode(errors='replace')}")
        return done.stdout.decode(errors="surrogateescape").strip()

    def commit(self, message: str, tree: Tree) -> str:
        """Write `tree` over the work tree and commit all of it."""
        for name, content in tree.items():
            file = self.path / name
            if content is None:
                file.unlink()
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
        self.git("add", "--all", "--force")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)
        return self.head

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def file(self, ref: str, path: str) -> str:
        return self.git("show", f"{ref}:{path}")

    def branches(self) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split()


def new_repo(path: Path, branch: str = "main") -> Repo:
    path.mkdir(parents=True)
    repo = Repo(path)
    repo.git("init", "--quiet", "--template=", f"--initial-branch={branch}")
    return repo


@dataclass(frozen=True, slots=True)
class Fork:
    """`upstream` and `origin` are bare, as on a server; `checkout` is the user's."""

    root: Path
    upstream: Repo
    origin: Repo
    checkout: Repo
    upstream_work: Repo

    def upstream_commits(self, message: str, tree: Tree) -> str:
        """Somebody commits to upstream and pushes."""
        oid = self.upstream_work.commit(message, tree)
        self.upstream_work.git("push", "--quiet", "origin", "HEAD")
        return oid

    def fork_commits(self, message: str, tree: Tree) -> str:
        """The fork's owner commits and pushes."""
        oid = self.checkout.commit(message, tree)
        self.checkout.git("push", "--quiet", "origin", "HEAD")
        return oid

    def person_merges(self, branch: str) -> str:
        """A person merges a branch of origin into its main."""
        self.checkout.git("fetch", "--quiet", "origin")
        self.checkout.git("merge", "--quiet", "--no-edit", f"origin/{branch}")
        self.checkout.git("push", "--quiet", "origin", "HEAD")
        return self.checkout.head


BASE: Tree = {
    "README.md": "# Greeter\n\nSays hello.\n",
    "greet.py": 'def greet(name):\n    return "Hello, " + name\n',
    "version.txt": "1\n",
}


def new_fork(
    root: Path, base: Tree = BASE, branch: str = "main", directory: str = "greeter"
) -> Fork:
    """An upstream with `base`, and a fork of it that has nothing of its own yet."""
    upstream_work = new_repo(root / "upstream-work", branch)
    upstream_work.commit("Say hello", base)
    upstream = _bare(root / "upstream.git", upstream_work)
    origin = _bare(root / "origin.git", upstream_work)
    upstream_work.git("remote", "add", "origin", str(upstream.path))
    checkout = Repo(root / directory)
    Repo(root).git("clone", "--quiet", "--no-hardlinks", str(origin.path), str(checkout.path))
    checkout.git("remote", "add", "upstream", str(upstream.path))
    return Fork(root, upstream, origin, checkout, upstream_work)


def diverge(fork: Fork) -> Fork:
    """Both sides change things that merge cleanly."""
    fork.fork_commits("Add our notes", {"OURS.md": "Kept by the fork.\n"})
    fork.upstream_commits("Second version", {"version.txt": "2\n", "docs/news.md": "New.\n"})
    return fork


def conflict(fork: Fork) -> Fork:
    """Both sides change the same line of greet.py; upstream brings a clean change besides."""
    fork.fork_commits(
        "Greet in our way", {"greet.py": 'def greet(name):\n    return "Moin, " + name\n'}
    )
    fork.upstream_commits(
        "Greet with an exclamation mark",
        {"greet.py": 'def greet(name):\n    return "Hello, " + name + "!"\n', "version.txt": "2\n"},
    )
    return fork


def _bare(path: Path, source: Repo) -> Repo:
    Repo(path.parent).git(
        "clone", "--quiet", "--bare", "--no-hardlinks", str(source.path), str(path)
    )
    return Repo(path)
