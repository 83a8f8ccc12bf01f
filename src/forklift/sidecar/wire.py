"""A vendor's wire format at the door: its paths, its way to show a key, its shape of an error."""

import json
from collections.abc import Callable
from dataclasses import dataclass

from forklift.core.model_access import ModelChoice, Wire
from forklift.sidecar import clean_chat, clean_messages, clean_responses
from forklift.sidecar.clean import Cleaning
from forklift.sidecar.http1 import Head, Refused
from forklift.sidecar.json_value import Object, as_object, dump, load
from forklift.sidecar.policy import ModelPolicy

BASE = "/v1"
MODELS = "/v1/models"
COUNT_TOKENS = "/messages/count_tokens"
MAX_BODY = 32 << 20
_MAX_VALUES = 2_000_000
"""Parsed JSON can be fifty times its text; this many values are within a process's means."""

_CLEAN: dict[Wire, dict[str, Callable[[Object, Cleaning], Object]]] = {
    Wire.OPENAI_CHAT: {"/chat/completions": clean_chat.clean},
    Wire.OPENAI_RESPONSES: {"/responses": clean_responses.clean},
    Wire.ANTHROPIC_MESSAGES: {
        "/messages": clean_messages.clean,
        COUNT_TOKENS: clean_messages.clean,
    },
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it goes on: written anew from what was understood."""

    path: str
    body: bytes
    streamed: bool
    withheld: tuple[str, ...]


def route(wire: Wire, method: str, target: str) -> str:
    """The path below the provider's base address; whatever does not ask the model is refused."""
    path = target.partition("?")[0]  # the query never goes on: it selects features
    below = path.removeprefix(BASE)
    if not path.startswith(BASE) or below not in _CLEAN[wire]:
        raise Refused(404, f"{method} {path[:100]} is no request to the model")
    if method != "POST":
        raise Refused(405, f"{method} {path[:100]} is no request to the model")
    return below


def prepare(policy: ModelPolicy, path: str, body: bytes) -> Asked:
    """Raises `Refused` for a body that asks for something else than this model's words."""
    if body.count(b",") + body.count(b"[") + body.count(b"{") > _MAX_VALUES:
        raise Refused(413, "a request of too many parts")
    try:
        given = load(body)
    except ValueError:
        raise Refused(400, "the body is not JSON") from None
    if not isinstance(given, dict):
        raise Refused(400, "the body is not a JSON object")
    choice = policy.choice
    if given.get("model") != choice.model:
        raise Refused(403, f"this run may ask {choice.model} and no other model")
    cleaning = Cleaning(frozenset(policy.granted_tools))
    cleaned = _CLEAN[choice.provider.wire][path](given, cleaning)
    try:
        written = dump(cleaned)
    except ValueError:
        raise Refused(400, "the body has a number that JSON cannot say") from None
    return Asked(
        path, written, cleaned.get("stream") is True, tuple(dict.fromkeys(cleaning.withheld))
    )


def request_fields(policy: ModelPolicy, head: Head, *, streamed: bool) -> list[tuple[str, str]]:
    """The headers that go on: ours, the key, and the few of the guest's that mean the model."""
    choice = policy.choice
    fields = [
        ("content-type", "application/json"),
        ("accept", "text/event-stream" if streamed else "application/json"),
        ("user-agent", "forklift"),
    ]
    if choice.provider.wire is not Wire.ANTHROPIC_MESSAGES:
        return [*fields, ("authorization", f"Bearer {choice.key.reveal()}")]
    fields += [
        ("x-api-key", choice.key.reveal()),
        ("anthropic-version", head.one("anthropic-version") or "2023-06-01"),
    ]
    named = ",".join(head.all("anthropic-beta"))
    if allowed := named if policy.granted_tools else clean_messages.betas(named):
        fields.append(("anthropic-beta", allowed))
    return fields


def error_body(wire: Wire, status: int, message: str) -> bytes:
    """An error in the vendor's shape, so that the agent shows its text."""
    text = f"forklift: {message}"
    if wire is Wire.ANTHROPIC_MESSAGES:
        kind = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
        shown: object = {
            "type": "error",
            "error": {"type": kind.get(status, "invalid_request_error"), "message": text},
        }
    else:
        shown = {
            "error": {
                "message": text,
                "type": "invalid_request_error",
                "param": None,
                "code": f"forklift_{status}",
            }
        }
    return json.dumps(shown).encode()


def models_body(choice: ModelChoice) -> bytes:
    """The list of models, answered here: there is one."""
    model, since = choice.model, "2025-01-01T00:00:00Z"
    if choice.provider.wire is Wire.ANTHROPIC_MESSAGES:
        entry = {"type": "model", "id": model, "display_name": model, "created_at": since}
        shown = {"data": [entry], "has_more": False, "first_id": model, "last_id": model}
        return json.dumps(shown).encode()
    entry = {"id": model, "object": "model", "created": 0, "owned_by": choice.provider.name}
    return json.dumps({"object": "list", "data": [entry]}).encode()


def vendor_message(body: bytes) -> str:
    """What an upstream's error says, for the journal's reason."""
    try:
        told = as_object(load(body))
    except ValueError:
        return ""
    message = as_object(told.get("error")).get("message")
    return message if isinstance(message, str) else ""
