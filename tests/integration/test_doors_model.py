import asyncio
import json
import subprocess
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from forklift.core.model_access import Budget, Wire
from forklift.core.secret import Secret
from forklift.sidecar.policy import ModelPolicy
from forklift.testing.doors import TOKEN, OpenDoor, model_door, model_policy, origin
from forklift.testing.scripted_model import Fail, Flood, Hang, Run, Say, ScriptedModel

PATHS = {
    Wire.OPENAI_CHAT: "/v1/chat/completions",
    Wire.OPENAI_RESPONSES: "/v1/responses",
    Wire.ANTHROPIC_MESSAGES: "/v1/messages",
}


def guest(door: OpenDoor, token: str = TOKEN) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        transport=httpx2.AsyncHTTPTransport(uds=str(door.path)),
        base_url="http://127.0.0.1:4000",
        headers={"Authorization": f"Bearer {token}"},
        timeout=20,
    )


def question(wire: Wire, *, stream: bool = False) -> dict[str, object]:
    asked = "hello"
    if wire is Wire.OPENAI_RESPONSES:
        body: dict[str, object] = {"model": "m-1", "input": asked}
    else:
        body = {"model": "m-1", "messages": [{"role": "user", "content": asked}]}
    return {**body, "stream": stream}


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for localhost that nobody has signed but itself, and its key."""
    directory = tmp_path_factory.mktemp("tls")
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-keyout", str(key), "-out", str(certificate), "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


def scripted(*turns: Say | Run | Fail | Hang | Flood) -> ScriptedModel:
    return ScriptedModel(turns, title=None)


def policy_for(
    server: ScriptedModel, wire: Wire = Wire.OPENAI_CHAT, budget: Budget | None = None
) -> ModelPolicy:
    return model_policy(server.base_url, wire, key=server.key, budget=budget)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("wire", list(Wire))
async def test_a_question_is_answered_metered_and_recorded(
    tmp_path: Path, wire: Wire, stream: bool
) -> None:
    with scripted(Say("hello from the script")) as server:
        async with model_door(tmp_path, policy_for(server, wire)) as door, guest(door) as client:
            answer = await client.post(PATHS[wire], json=question(wire, stream=stream))
            facts = (await door.journal.until("model.request")).facts
    assert answer.status_code == 200
    assert "hello from " in answer.text
    assert (facts["input_tokens"], facts["output_tokens"]) == (1000, 50)
    assert facts["estimated"] is False
    assert facts["status"] == 200
    assert facts["model"] == "m-1"
    assert "hello" not in json.dumps(dict(facts)), "no prompt text in the journal"


@pytest.mark.parametrize("wire", list(Wire))
async def test_the_key_is_shown_in_the_vendors_way_and_the_token_goes_nowhere(
    tmp_path: Path, wire: Wire
) -> None:
    with scripted(Say("hi")) as server:
        async with model_door(tmp_path, policy_for(server, wire)) as door, guest(door) as client:
            await client.post(
                PATHS[wire] + "?beta=true",
                json=question(wire),
                headers={"Cookie": "a=b", "X-Custom": "1", "OpenAI-Organization": "evil"},
            )
        request = server.requests[0]
    shown = "x-api-key" if wire is Wire.ANTHROPIC_MESSAGES else "authorization"
    assert server.key in request.headers[shown]
    assert TOKEN not in json.dumps([request.path, dict(request.headers), request.body])
    allowed = {"accept", "accept-encoding", "connection", "content-length", "content-type"}
    allowed |= {"host", "user-agent", shown}
    allowed |= {"anthropic-version"} if wire is Wire.ANTHROPIC_MESSAGES else set()
    assert set(request.headers) == allowed
    assert request.path == PATHS[wire]


async def test_anthropics_way_to_show_a_token_opens_the_door_too(tmp_path: Path) -> None:
    wire = Wire.ANTHROPIC_MESSAGES
    with scripted(Say("hi")) as server:
        async with model_door(tmp_path, policy_for(server, wire)) as door, guest(door) as client:
            del client.headers["Authorization"]
            client.headers["x-api-key"] = TOKEN
            client.headers["anthropic-beta"] = (
                "interleaved-thinking-2025-05-14,files-api-2025-04-14"
            )
            assert (await client.post(PATHS[wire], json=question(wire))).status_code == 200
    assert server.requests[0].headers["anthropic-beta"] == "interleaved-thinking-2025-05-14"


async def test_an_answer_streams_while_it_is_written(tmp_path: Path) -> None:
    first, more = b'data: {"choices":[{"delta":{"content":"first"}}]}\n\n', asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + first)
        await writer.drain()
        await more.wait()
        writer.write(b"data: [DONE]\n\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    policy = model_policy(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
    async with server, model_door(tmp_path, policy) as door, guest(door) as client:
        body = question(Wire.OPENAI_CHAT, stream=True)
        async with client.stream("POST", PATHS[Wire.OPENAI_CHAT], json=body) as answer:
            pieces = answer.aiter_raw()
            assert await anext(pieces) == first  # before the server has said the rest
            more.set()
            assert await anext(pieces) == b"data: [DONE]\n\n"


async def test_the_only_model_is_listed_without_asking_anybody(tmp_path: Path) -> None:
    async with (
        model_door(tmp_path, model_policy("http://127.0.0.1:9/v1")) as door,
        guest(door) as client,
    ):
        answer = await client.get("/v1/models")
        assert [entry["id"] for entry in answer.json()["data"]] == ["m-1"]
    assert door.journal.events == []


async def test_an_upstreams_error_is_passed_with_its_status_and_advice(tmp_path: Path) -> None:
    error = b'{"error": {"message": "slow down, host-key-0123456789"}}'
    raw = (
        b"HTTP/1.1 429 Too Many\r\nRetry-After: 7\r\nSet-Cookie: a=b\r\nX-Internal: 1\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(error), error)
    )
    async with origin(raw) as server:
        policy = model_policy(f"http://{server.pair}/v1")
        async with model_door(tmp_path, policy) as door, guest(door) as client:
            answer = await client.post(PATHS[Wire.OPENAI_CHAT], json=question(Wire.OPENAI_CHAT))
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "7"
    assert answer.json()["error"]["message"] == "slow down, [redacted]"
    assert not {"set-cookie", "x-internal"} & set(answer.headers)
    assert door.journal.of("model.request")[0].facts["input_tokens"] == 0


async def test_a_server_that_cannot_be_reached_is_an_error_in_the_vendors_shape(
    tmp_path: Path,
) -> None:
    policy = model_policy("http://127.0.0.1:9/v1", Wire.ANTHROPIC_MESSAGES)
    async with model_door(tmp_path, policy) as door, guest(door) as client:
        wire = Wire.ANTHROPIC_MESSAGES
        answer = await client.post(PATHS[wire], json=question(wire))
    assert answer.status_code == 502
    assert answer.json()["type"] == "error"
    assert "cannot be reached" in answer.json()["error"]["message"]


@pytest.mark.parametrize("wire", list(Wire))
@pytest.mark.parametrize(
    "budget", [Budget(requests=2), Budget(tokens=2000)], ids=["requests", "tokens"]
)
async def test_the_request_after_the_budgets_end_is_refused_in_the_vendors_shape(
    tmp_path: Path, wire: Wire, budget: Budget
) -> None:
    with scripted(Say("one")) as server:
        policy = policy_for(server, wire, budget)
        async with model_door(tmp_path, policy) as door, guest(door) as client:
            answers = [await client.post(PATHS[wire], json=question(wire)) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 402, 402]
    assert "budget is used up" in answers[2].json()["error"]["message"]
    assert len(server.requests) == 2
    assert len(door.journal.of("model.budget_reached")) == 1


async def test_a_known_models_budget_in_money_ends_it_too(tmp_path: Path) -> None:
    with scripted(Say("one")) as server:
        policy = model_policy(
            server.base_url, key=server.key, model_name="gpt-5", budget=Budget(usd=0.001)
        )
        async with model_door(tmp_path, policy) as door, guest(door) as client:
            body = {**question(Wire.OPENAI_CHAT), "model": "gpt-5"}
            answers = [await client.post(PATHS[Wire.OPENAI_CHAT], json=body) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 402]
    usd = door.journal.of("model.request")[0].facts["usd"]
    assert isinstance(usd, float)
    assert usd > 0.001


async def test_a_burst_cannot_spend_the_budget_many_times_over(tmp_path: Path) -> None:
    with scripted(Say("one")) as server:
        policy = policy_for(server, budget=Budget(tokens=3000))
        async with model_door(tmp_path, policy) as door, guest(door) as client:
            path, body = PATHS[Wire.OPENAI_CHAT], question(Wire.OPENAI_CHAT)
            await asyncio.gather(*(client.post(path, json=body) for _ in range(40)))
    assert len(server.requests) <= 4
    assert len(door.journal.of("model.budget_reached")) == 1


async def test_a_guest_that_hangs_up_early_pays_for_what_was_asked(tmp_path: Path) -> None:
    with scripted(Hang(60), Say("too late")) as server:
        async with model_door(tmp_path, policy_for(server)) as door, guest(door) as client:
            asking = asyncio.create_task(
                client.post(PATHS[Wire.OPENAI_CHAT], json=question(Wire.OPENAI_CHAT))
            )
            async with asyncio.timeout(20):
                while not server.requests:  # noqa: ASYNC110  # the server runs in a thread
                    await asyncio.sleep(0.01)
            asking.cancel()
            facts = (await door.journal.until("model.request")).facts
    assert facts["ended"] == "broken off"
    assert facts["estimated"] is True
    assert facts["output_tokens"] == 4000


async def test_a_long_answer_that_nobody_reads_to_its_end_is_charged_by_estimate(
    tmp_path: Path,
) -> None:
    with scripted(Flood(4 << 20)) as server:
        async with model_door(tmp_path, policy_for(server)) as door, guest(door) as client:
            body = question(Wire.OPENAI_CHAT, stream=True)
            async with client.stream("POST", PATHS[Wire.OPENAI_CHAT], json=body) as answer:
                await anext(answer.aiter_raw(1 << 20))
            facts = (await door.journal.until("model.request")).facts
    assert facts["estimated"] is True
    assert isinstance(facts["output_tokens"], int)
    assert facts["output_tokens"] > 1000


async def test_tools_of_the_provider_are_withheld_and_told_once(tmp_path: Path) -> None:
    wire = Wire.OPENAI_RESPONSES
    with scripted(Say("hi")) as server:
        async with model_door(tmp_path, policy_for(server, wire)) as door, guest(door) as client:
            for _ in range(3):
                body = {**question(wire), "tools": [{"type": "web_search"}]}
                assert (await client.post(PATHS[wire], json=body)).status_code == 200
    assert all("tools" not in request.body for request in server.requests)
    assert [event.facts for event in door.journal.of("model.withheld")] == [
        {"what": ["tool web_search"]}
    ]


async def test_a_connection_carries_many_questions(tmp_path: Path) -> None:
    with scripted(Say("hi")) as server:
        async with model_door(tmp_path, policy_for(server)) as door:
            reader, writer = await door.connect()
            body = json.dumps(question(Wire.OPENAI_CHAT)).encode()
            head = (
                f"POST {PATHS[Wire.OPENAI_CHAT]} HTTP/1.1\r\nHost: x\r\n"
                f"Authorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            for _ in range(3):
                writer.write(head.encode() + body)
                assert (await reader.readuntil(b"0\r\n\r\n")).startswith(b"HTTP/1.1 200")
            writer.close()


async def test_a_servers_own_certificate_is_trusted_only_when_the_operator_says_so(
    tmp_path: Path, tls: tuple[Path, Path]
) -> None:
    certificate, key = tls
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    async with origin(answer, certificate=(certificate, key)) as server:
        policy = model_policy(f"https://localhost:{server.port}/v1")
        path, body = PATHS[Wire.OPENAI_CHAT], question(Wire.OPENAI_CHAT)
        async with model_door(tmp_path, policy) as door, guest(door) as client:
            refused = await client.post(path, json=body)
        (tmp_path / "model.sock").unlink()
        trusting = replace(policy, extra_ca=str(certificate))
        async with model_door(tmp_path, trusting) as door, guest(door) as client:
            accepted = await client.post(path, json=body)
    assert refused.status_code == 502
    assert "certificate is not trusted" in refused.json()["error"]["message"]
    assert accepted.status_code == 200


async def test_further_secrets_are_taken_out_of_answers(tmp_path: Path) -> None:
    with scripted(Say("the token is forge-token-123456 indeed")) as server:
        policy = replace(policy_for(server), scrub=(Secret("forge-token-123456"),))
        async with model_door(tmp_path, policy) as door, guest(door) as client:
            answer = await client.post(PATHS[Wire.OPENAI_CHAT], json=question(Wire.OPENAI_CHAT))
    assert answer.json()["choices"][0]["message"]["content"] == "the token is [redacted] indeed"
