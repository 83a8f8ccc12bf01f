"""The composition root: settings and plugins become the kit that use cases are given."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from pathlib import Path

from forklift import __version__, plugins
from forklift.core.secret import Redactor, Secret
from forklift.errors import ForgeError, SetupError
from forklift.forges.gh_token import gh_token
from forklift.forges.locate import ForgeEntry, locate
from forklift.git.checkout import Remote
from forklift.sandboxes.owner import current_owner, is_dead
from forklift.settings import ForgeSettings, Settings, read_extra_ca, read_forges
from forklift.sidecar.policy import EgressPolicy
from forklift.usecases.kit import Guest, Kit, OpenForge

_ROOTS_GUEST = Guest(1000, 1000)
"""As whom the guest runs when root calls: the image's own user."""

_GIT_USERS = {"github": "x-access-token", "gitlab": "oauth2"}
_API = {"gitea": "/api/v1", "github": "/api/v3", "gitlab": "/api/v4"}
_TOKENS = {
    "gitea": ("GITEA_TOKEN",),
    "github": ("GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"),
    "gitlab": ("GITLAB_TOKEN",),
}


def make_kit(
    settings: Settings,
    environ: Mapping[str, str],
    *,
    image: str | None = None,
    extra_ca: Path | None = None,
    secrets: tuple[Secret, ...] = (),
    egress: EgressPolicy | None = None,
    no_forge: bool = False,
) -> Kit:
    """Everything wired. Nothing is started and nothing is asked yet."""
    redact = Redactor(secrets)
    ca = extra_ca or settings.extra_ca
    if ca is not None:
        read_extra_ca(ca)
    return Kit(
        state_root=settings.state_root,
        runtime_root=settings.runtime_root,
        sandboxes=plugins.load("forklift.sandboxes", "docker")(settings.docker, environ),
        agent=plugins.load("forklift.agents", "opencode")(),
        image=image or settings.image,
        owner=current_owner(),
        is_dead=is_dead,
        guest=_guest(),
        clock=lambda: datetime.now().astimezone(),
        open_forge=_never if no_forge else _forge_opener(settings, environ, redact, ca),
        redact=redact,
        egress=egress or EgressPolicy(),
        extra_ca=ca,
        versions=(("forklift", __version__),),
    )


def _guest() -> Guest:
    return _ROOTS_GUEST if os.geteuid() == 0 else Guest(os.geteuid(), os.getegid())


async def _never(_: Remote) -> None:
    return None


def _forge_opener(
    settings: Settings, environ: Mapping[str, str], redact: Redactor, extra_ca: Path | None
) -> Callable[[Remote], Awaitable[OpenForge | None]]:
    async def open_forge(origin: Remote) -> OpenForge | None:
        found = await asyncio.to_thread(
            locate, origin.push_url, environ, forge_entries(settings, environ), gh_token
        )
        if found is None:
            return None
        kind, address = found
        redact.learn(address.token)
        adapter = plugins.load("forklift.forges", kind)(address, extra_ca=extra_ca)
        try:
            user = await adapter.probe()
        except ForgeError as error:
            # Nothing is verified yet that could be published: the person sets something up.
            await adapter.aclose()
            raise SetupError(error.message, detail=error.detail) from error
        except BaseException:
            await adapter.aclose()
            raise
        return OpenForge(kind, adapter, _GIT_USERS.get(kind, user), address.token)

    return open_forge


def forge_entries(settings: Settings, environ: Mapping[str, str]) -> tuple[ForgeEntry, ...]:
    """forges.toml; a forge named there without a token takes it from the environment."""
    forges = read_forges(settings.config_root / "forges.toml")
    return tuple(_entry(forge, environ) for forge in forges)


def _entry(forge: ForgeSettings, environ: Mapping[str, str]) -> ForgeEntry:
    token = forge.token
    if token is None:
        names = _TOKENS.get(forge.kind, ())
        token = Secret(next((environ[name] for name in names if environ.get(name)), ""))
    suffix = _API.get(forge.kind, "")
    api = forge.url if forge.url is None or forge.url.endswith(suffix) else forge.url + suffix
    return ForgeEntry(forge.host, forge.kind, token, api)
