"""`forklift doctor`: look at everything a sync needs, and say what to repair."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from forklift.bootstrap import make_kit
from forklift.cli.exit_codes import exit_code, worst
from forklift.cli.options import Parser
from forklift.cli.render import print_json
from forklift.core.text import harmless
from forklift.errors import ForkliftError, SetupError
from forklift.git.command import require_version
from forklift.settings import Settings, load, model_choice, read_opencode_env
from forklift.stores.disk import free_bytes
from forklift.usecases.kit import Kit
from forklift.usecases.survey import Ground, find_ground

_LEAST_FREE = 2 << 30


@dataclass(frozen=True, slots=True)
class _Finding:
    what: str
    fine: bool
    told: str
    code: int = 0


def run(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    settings = load(os.environ)
    kit = make_kit(settings, os.environ, image=options.image)
    findings = asyncio.run(_look(settings, kit, options.path.absolute()))
    if options.json:
        rows = [{"what": f.what, "fine": f.fine, "told": f.told} for f in findings]
        print_json(rows)
    else:
        for finding in findings:
            print(f"{'ok  ' if finding.fine else 'FAIL'}  {finding.what:<10} {finding.told}")
    return worst([finding.code for finding in findings])


def parser() -> Parser:
    made = Parser(prog="forklift doctor", description="Check this machine and this fork.")
    made.add_argument("path", nargs="?", type=Path, default=Path(), help="a fork's checkout")
    made.add_argument("--image", help="the image that will be used")
    made.common()
    return made


async def _look(settings: Settings, kit: Kit, path: Path) -> list[_Finding]:
    findings = [
        await _try("git", require_version),
        await _try("sandbox", kit.sandboxes.probe),
        await _try("image", lambda: _image(kit)),
        await _try("model", lambda: _model(settings)),
        await _try("state", lambda: _state(settings)),
        await _try("settings", lambda: _warnings(settings)),
    ]
    ground: list[Ground] = []
    findings.append(await _try("fork", lambda: _fork(kit, path, ground)))
    if ground:
        findings.append(await _try("remotes", lambda: _remotes(ground[0])))
        findings.append(await _try("forge", lambda: _forge(kit, ground[0])))
    return findings


async def _try(what: str, look: Callable[[], Awaitable[str]]) -> _Finding:
    try:
        return _Finding(what, True, harmless(await look()))
    except ForkliftError as error:
        return _Finding(what, False, harmless(error.message), exit_code(error))


async def _image(kit: Kit) -> str:
    image = await kit.sandboxes.find_image(kit.image)
    if image.harness is None:
        raise SetupError(
            f"{image.name} does not say that it carries the harness (label forklift.harness);"
            " build on forklift/kitchen-sink:latest"
        )
    return f"{image.name} ({image.digest[:19]}, harness {image.harness})"


async def _model(settings: Settings) -> str:
    env = read_opencode_env(settings.opencode_env)
    choice = model_choice(env)
    return f"{env.model} at {choice.provider.base_url} ({choice.provider.wire.value})"


async def _state(settings: Settings) -> str:
    root = settings.state_root
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise SetupError(f"{root} cannot be made: {error.strerror}; set XDG_STATE_HOME") from error
    if not os.access(root, os.W_OK):
        raise SetupError(f"{root} is not writable; make it yours, or set XDG_STATE_HOME")
    free = free_bytes(root)
    if free < _LEAST_FREE:
        raise SetupError(f"{root} has {free >> 20} MiB free; make room (forklift clean)")
    return f"{root} ({free >> 30} GiB free)"


async def _warnings(settings: Settings) -> str:
    if settings.warnings:
        raise SetupError("; ".join(settings.warnings))
    return f"{settings.config_root}"


async def _fork(kit: Kit, path: Path, ground: list[Ground]) -> str:
    found = await find_ground(path, kit.state_root)
    ground.append(found)
    return f"{found.checkout.root}: origin {found.origin.url}, upstream {found.upstream.url}"


async def _remotes(ground: Ground) -> str:
    await ground.depot.ensure(ground.checkout)
    ours = await ground.depot.list_remote(ground.origin)
    theirs = await ground.depot.list_remote(ground.upstream)
    return f"both answer: origin {ours.default_branch}, upstream {theirs.default_branch}"


async def _forge(kit: Kit, ground: Ground) -> str:
    forge = await kit.open_forge(ground.origin)
    if forge is None:
        return "none is configured for origin: a pushed branch will be the result"
    await forge.pull_requests.aclose()
    return f"{forge.kind}, as {forge.user}"
