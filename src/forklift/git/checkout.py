"""The user's own checkout: read, never written."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from forklift.core.secret import Secret
from forklift.errors import SetupError
from forklift.git.command import Finished, GitFailed, as_user, git
from forklift.git.failures import without_login

_REMOTE_KEYS = ("url", "pushurl", "proxy", "proxyauthmethod", "uploadpack", "receivepack", "vcs")
_SHARED_SECTIONS = ("http.", "credential.", "url.", "protocol.", "ssh.", "transfer.advertise")
_USER_VARIABLE = "FORKLIFT_GIT_USER"
_TOKEN_VARIABLE = "FORKLIFT_GIT_PASSWORD"  # noqa: S105 - the name, not the value
_SHARED_KEYS = ("core.sshcommand", "core.gitproxy", "core.askpass")
_HELPER = (
    '!f() { test "$1" != get || printf "username=%s\\npassword=%s\\n"'
    f' "${_USER_VARIABLE}" "${_TOKEN_VARIABLE}"; }}; f'
)
"""A shell command, so it names two variables: neither token nor user, which the forge tells, may be
in its text."""


@dataclass(frozen=True, slots=True)
class Remote:
    """A remote as the user configured it: name, address, and what git needs to reach it."""

    name: str
    url: str
    """As it may be shown: without a login."""
    raw_url: str
    push_url: str
    """With `insteadOf` and `pushInsteadOf` applied; may hold a login, so never shown."""
    config: tuple[tuple[str, str], ...]
    """Handed to git through its environment."""
    user: str = ""
    token: Secret | None = field(default=None)
    """Offered after the user's own credential helpers, to the host of `push_url` alone."""

    def with_token(self, user: str, token: Secret) -> "Remote":
        """The same remote, with a forge's token as the last credential git may try.

        For the host that is pushed to, since the token is that forge's: what is fetched may come
        from another.
        """
        scheme, _, rest = self.push_url.partition("://")
        if scheme not in {"https", "http"}:
            return self
        host = rest.partition("/")[0].rpartition("@")[2]
        pair = (f"credential.{scheme}://{host}.helper", _HELPER)
        return replace(self, config=(*self.config, pair), user=user, token=token)

    def environment(self) -> dict[str, str]:
        """For a git command that talks to this remote."""
        if self.token is None:
            return as_user(self.config)
        login = {_USER_VARIABLE: self.user, _TOKEN_VARIABLE: self.token.reveal()}
        return {**as_user(self.config), **login}


@dataclass(frozen=True, slots=True)
class Checkout:
    root: Path
    """The top of the work tree (of the bare repository where there is none)."""
    common: Path
    """The repository itself, shared by all its linked worktrees."""
    main_root: Path
    """The main worktree's top: what the project is named after, whichever worktree calls."""
    sparse_objects: bool
    """Shallow, partial or borrowing: its objects alone do not make a whole repository."""

    async def git(self, *args: str, ok: Iterable[int] = (0,)) -> Finished:
        return await git(*args, at=self.root, env=as_user(), ok=ok)

    async def remotes(self, *names: str) -> list[Remote]:
        """The remotes of these names; the first that is missing is the error."""
        config = await self._config()
        return list(await asyncio.gather(*(self._remote(name, config) for name in names)))

    async def remote(self, name: str) -> Remote:
        return (await self.remotes(name))[0]

    async def _remote(self, name: str, config: "_Config") -> Remote:
        urls = [value for key, value in config.pairs if key == f"remote.{name}.url"]
        if not urls:
            example = "https://example.org/project.git"
            raise SetupError(
                f"no remote named '{name}' in {self.root}; add one with:"
                f" git remote add {name} {'UPSTREAM-URL' if name == 'upstream' else example}"
            )
        wanted = {f"remote.{name}.{key}" for key in _REMOTE_KEYS}
        shared = tuple(
            (key, value)
            for key, value in config.pairs
            if key in wanted or key in _SHARED_KEYS or key.startswith(_SHARED_SECTIONS)
        )
        if not config.rewrites:
            push = next(
                (value for key, value in config.pairs if key == f"remote.{name}.pushurl"), ""
            )
            return Remote(name, without_login(urls[0]), urls[0], push or urls[0], shared)
        # Only git itself knows what `insteadOf` makes of an address.
        fetch, push = await asyncio.gather(
            self.git("remote", "get-url", name), self.git("remote", "get-url", "--push", name)
        )
        return Remote(name, without_login(fetch.text), fetch.text, push.text, shared)

    async def _config(self) -> "_Config":
        """The repository's own configuration: git adds the user's and the system's by itself.

        `core.sshCommand` of any scope, since it has to be extended by hand.
        """
        listed = await self.git("config", "--list", "-z", "--show-scope")
        fields = listed.out.decode(errors="surrogateescape").split("\0")
        pairs: list[tuple[str, str]] = []
        rewrites = False
        for scope, row in zip(fields[::2], fields[1::2], strict=False):
            key, _, value = row.partition("\n")
            rewrites |= key.startswith("url.")
            if scope in {"local", "worktree"} or key == "core.sshcommand":
                pairs.append((key, value))
        return _Config(tuple(pairs), rewrites)


@dataclass(frozen=True, slots=True)
class _Config:
    pairs: tuple[tuple[str, str], ...]
    rewrites: bool
    """Whether any scope rewrites addresses (`url.….insteadOf`)."""


_ASKED = ("--is-bare-repository", "--is-shallow-repository", "--path-format=absolute")


async def find_checkout(start: Path) -> Checkout:
    """The checkout that `start` lies in."""
    try:
        bare, shallow, common_dir, *top = await _ask(start, "--git-common-dir", "--show-toplevel")
    except GitFailed:
        # A bare repository has no top, and says so by failing: asked again without.
        try:
            bare, shallow, common_dir, *top = await _ask(start, "--git-common-dir")
        except GitFailed as failed:
            raise SetupError(_why_no_checkout(start, failed.done.err)) from failed
        if bare != "true":
            raise SetupError(
                f"{start} lies inside a .git directory; go to the checkout itself"
            ) from None
    common = Path(common_dir)
    root = Path(top[0]) if top else common
    main = common.parent if common.name == ".git" else root
    return Checkout(root, common, main, _sparse(common, shallow))


async def _ask(start: Path, *what: str) -> list[str]:
    told = await git("rev-parse", *_ASKED, *what, at=start, env=as_user())
    return told.text.split("\n")


def _sparse(common: Path, shallow: str) -> bool:
    borrowing = (common / "objects" / "info" / "alternates").exists()
    partial = any((common / "objects" / "pack").glob("*.promisor"))
    return shallow == "true" or borrowing or partial


def _why_no_checkout(start: Path, stderr: str) -> str:
    if "dubious ownership" in stderr:
        return (
            f"{start} belongs to another user and git will not read it; run as that user, or: "
            f"git config --global --add safe.directory {start}"
        )
    return f"{start} is not in a git repository; go to your fork's checkout and run again"
