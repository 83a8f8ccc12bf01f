"""Real Git over smart HTTP: `git http-backend` behind a forge in this process.

What a push to such a server does is what Git does; only who may push, and to which branches, is
decided here, with the words of the real forges.
"""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_AUTHOR = "Forge <forge@example.invalid> 1700000000 +0000"
_PROTECTED = "protected-branches"

_PRE_RECEIVE = """#!/bin/sh
# A forge's own rules: protected branches, and GitHub's scope for workflow files.
refused=0
while read -r old new ref; do
    if grep -qxF "$ref" protected-branches 2>/dev/null; then
        echo "Not allowed to push to protected branch ${ref#refs/heads/}" >&2
        refused=1
    fi
    if [ -n "$FORGE_KEEPS_WORKFLOWS" ] && [ -n "$new" ] &&
        [ -n "$(git rev-list "$new" --not --all -- .github/workflows 2>/dev/null)" ]; then
        echo "refusing to allow a Personal Access Token to create or update workflow" \\
            "without \\`workflow\\` scope" >&2
        refused=1
    fi
done
exit $refused
"""


@dataclass(frozen=True, slots=True)
class CgiReply:
    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class CgiRequest:
    method: str
    path: str
    """Below the root of the repositories: `/owner/name.git/info/refs`."""
    query: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    user: str = ""
    may_change_workflows: bool = True


def serve(root: Path, request: CgiRequest) -> CgiReply:
    """Let Git answer. Whoever calls has decided that this user may."""
    done = subprocess.run(
        ["git", "http-backend"],
        input=request.body,
        env=_cgi(root, request),
        capture_output=True,
        check=True,
    )
    head, _, body = done.stdout.partition(b"\r\n\r\n")
    lines = (line.partition(":") for line in head.decode().splitlines())
    headers = {name.strip(): value.strip() for name, _, value in lines}
    status = int(headers.pop("Status", "200").split()[0])
    return CgiReply(status, headers, body)


def create_bare(git_dir: Path, branch: str) -> None:
    """A repository with one commit, as a forge makes it."""
    _git("init", "-q", "--bare", f"--initial-branch={branch}", str(git_dir))
    hook = git_dir / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(_PRE_RECEIVE)
    hook.chmod(0o755)
    commit(git_dir, branch, {"README.md": "# A repository\n"}, start=None)


def copy_bare(git_dir: Path, into: Path) -> None:
    _git("clone", "-q", "--bare", "--no-hardlinks", str(git_dir), str(into))


def commit(git_dir: Path, branch: str, files: Mapping[str, str], *, start: str | None) -> None:
    """One more commit on `branch`, which begins at `start` when it is new."""
    lines = [f"commit refs/heads/{branch}", f"committer {_AUTHOR}", *_data(f"Change {branch}")]
    if start is not None:
        lines.append(f"from refs/heads/{start}^0")
    for name, text in files.items():
        lines += [f"M 100644 inline {name}", *_data(text)]
    subprocess.run(
        ["git", "--git-dir", str(git_dir), "fast-import", "--quiet", "--date-format=raw"],
        input=("\n".join(lines) + "\n").encode(),
        env=_environment(),
        check=True,
    )


def branches(git_dir: Path) -> dict[str, str]:
    """Name -> commit."""
    form = "--format=%(refname:lstrip=2) %(objectname)"
    listed = _git("--git-dir", str(git_dir), "for-each-ref", form, "refs/heads")
    return {line.split()[0]: line.split()[1] for line in listed.splitlines()}


def brings_something(git_dir: Path, base: str, head: str) -> bool:
    ends = f"refs/heads/{base}..refs/heads/{head}"
    return _git("--git-dir", str(git_dir), "rev-list", "--count", ends).strip() != "0"


def protect(git_dir: Path, branch: str) -> None:
    """From now on pushes to this branch are refused."""
    with (git_dir / _PROTECTED).open("a") as listed:
        listed.write(f"refs/heads/{branch}\n")


def _data(text: str) -> list[str]:
    return [f"data {len(text.encode())}", text]


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], env=_environment(), capture_output=True, check=True, text=True
    )
    return done.stdout


def _environment() -> dict[str, str]:
    """Nothing of the caller's own Git configuration."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "C",
    }


def _cgi(root: Path, request: CgiRequest) -> dict[str, str]:
    environment = _environment() | {
        "GIT_PROJECT_ROOT": str(root),
        "GIT_HTTP_EXPORT_ALL": "1",
        "REQUEST_METHOD": request.method,
        "PATH_INFO": request.path,
        "QUERY_STRING": request.query,
        "CONTENT_TYPE": request.headers.get("content-type", ""),
        "CONTENT_LENGTH": str(len(request.body)),
        "REMOTE_USER": request.user,
        "REMOTE_ADDR": "127.0.0.1",
        "FORGE_KEEPS_WORKFLOWS": "" if request.may_change_workflows else "1",
    }
    for name in ("content-encoding", "git-protocol", "accept"):
        if name in request.headers:
            environment["HTTP_" + name.upper().replace("-", "_")] = request.headers[name]
    if "git-protocol" in request.headers:
        environment["GIT_PROTOCOL"] = request.headers["git-protocol"]
    return environment
