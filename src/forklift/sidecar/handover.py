"""What the host hands a sidecar as it starts, as one line of JSON on its stdin.

Never in arguments or environment: those can be read in /proc, and a key is in here.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from forklift.core.model_access import Budget, ModelChoice, Provider, Usage, Wire
from forklift.core.secret import Secret
from forklift.sidecar.json_value import Json, Object, as_count, as_object, as_text, load, texts
from forklift.sidecar.policy import EgressMode, EgressPolicy, ModelPolicy


@dataclass(frozen=True, slots=True)
class Handover:
    """Everything a sidecar is told."""

    socket: Path
    uid: int
    gid: int
    """Whom the socket belongs to, when a root process makes it."""
    policy: EgressPolicy | ModelPolicy


def write(handover: Handover) -> bytes:
    policy = handover.policy
    told = {
        "socket": str(handover.socket),
        "uid": handover.uid,
        "gid": handover.gid,
        "policy": _egress(policy) if isinstance(policy, EgressPolicy) else _model(policy),
    }
    return json.dumps(told).encode() + b"\n"


def read_egress(line: bytes) -> tuple[Handover, EgressPolicy]:
    told = as_object(load(line))
    policy = as_object(told["policy"])
    egress = EgressPolicy(
        mode=EgressMode(policy["mode"]),
        hosts=texts(policy["hosts"]),
        ports=_ports(policy["ports"]),
        allow_private=texts(policy["allow_private"]),
    )
    return _handover(told, egress), egress


def read_model(line: bytes) -> tuple[Handover, ModelPolicy]:
    told = as_object(load(line))
    policy = as_object(told["policy"])
    budget = as_object(policy["budget"])
    usd = budget["usd"]
    model = ModelPolicy(
        choice=_choice(as_object(policy["choice"])),
        token=Secret(as_text(policy["token"])),
        budget=Budget(
            usd=float(usd) if isinstance(usd, int | float) else 0.0,
            tokens=as_count(budget["tokens"]),
            requests=as_count(budget["requests"]),
        ),
        granted_tools=texts(policy["granted_tools"]),
        scrub=tuple(Secret(text) for text in texts(policy["scrub"])),
        extra_ca=as_text(policy["extra_ca"]) or None,
    )
    return _handover(told, model), model


def usage_facts(usage: Usage) -> Mapping[str, int | float | None]:
    return {
        "requests": usage.requests,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_tokens,
        "usd": usage.usd,
    }


def read_usage(told: Object) -> Usage:
    usd = told.get("usd")
    return Usage(
        requests=as_count(told.get("requests")),
        input_tokens=as_count(told.get("input_tokens")),
        output_tokens=as_count(told.get("output_tokens")),
        cached_tokens=as_count(told.get("cached_tokens")),
        usd=float(usd) if isinstance(usd, int | float) else None,
    )


def _egress(policy: EgressPolicy) -> Mapping[str, object]:
    return {
        "mode": policy.mode.value,
        "hosts": policy.hosts,
        "ports": policy.ports,
        "allow_private": policy.allow_private,
    }


def _model(policy: ModelPolicy) -> Mapping[str, object]:
    choice, budget = policy.choice, policy.budget
    return {
        "choice": {
            "name": choice.provider.name,
            "wire": choice.provider.wire.value,
            "base_url": choice.provider.base_url,
            "model": choice.model,
            "variant": choice.variant,
            "key": choice.key.reveal(),
        },
        "token": policy.token.reveal(),
        "budget": {"usd": budget.usd, "tokens": budget.tokens, "requests": budget.requests},
        "granted_tools": policy.granted_tools,
        "scrub": [secret.reveal() for secret in policy.scrub],
        "extra_ca": policy.extra_ca,
    }


def _handover(told: Object, policy: EgressPolicy | ModelPolicy) -> Handover:
    return Handover(
        Path(as_text(told["socket"])), as_count(told["uid"]), as_count(told["gid"]), policy
    )


def _choice(told: Object) -> ModelChoice:
    provider = Provider(
        as_text(told["name"]), Wire(as_text(told["wire"])), as_text(told["base_url"])
    )
    return ModelChoice(
        provider, as_text(told["model"]), as_text(told["variant"]), Secret(as_text(told["key"]))
    )


def _ports(value: Json) -> tuple[int, ...]:
    return tuple(as_count(port) for port in value) if isinstance(value, list) else ()
