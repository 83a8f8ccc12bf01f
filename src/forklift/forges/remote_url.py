"""Reading a Git remote's URL: which repository on which host it names, if any."""

import re
import urllib.parse
from dataclasses import dataclass

from forklift.forges.port import Repository

_SCP = re.compile(r"(?:[^@/:\s]+@)?(?P<host>\[[0-9a-fA-F:]+\]|[^@/:\s]{2,}):(?P<path>[^:].*)")
"""`git@host:owner/name`. One letter before the colon is a drive; `::` calls a remote helper."""

_SSH_SCHEMES = frozenset({"ssh", "git+ssh", "ssh+git", "git"})
_SSH_DOORS = {"ssh.github.com": "github.com", "altssh.gitlab.com": "gitlab.com"}
"""Where two forges take ssh on port 443."""


@dataclass(frozen=True, slots=True)
class Remote:
    scheme: str
    """`https`, `http` or `ssh`."""
    host: str
    """In lower case; with the port only where it is the web's own."""
    path: tuple[str, ...]
    """The owner's parts and the name, without `.git`."""

    def repository(self, below: str = "") -> Repository | None:
        """`below` is the path under which a forge is served, if it is not the root."""
        prefix = tuple(part for part in below.split("/") if part)
        path = self.path
        if self.scheme != "ssh" and prefix and path[: len(prefix)] == prefix:
            path = path[len(prefix) :]
        if len(path) < 2:
            return None
        return Repository(self.host, "/".join(path[:-1]), path[-1])


def read_remote(url: str) -> Remote | None:
    """None for a path, a local file, a remote helper, and whatever else no forge serves."""
    if any(character.isspace() or not character.isprintable() for character in url):
        return None
    if "://" in url:
        return _from_url(url)
    found = _SCP.fullmatch(url)
    if found is None:
        return None
    return _remote("ssh", found["host"], found["path"])


def parse_remote(url: str) -> Repository | None:
    remote = read_remote(url)
    return remote.repository() if remote else None


def _from_url(url: str) -> Remote | None:
    try:
        parts = urllib.parse.urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not host or parts.query or parts.fragment:
        return None
    host = f"[{host}]" if ":" in host else host
    if parts.scheme in _SSH_SCHEMES:
        # An ssh port says nothing about where the API listens.
        return _remote("ssh", host, parts.path)
    if parts.scheme not in {"http", "https"}:
        return None
    usual = {"http": 80, "https": 443}[parts.scheme]
    return _remote(parts.scheme, host if port in {None, usual} else f"{host}:{port}", parts.path)


def _remote(scheme: str, host: str, path: str) -> Remote | None:
    names = [urllib.parse.unquote(part) for part in path.split("/") if part]
    if names:
        names[-1] = names[-1].removesuffix(".git")
    if len(names) < 2 or any(name in {"", ".", ".."} or "/" in name for name in names):
        return None
    host = host.lower()
    return Remote(scheme, _SSH_DOORS.get(host, host), tuple(names))
