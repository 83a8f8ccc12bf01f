"""A hostile guest, and a hostile server, at the model door: after the key, or around the budget."""

import asyncio
import base64
import gzip
import json
import os
import urllib.parse
from datetime import timedelta
from pathlib import Path

import pytest

from forklift.core.model_access import Wire
from forklift.sidecar.model import Limits
from forklift.sidecar.policy import ModelPolicy
from forklift.testing.doors import TOKEN, OpenDoor, model_door, model_policy, origin
from forklift.testing.scripted_model import Say, ScriptedModel

KEY = "host-key-0123456789"
BODY = json.dumps({"model": "m-1", "messages": [{"role": "user", "content": "hi"}]}).encode()
STREAMED = json.dumps({"model": "m-1", "messages": [], "stream": True}).encode()


def request(
    body: bytes = BODY,
    line: str = "POST /v1/chat/completions HTTP/1.1",
    token: str = TOKEN,
    more: str = "Connection: close\r\n",
) -> bytes:
    head = f"{line}\r\nHost: 127.0.0.1:4000\r\nAuthorization: Bearer {token}\r\n{more}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def ask(tmp_path: Path, policy: ModelPolicy, raw: bytes) -> tuple[bytes, OpenDoor]:
    async with model_door(tmp_path, policy) as door:
        return await door.say(raw), door


def policy_for(server: ScriptedModel) -> ModelPolicy:
    return model_policy(server.base_url, key=server.key)


@pytest.mark.parametrize(
    "shown",
    [
        "",
        "Authorization: Bearer \r\n",
        "Authorization: Bearer wrong\r\n",
        f"Authorization: Bearer {TOKEN}x\r\n",
        f"Authorization: Bearer {TOKEN[:-1]}\r\n",
        f"Authorization: Bearer {TOKEN.upper()}\r\n",
        f"Authorization: {TOKEN}\r\n",
        f"Authorization: Bearer {KEY}\r\n",
        f"Authorization: Bearer {TOKEN}\r\nAuthorization: Bearer {TOKEN}\r\n",
        "Authorization: Bearer \xff\xfe\r\n",
        f"X-Token: {TOKEN}\r\n",
        f"Cookie: token={TOKEN}\r\n",
    ],
)
async def test_without_the_runs_token_nothing_is_asked(tmp_path: Path, shown: str) -> None:
    with ScriptedModel([Say("hi")], title=None, key=KEY) as server:
        head = f"POST /v1/chat/completions HTTP/1.1\r\n{shown}Content-Length: {len(BODY)}\r\n\r\n"
        answer, door = await ask(tmp_path, policy_for(server), head.encode("latin-1") + BODY)
        assert server.requests == []
    assert answer.startswith((b"HTTP/1.1 401 ", b"HTTP/1.1 400 "))
    assert TOKEN.encode() not in answer
    assert len(door.journal.of("model.refused")) == 1


@pytest.mark.parametrize(
    "line",
    [
        "POST /v1/embeddings HTTP/1.1",
        "POST /v1/files HTTP/1.1",
        "POST /v1/responses HTTP/1.1",
        "POST /v1/messages HTTP/1.1",
        "POST /v1/chat/completions/ HTTP/1.1",
        "POST /v1/chat/completions/../../files HTTP/1.1",
        "POST /v1/../v1/chat/completions HTTP/1.1",
        "POST /v1/chat%2fcompletions HTTP/1.1",
        "POST /v1//chat/completions HTTP/1.1",
        "POST /V1/chat/completions HTTP/1.1",
        "POST chat/completions HTTP/1.1",
        "POST http://evil.example.org/v1/chat/completions HTTP/1.1",
        "POST //evil.example.org/v1/chat/completions HTTP/1.1",
        "POST @evil.example.org/v1/chat/completions HTTP/1.1",
        "PUT /v1/chat/completions HTTP/1.1",
        "DELETE /v1/chat/completions HTTP/1.1",
        "GET /v1/chat/completions HTTP/1.1",
        "GET /v1/chat/completions/chatcmpl-1 HTTP/1.1",
        "GET /v1/files/file-1/content HTTP/1.1",
        "GET /v1/organization/admin_api_keys HTTP/1.1",
        "GET /v1/models HTTP/1.1",
        "GET / HTTP/1.1",
        "CONNECT evil.example.org:443 HTTP/1.1",
        "OPTIONS * HTTP/1.1",
    ],
)
async def test_nothing_but_the_models_own_path_leads_anywhere(tmp_path: Path, line: str) -> None:
    with ScriptedModel([Say("hi")], title=None, key=KEY) as server:
        answer, _ = await ask(tmp_path, policy_for(server), request(line=line))
        assert server.requests == []
    assert answer.startswith(b"HTTP/1.1 4")


async def test_the_query_does_not_travel(tmp_path: Path) -> None:
    with ScriptedModel([Say("hi")], title=None, key=KEY) as server:
        line = "POST /v1/chat/completions?api-version=x&url=http://evil HTTP/1.1"
        answer, _ = await ask(tmp_path, policy_for(server), request(line=line))
        assert [seen.path for seen in server.requests] == ["/v1/chat/completions"]
    assert answer.startswith(b"HTTP/1.1 200 ")


SMUGGLED = [
    "Transfer-Encoding: chunked\r\n",
    "Content-Length: 5\r\n",
    "Transfer-Encoding: gzip\r\n",
    "X: a\r\n folded: b\r\n",
    "X : a\r\n",
    "X: a\nAuthorization: Bearer other\r\n",
    "X: a\0b\r\n",
    "Content-Length: 0\r\nContent-Length: 0\r\n",
]


@pytest.mark.parametrize("more", SMUGGLED)
async def test_a_request_that_means_two_things_is_not_asked(tmp_path: Path, more: str) -> None:
    with ScriptedModel([Say("hi")], title=None, key=KEY) as server:
        answer, _ = await ask(tmp_path, policy_for(server), request(more=more))
        assert server.requests == []
    assert answer.startswith(b"HTTP/1.1 400 ")


async def test_a_body_longer_than_it_says_does_not_become_a_second_request_upstream(
    tmp_path: Path,
) -> None:
    with ScriptedModel([Say("hi")], title=None, key=KEY) as server:
        inner = request(line="POST /v1/files HTTP/1.1", token="stolen")
        raw = request(more="") + inner
        answer, _ = await ask(tmp_path, policy_for(server), raw)
        assert [seen.path for seen in server.requests] == ["/v1/chat/completions"]
        assert server.requests[0].headers["content-length"] == str(
            len(json.dumps(server.requests[0].body, separators=(",", ":")))
        )
    assert answer.count(b"HTTP/1.1 200 ") == 1
    assert answer.count(b"HTTP/1.1 401 ") == 1


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"model": "m-1", "messages": [' + b"{}," * 1_500_000 + b"{}]}",
        b'{"model": "m-1", "messages": "hi"',
        b"",
    ],
)
async def test_a_body_made_to_choke_on_is_refused(tmp_path: Path, body: bytes) -> None:
    with ScriptedModel([Say("hi")], title=None, key=KEY) as server:
        answer, door = await ask(tmp_path, policy_for(server), request(body))
        assert server.requests == []
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 413 "))
    assert not door.journal.of("model.fault")


async def test_a_body_without_end_is_cut_off(tmp_path: Path) -> None:
    huge = f"Content-Length: {40 << 20}\r\n\r\n"
    head = f"POST /v1/chat/completions HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n"
    answer, _ = await ask(tmp_path, model_policy("http://127.0.0.1:9"), (head + huge).encode())
    assert answer.startswith(b"HTTP/1.1 413 ")
    chunk = b"100000\r\n" + bytes(1 << 20) + b"\r\n"
    (tmp_path / "model.sock").unlink()
    raw = head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 40
    answer, _ = await ask(tmp_path, model_policy("http://127.0.0.1:9"), raw)
    assert answer.startswith(b"HTTP/1.1 413 ") or not answer  # cut off while still talking


async def test_a_body_that_drips_does_not_hold_the_door(tmp_path: Path) -> None:
    limits = Limits(body=timedelta(milliseconds=100))
    with ScriptedModel([Say("hi")], title=None, key=KEY) as server:
        async with model_door(tmp_path, policy_for(server), limits) as door:
            slow = [await door.connect() for _ in range(4)]
            for _, writer in slow:
                writer.write(request()[:-5])
            assert (await door.say(request())).startswith(b"HTTP/1.1 200 ")
            for _, writer in slow:
                writer.close()


LEAKS = {
    "plain": KEY,
    "url": urllib.parse.quote_plus(KEY + "/") + " ",
    "base64": base64.b64encode(f"Bearer {KEY}".encode()).decode(),
    "hex": KEY.encode().hex(),
    "escaped": "".join(f"\\u{ord(char):04x}" for char in KEY),
}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 4096])
@pytest.mark.parametrize("name", sorted(LEAKS))
async def test_a_server_that_echoes_the_key_piece_by_piece_does_not_hand_it_over(
    tmp_path: Path, name: str, size: int
) -> None:
    text = f'data: {{"choices":[{{"delta":{{"content":"{LEAKS[name]}"}}}}]}}\n\n'.encode()
    chunks = b"".join(
        b"%x\r\n%b\r\n" % (len(text[at : at + size]), text[at : at + size])
        for at in range(0, len(text), size)
    )
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    async with origin(head + chunks + b"0\r\n\r\n") as server:
        policy = model_policy(f"http://{server.pair}/v1", key=KEY)
        answer, _ = await ask(tmp_path, policy, request(STREAMED))
    assert answer.startswith(b"HTTP/1.1 200 ")
    body = _unchunked(answer)
    assert b"[redacted]" in body
    for spelt in (KEY, base64.b64encode(KEY.encode()).decode()[4:20], KEY.encode().hex()):
        assert spelt.encode() not in body


@pytest.mark.parametrize("status", [200, 401])
async def test_the_key_in_a_header_or_an_error_is_taken_out(tmp_path: Path, status: int) -> None:
    error = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}"}}).encode()
    head = f"HTTP/1.1 {status} X\r\nX-Request-Id: {KEY}\r\nX-Echo: {KEY}\r\nRetry-After: {KEY}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(error)}\r\n\r\n"
    async with origin(head.encode() + error) as server:
        policy = model_policy(f"http://{server.pair}/v1", key=KEY)
        answer, door = await ask(tmp_path, policy, request())
    assert KEY.encode() not in answer
    assert b"[redacted]" in answer
    assert KEY not in str(door.journal.events)


@pytest.mark.parametrize(
    "hostile",
    [
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 307 Again\r\nLocation: https://evil.example.org/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n\r\n"
        + gzip.compress(KEY.encode()),
        b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\r\n" + KEY.encode(),
        b"HTTP/1.1 200 OK\r\n\r\n" + KEY.encode(),
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-16\r\n\r\n"
        + KEY.encode("utf-16"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\n",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 50_000 + b"\r\n",
        b"",
    ],
)
async def test_an_answer_that_cannot_be_searched_does_not_pass(
    tmp_path: Path, hostile: bytes
) -> None:
    async with origin(hostile) as server:
        policy = model_policy(f"http://{server.pair}/v1", key=KEY)
        answer, door = await ask(tmp_path, policy, request())
        assert len(server.received) == 1, "a redirect was followed"
    assert answer.startswith(b"HTTP/1.1 50")
    assert KEY.encode() not in answer
    assert b"evil" not in answer
    assert len(door.journal.of("model.request")) == 1


async def test_an_answer_that_breaks_off_is_not_passed_as_a_whole_one(tmp_path: Path) -> None:
    broken = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{}"
    async with origin(broken) as server:
        policy = model_policy(f"http://{server.pair}/v1", key=KEY)
        answer, door = await ask(tmp_path, policy, request())
    assert not answer.endswith(b"0\r\n\r\n")
    assert door.journal.of("model.request")[0].facts["ended"] != "complete"


async def test_an_endless_error_is_cut(tmp_path: Path) -> None:
    flood = b"HTTP/1.1 500 X\r\nContent-Type: text/plain\r\n\r\n" + b"x" * (8 << 20)
    async with origin(flood) as server:
        policy = model_policy(f"http://{server.pair}/v1", key=KEY)
        answer, _ = await ask(tmp_path, policy, request())
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert len(answer) < 100_000


QUESTIONS: dict[Wire, tuple[str, dict[str, object]]] = {
    Wire.OPENAI_CHAT: ("/v1/chat/completions", {"messages": []}),
    Wire.OPENAI_RESPONSES: ("/v1/responses", {"input": "hi"}),
    Wire.ANTHROPIC_MESSAGES: ("/v1/messages", {"messages": []}),
}


@pytest.mark.parametrize("wire", list(Wire))
async def test_hanging_up_before_the_bill_does_not_make_it_free(tmp_path: Path, wire: Wire) -> None:
    path, asked = QUESTIONS[wire]
    body = {"model": "m-1", "stream": True, **asked}
    flood = b'data: {"delta":"abcdef"}\n\n'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    async with origin(head + flood * 20_000) as server:
        policy = model_policy(f"http://{server.pair}/v1", wire, key=KEY)
        async with model_door(tmp_path, policy) as door:
            reader, writer = await door.connect()
            writer.write(request(json.dumps(body).encode(), f"POST {path} HTTP/1.1"))
            await reader.readuntil(b"abcdef")
            writer.close()
            facts = (await door.journal.until("model.request")).facts
    assert facts["estimated"] is True
    assert isinstance(facts["output_tokens"], int)
    assert facts["output_tokens"] >= 4000


async def test_a_whole_answer_of_which_only_the_head_is_read_is_charged(tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9000000\r\n\r\n"
    async with origin(head + bytes(8_000_000)) as server:
        policy = model_policy(f"http://{server.pair}/v1", key=KEY)
        async with model_door(tmp_path, policy) as door:
            reader, writer = await door.connect()
            writer.write(request())
            await reader.readuntil(b"\r\n\r\n")
            writer.close()
            facts = (await door.journal.until("model.request")).facts
    assert isinstance(facts["output_tokens"], int)
    assert facts["output_tokens"] >= 4000


async def test_what_the_guest_writes_never_reaches_the_journal_raw(tmp_path: Path) -> None:
    async with model_door(tmp_path, model_policy("http://127.0.0.1:9")) as door:
        for name in ("\x1b[2J", "\u202e", "x" * 10_000):
            body = json.dumps({"model": "m-1", "messages": [], name: 1, "tools": [{"type": name}]})
            await door.say(request(body.encode()))
            await door.say(request(json.dumps({"model": name}).encode()))
    told = json.dumps([dict(event.facts) for event in door.journal.events], ensure_ascii=False)
    assert told.isprintable()
    assert len(told) < 5_000


async def test_garbage_never_breaks_the_door(tmp_path: Path) -> None:
    async with model_door(tmp_path, model_policy("http://127.0.0.1:9")) as door:
        for size in range(0, 200, 5):
            reader, writer = await door.connect()
            writer.write(os.urandom(size) + b"\r\n\r\n")
            writer.write_eof()
            assert (await asyncio.wait_for(reader.read(), 20)).startswith(b"HTTP/1.1 4")
            writer.close()
    assert not door.journal.of("model.fault")


def _unchunked(answer: bytes) -> bytes:
    rest, body = answer.partition(b"\r\n\r\n")[2], b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        body, rest = body + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    return body
