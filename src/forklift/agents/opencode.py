"""OpenCode, headless: one prompt in, JSON events out, the model reached through the door alone."""

import json
from collections.abc import Iterable
from typing import Any, cast

from forklift.agents.port import Launch, Order, Said
from forklift.core.model_access import Wire

_PACKAGES = {
    # The SDK packages that OpenCode carries inside itself: nothing is downloaded for them.
    Wire.OPENAI_CHAT: "@ai-sdk/openai-compatible",
    Wire.OPENAI_RESPONSES: "@ai-sdk/openai",
    Wire.ANTHROPIC_MESSAGES: "@ai-sdk/anthropic",
}
_NO_VARIANT = {"", "default", "none"}
_QUIET = {
    # Each of these would reach for a host that the sandbox has no way to.
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_SHARE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
}
_LONGEST_LINE = 1 << 20
_LAST_WORDS = 4000


class OpenCode:
    """The adapter for https://opencode.ai, driven by its `run` command."""

    name = "opencode"

    def launch(self, order: Order) -> Launch:
        return Launch(
            argv=_argv(order),
            environment={**_QUIET, "OPENCODE_API_KEY": order.token},
            files={".config/opencode/opencode.json": json.dumps(_config(order), indent=2) + "\n"},
            # On stdin: a prompt may be longer than an argument can be, and start with a dash.
            stdin=order.prompt,
        )

    def read(self, transcript: Iterable[str]) -> Said:
        words: list[str] = []
        session: str | None = None
        error: str | None = None
        tools = 0
        for line in transcript:
            event = _event(line)
            part = _mapping(event.get("part"))
            session = _text(event.get("sessionID")) or session
            match event.get("type"):
                case "text":
                    words = [*words[-20:], _text(part.get("text"))]
                case "tool_use":
                    tools += 1
                    words = []  # what comes before the last tool is not the summing up
                case "error":
                    error = _reason(event)
                case _:
                    pass
        said = "\n\n".join(word for word in words if word)
        return Said(said[-_LAST_WORDS:], session, tools, error)


def _argv(order: Order) -> tuple[str, ...]:
    model = f"{order.provider}/{order.model}"
    variant = () if order.variant in _NO_VARIANT else ("--variant", order.variant)
    session = ("--session", order.session) if order.session else ()
    fixed = ("opencode", "run", "--format", "json", "--model", model, "--agent", order.agent)
    return (*fixed, *variant, *session)


def _config(order: Order) -> dict[str, object]:
    provider = {
        "npm": _PACKAGES[order.wire],
        "name": "Forklift's model door",
        "options": {"baseURL": order.door, "apiKey": "{env:OPENCODE_API_KEY}"},
        "models": {order.model: {"name": order.model, "tool_call": True}},
    }
    name = f"{order.provider}/{order.model}"
    return {
        "$schema": "https://opencode.ai/config.json",
        "autoupdate": False,
        "share": "disabled",
        "model": name,
        # The title question goes to the same model: the door knows no other.
        "small_model": name,
        "enabled_providers": [order.provider],
        "provider": {order.provider: provider},
        # Nobody is there to be asked, and the sandbox is the boundary.
        "permission": "allow",
    }


def _event(line: str) -> dict[str, Any]:
    if len(line) > _LONGEST_LINE:
        return {}
    try:
        return _mapping(json.loads(line))
    except (ValueError, RecursionError):
        return {}


def _reason(event: dict[str, Any]) -> str:
    """The error's message; where that says nothing, what the model's server answered."""
    error = _mapping(event.get("error"))
    data = _mapping(error.get("data"))
    message = _text(data.get("message")) or _text(error.get("name"))
    if message and message != "Error":
        return message
    answer = _text(data.get("responseBody"))
    status = data.get("statusCode")
    return f"the model's server answered {status}: {answer}" if answer else "no reason given"


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
