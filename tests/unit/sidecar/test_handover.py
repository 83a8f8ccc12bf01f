from pathlib import Path

import pytest

from forklift.core.model_access import Budget, ModelChoice, Provider, Usage, Wire
from forklift.core.secret import Secret
from forklift.sidecar import handover
from forklift.sidecar.handover import Handover
from forklift.sidecar.json_value import Object
from forklift.sidecar.launch import Doors
from forklift.sidecar.policy import EgressMode, EgressPolicy, ModelPolicy
from forklift.testing.doors import Journal


def test_what_the_host_decides_about_egress_arrives_whole() -> None:
    policy = EgressPolicy(
        EgressMode.ALLOWLIST, ("wheels.example", "*.x.org"), (443,), ("10.0.0.1:1",)
    )
    told = Handover(Path("/run/x/egress.sock"), 1000, 1001, policy)
    assert handover.read_egress(handover.write(told)) == (told, policy)


def test_what_the_host_decides_about_the_model_arrives_whole() -> None:
    choice = ModelChoice(
        Provider("p", Wire.ANTHROPIC_MESSAGES, "https://h/v1"), "m", "high", Secret("key")
    )
    policy = ModelPolicy(
        choice, Secret("token"), Budget(1.5, 7, 9), ("mcp",), (Secret("a"), Secret("b")), "/ca"
    )
    line = handover.write(Handover(Path("/s"), 1, 2, policy))
    _, read = handover.read_model(line)
    assert read.choice.provider == choice.provider
    assert (read.choice.model, read.choice.variant) == ("m", "high")
    assert read.choice.key.reveal() == "key"
    assert read.token.reveal() == "token"
    assert read.budget == policy.budget
    assert read.granted_tools == ("mcp",)
    assert [secret.reveal() for secret in read.scrub] == ["a", "b"]
    assert read.extra_ca == "/ca"
    assert line.count(b"\n") == 1


@pytest.mark.parametrize(
    "message",
    [
        {"action": "model.request", "facts": {}},
        {"action": "git.push", "facts": {}},
        {"action": 5, "facts": {}},
        {"action": "egress.tunnel"},
        {"action": "egress.tunnel", "facts": {"nested": {"a": 1}}},
        {},
    ],
)
async def test_a_broken_sidecar_can_neither_sign_with_anothers_name_nor_lie_in_form(
    message: Object,
) -> None:
    journal = Journal()
    with pytest.raises((ValueError, KeyError, TypeError)):
        Doors(journal).hear("egress", message)
    assert journal.events == []


async def test_usage_is_what_the_model_door_said_last() -> None:
    doors = Doors(lambda _: None)
    for requests in (1, 2):
        told: Object = {"requests": requests, "input_tokens": 3, "usd": 0.5}
        doors.hear("model", {"usage": told})
    assert await doors.usage() == Usage(requests=2, input_tokens=3, usd=0.5)
