"""`opencode.env`: the model's key, and which model is asked in which way."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from forklift.core.model_access import KNOWN_PROVIDERS, ModelChoice, Provider, Wire
from forklift.core.secret import Secret
from forklift.core.suggest import did_you_mean
from forklift.errors import SetupError
from forklift.settings.addresses import fault_in_url
from forklift.settings.env_file import parse_env
from forklift.settings.own_file import read_own_file

REQUIRED = ("OPENCODE_API_KEY", "OPENCODE_MODEL", "OPENCODE_VARIANT", "OPENCODE_AGENT")
KEYS = (*REQUIRED, "OPENCODE_BASE_URL")

_EXAMPLES = {
    "OPENCODE_API_KEY": "OPENCODE_API_KEY=<your key>",
    "OPENCODE_MODEL": "OPENCODE_MODEL=<provider>/<model>",
    "OPENCODE_VARIANT": "OPENCODE_VARIANT=high",
    "OPENCODE_AGENT": "OPENCODE_AGENT=build",
}
_WORD = re.compile(r"[A-Za-z0-9._/][A-Za-z0-9._/-]{0,199}")
_MODEL = re.compile(r"[A-Za-z0-9._/][A-Za-z0-9._/:@+-]{0,199}")
_KEY = re.compile(r"[\x21-\x7e]{1,4096}")


@dataclass(frozen=True, slots=True)
class OpenCodeEnv:
    key: Secret
    model: str
    """`<provider>/<model>`."""
    variant: str
    agent: str
    base_url: str | None = None


def read_opencode_env(path: Path) -> OpenCodeEnv:
    """Raises `SetupError` naming file, line and key, never a value."""
    text = read_own_file(path, private=True)
    if text is None:
        raise SetupError(
            f"no model key: {path} does not exist; create it with mode 0600 and the lines "
            + ", ".join(_EXAMPLES[key] for key in REQUIRED)
        )
    found = parse_env(text, KEYS, source=str(path))
    if missing := [key for key in REQUIRED if key not in found]:
        lines = len(text.splitlines())
        examples = ", ".join(_EXAMPLES[key] for key in missing)
        raise SetupError(f"{path}: missing after line {lines}: {examples}")
    for key, given in found.items():
        if fault := _fault_in(key, given.value):
            raise SetupError(f"{path}, line {given.line}: {key} {fault}")
    values = {key: given.value for key, given in found.items()}
    return OpenCodeEnv(
        key=Secret(values["OPENCODE_API_KEY"]),
        model=values["OPENCODE_MODEL"],
        variant=values["OPENCODE_VARIANT"],
        agent=values["OPENCODE_AGENT"],
        base_url=values.get("OPENCODE_BASE_URL") or None,
    )


def override(
    env: OpenCodeEnv,
    *,
    model: str | None = None,
    variant: str | None = None,
    agent: str | None = None,
) -> OpenCodeEnv:
    """Apply `--model`, `--variant`, `--agent`: letters, digits, `.`, `_`, `-` and `/`, not starting
    with `-`. A model without a provider keeps the file's provider."""
    for option, value in (("--model", model), ("--variant", variant), ("--agent", agent)):
        if value is not None and not _WORD.fullmatch(value):
            raise SetupError(
                f"{option} may hold letters, digits and . _ - / only, and not begin with -; "
                "correct it"
            )
    if model is not None and "/" not in model:
        model = f"{env.model.partition('/')[0]}/{model}"
    return replace(
        env, model=model or env.model, variant=variant or env.variant, agent=agent or env.agent
    )


def model_choice(env: OpenCodeEnv) -> ModelChoice:
    """Which provider is asked, where, and in which wire format."""
    name, _, model = env.model.partition("/")
    if not name or not model:
        raise SetupError(
            "OPENCODE_MODEL names no provider; write it as <provider>/<model>, "
            f"with one of: {', '.join(KNOWN_PROVIDERS)}"
        )
    return ModelChoice(_provider(name, env.base_url), model, env.variant, env.key)


def _provider(name: str, base_url: str | None) -> Provider:
    known = KNOWN_PROVIDERS.get(name)
    if base_url is None:
        if known is None:
            hint = did_you_mean(name, KNOWN_PROVIDERS) or f" ({', '.join(KNOWN_PROVIDERS)})"
            raise SetupError(
                f"the model provider '{name}' is unknown: use a known one{hint}; "
                "or give its address as OPENCODE_BASE_URL"
            )
        return known
    if fault := fault_in_url(base_url):
        raise SetupError(f"OPENCODE_BASE_URL {fault}")
    wire = known.wire if known else Wire.OPENAI_CHAT
    if wire is Wire.OPENAI_RESPONSES and urlsplit(base_url).hostname != "api.openai.com":
        wire = Wire.OPENAI_CHAT  # compatible servers speak chat; few speak responses
    return Provider(name, wire, base_url.rstrip("/"))


def _fault_in(key: str, value: str) -> str | None:
    if key == "OPENCODE_BASE_URL":
        return fault_in_url(value) if value else None
    if not value:
        return f"is empty; write {_EXAMPLES[key]}"
    if key == "OPENCODE_API_KEY":
        return None if _KEY.fullmatch(value) else "holds a character that no key has; paste it anew"
    if key == "OPENCODE_MODEL":
        if not _MODEL.fullmatch(value):
            return "may hold letters, digits and . _ - / : @ + only, and not begin with -"
        return None if re.match(r"[^/]+/.", value) else f"names no provider; {_EXAMPLES[key]}"
    return (
        None
        if _WORD.fullmatch(value)
        else "may hold letters, digits and . _ - / only, and not begin with -"
    )
