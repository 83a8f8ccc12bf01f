"""The real OpenCode in the real sandbox, asking a scripted model through the real model door."""

import json

import pytest

from forklift.testing.scripted_model import Fail, Hang, Run, Say, ScriptedModel, Turn
from tests.support.desk import RESOLVE, Desk, write_opencode_env

pytestmark = pytest.mark.docker

SCRIPT: tuple[Turn, ...] = (Run(RESOLVE), Say("Kept our greeting, took the exclamation mark."))
WIRES = {
    "openai-chat": ("local/scripted", "/v1/chat/completions"),
    "openai-responses": ("openai/scripted", "/v1/responses"),
    "anthropic-messages": ("anthropic/scripted", "/v1/messages"),
}


def with_opencode(desk: Desk, server: ScriptedModel, model: str, image: str) -> Desk:
    write_opencode_env(
        desk.home,
        OPENCODE_API_KEY=server.key,
        OPENCODE_MODEL=model,
        OPENCODE_BASE_URL=server.base_url,
    )
    desk.environ["FORKLIFT_IMAGE"] = image
    return desk


@pytest.mark.parametrize("wire", [w for w in WIRES if w != "openai-responses"])
def test_opencode_resolves_a_conflict(conflicting: Desk, docker_image: str, wire: str) -> None:
    model, path = WIRES[wire]
    with ScriptedModel(SCRIPT) as server:
        done = with_opencode(conflicting, server, model, docker_image).run()
        asked = [request.path for request in server.requests]
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    (branch,) = conflicting.pushed()
    assert "Moin" in conflicting.fork.origin.file(branch, "greet.py")
    assert set(asked) == {path}
    body = (conflicting.last / "pull-request.md").read_text()
    assert "Kept our greeting, took the exclamation mark." in body
    usage = conflicting.state_of(conflicting.last)["usage"]
    assert usage["requests"] == len(asked)
    assert usage["input_tokens"] > 0


def test_the_models_server_sees_the_real_key_and_the_sandbox_never_does(
    conflicting: Desk, docker_image: str
) -> None:
    spy: tuple[Turn, ...] = (Run(f"env; {RESOLVE}"), Say("done"))
    with ScriptedModel(spy, key="sk-real-0123456789abcdef") as server:
        with_opencode(conflicting, server, "local/scripted", docker_image).run()
        sent = [request.headers["authorization"] for request in server.requests]
        heard = json.dumps([request.body for request in server.requests])
    assert set(sent) == {"Bearer sk-real-0123456789abcdef"}
    assert "OPENCODE_API_KEY=forklift-run-" in heard
    assert "sk-real-0123456789abcdef" not in heard


def test_a_model_that_refuses_ends_as_an_agent_failure_that_says_so(
    conflicting: Desk, docker_image: str
) -> None:
    with ScriptedModel([Fail(400, "the model is on strike")]) as server:
        done = with_opencode(conflicting, server, "local/scripted", docker_image).run()
    assert (done.code, done.word) == (5, "agent"), done.out
    assert "on strike" in done.out


def test_a_model_that_never_answers_ends_at_the_limit(conflicting: Desk, docker_image: str) -> None:
    with ScriptedModel([Hang(100)]) as server:
        done = with_opencode(conflicting, server, "local/scripted", docker_image).run(
            "--timeout", "12"
        )
    assert (done.code, done.word) == (2, "timeout"), done.out
    assert conflicting.containers() == []


def test_a_budget_that_is_used_up_stops_the_asking(conflicting: Desk, docker_image: str) -> None:
    endless: tuple[Turn, ...] = tuple(Run("true") for _ in range(50))
    with ScriptedModel(endless) as server:
        desk = with_opencode(conflicting, server, "anthropic/claude-sonnet-4-5", docker_image)
        desk.environ["FORKLIFT_IMAGE"] = docker_image
        done = desk.run("--budget", "0.000001")
        asked = len(server.requests)
    assert done.word in {"agent", "unverified"}, done.out
    assert asked < 10
    assert "model.budget_reached" in (desk.last / "journal.jsonl").read_text()
