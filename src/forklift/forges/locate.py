"""Which forge a remote is on, and the token that was meant for it, if there is one.

A token goes to the host it was given for and to no other: an unknown host means no forge, and a
branch is the result.
"""

import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from forklift.core.secret import Secret
from forklift.errors import SetupError
from forklift.forges.port import ForgeAddress
from forklift.forges.remote_url import Remote, parse_remote, read_remote

__all__ = ["ForgeEntry", "locate", "parse_remote"]

_API_PATHS = {"gitea": "/api/v1", "github": "/api/v3", "gitlab": "/api/v4"}


@dataclass(frozen=True, slots=True)
class ForgeEntry:
    """One forge of `forges.toml`."""

    host: str
    """As in the remote: with the port, if the web address has one."""
    kind: str
    token: Secret
    api_url: str | None = None


def locate(
    url: str,
    environ: Mapping[str, str],
    entries: Sequence[ForgeEntry],
    gh_token: Callable[[str], str | None],
) -> tuple[str, ForgeAddress] | None:
    """The forge's kind and address. None: no forge is configured for this remote."""
    remote = read_remote(url)
    if remote is None:
        return None
    entry = next((entry for entry in entries if _names(entry.host, remote)), None)
    entry = entry or _known(remote, environ, gh_token)
    if entry is None or not entry.token:
        return None
    api_url = _api_url(entry, remote)
    repository = remote.repository(below=_below(api_url, entry.kind))
    if repository is None:
        return None
    return entry.kind, ForgeAddress(api_url, repository, entry.token)


def _known(
    remote: Remote, environ: Mapping[str, str], gh_token: Callable[[str], str | None]
) -> ForgeEntry | None:
    """A forge that the environment, or gh, holds a token for."""
    github = _github(remote, environ, gh_token)
    if github is not None:
        return github
    gitlab = environ.get("GITLAB_HOST") or "https://gitlab.com"
    if _names(gitlab, remote):
        return _entry(gitlab, "gitlab", environ.get("GITLAB_TOKEN"))
    gitea = environ.get("GITEA_URL") or environ.get("GITEA_SERVER_URL")
    if gitea and _names(gitea, remote):
        token = environ.get("GITEA_TOKEN") or environ.get("GITEA_SERVER_TOKEN")
        return _entry(gitea, "gitea", token)
    return None


def _github(
    remote: Remote, environ: Mapping[str, str], gh_token: Callable[[str], str | None]
) -> ForgeEntry | None:
    """In gh's own order: its variable, GitHub's, then what `gh auth login` stored."""
    own = environ.get("GH_HOST", "")
    if remote.host == "github.com":
        names, api_url = ("GH_TOKEN", "GITHUB_TOKEN"), "https://api.github.com"
    elif remote.host.endswith(".ghe.com"):
        # GitHub's own cloud under a company's name: gh uses the same variables for it.
        names, api_url = ("GH_TOKEN", "GITHUB_TOKEN"), f"https://api.{remote.host}"
    elif own and _names(own, remote):
        names, api_url = ("GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"), None
    else:
        return None
    given = (environ[name] for name in names if environ.get(name))
    token = next(given, None) or gh_token(remote.host)
    return ForgeEntry(remote.host, "github", Secret(token or ""), api_url)


def _entry(where: str, kind: str, token: str | None) -> ForgeEntry:
    """From a host's name, or the whole address of a server as people also put it there."""
    address = where if "://" in where else f"https://{where}"
    api_url = address.rstrip("/") + _API_PATHS[kind] if "/" in where else None
    return ForgeEntry(where, kind, Secret(token or ""), api_url)


def _names(where: str, remote: Remote) -> bool:
    """Whether a host's name or address means the remote's host.

    The port counts: another port may be another server. Only an ssh remote has none to compare.
    """
    split = _split(where)
    try:
        usual = {"http": 80, "https": 443}.get(split.scheme)
        host, port = split.hostname or "", split.port
    except ValueError:
        return False
    if remote.scheme == "ssh" or port in {None, usual}:
        return remote.host == host
    return remote.host == f"{host}:{port}"


def _split(where: str) -> urllib.parse.SplitResult:
    return urllib.parse.urlsplit(where if "://" in where else f"//{where}")


def _api_url(entry: ForgeEntry, remote: Remote) -> str:
    if entry.api_url is not None:
        split = urllib.parse.urlsplit(entry.api_url)
        if split.scheme not in {"http", "https"} or not split.hostname or split.username:
            raise SetupError(
                f"the API address of {entry.host} must look like https://host/api, without a user"
            )
        return entry.api_url.rstrip("/")
    # In clear text only where the remote itself already is.
    scheme = "http" if remote.scheme == "http" else "https"
    host = _split(entry.host).netloc if remote.scheme == "ssh" else remote.host
    return f"{scheme}://{host}{_API_PATHS.get(entry.kind, '')}"


def _below(api_url: str, kind: str) -> str:
    """The path that a forge is served under: `git` for https://example.org/git/api/v1."""
    path = urllib.parse.urlsplit(api_url).path
    suffix = _API_PATHS.get(kind, "")
    return path.removesuffix(suffix) if suffix and path.endswith(suffix) else ""
