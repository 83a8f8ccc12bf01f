"""For a remote without a forge: what the person does next with the branch that was pushed.

There is deliberately no `PullRequests` here. Without a forge there is no number, no address and no
state to give back, so an adapter could only pretend: a branch and these lines are the result.
"""

import shlex
import urllib.parse

from forklift.core.text import one_line
from forklift.forges.remote_url import Remote, read_remote

_GITEA_LIKE = frozenset({"codeberg.org", "gitea.com"})


def instructions(remote_url: str, head: str, base: str) -> str:
    """The lines to print: a page to open where the host is known, else the Git commands."""
    remote = read_remote(remote_url)
    page = _page(remote, head, base) if remote else None
    if page:
        return f"open a pull request for {one_line(head)} at: {page}"
    address, branch, target = (
        shlex.quote(one_line(text, 1_000)) for text in (_without_user(remote_url), head, base)
    )
    return "\n".join(
        (
            f"look at {one_line(head)} and merge it by hand:",
            f"  git fetch {address} {branch}",
            f"  git log --oneline {target}..FETCH_HEAD",
            f"  git switch {target}",
            "  git merge FETCH_HEAD",
        )
    )


def _page(remote: Remote, head: str, base: str) -> str | None:
    """Where that host's web pages compare two branches. A guess for hosts known by name only."""
    repository = remote.repository()
    if repository is None:
        return None
    scheme = "http" if remote.scheme == "http" else "https"
    path = f"{repository.owner}/{repository.name}"
    home = f"{scheme}://{repository.host}/{urllib.parse.quote(path)}"
    pair = f"{urllib.parse.quote(base)}...{urllib.parse.quote(head)}"
    first = repository.host.split(".")[0].split(":")[0]
    if repository.host == "github.com" or first == "github":
        return f"{home}/compare/{pair}?expand=1"
    if repository.host == "gitlab.com" or first == "gitlab":
        ends = {"merge_request[source_branch]": head, "merge_request[target_branch]": base}
        return f"{home}/-/merge_requests/new?{urllib.parse.urlencode(ends)}"
    if repository.host in _GITEA_LIKE or first in {"gitea", "forgejo"}:
        return f"{home}/compare/{pair}"
    return None


def _without_user(url: str) -> str:
    """A URL may hold a password; a user's name in front of an ssh host is needed and stays."""
    split = urllib.parse.urlsplit(url)
    if split.scheme not in {"http", "https"}:
        return url
    return urllib.parse.urlunsplit(split._replace(netloc=split.netloc.rpartition("@")[2]))
