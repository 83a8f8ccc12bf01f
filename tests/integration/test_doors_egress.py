import asyncio
import contextlib
import os
import socket
from datetime import timedelta
from pathlib import Path

import pytest

from forklift.sidecar import tunnel
from forklift.sidecar.egress import Limits
from forklift.sidecar.policy import EgressMode, EgressPolicy
from forklift.testing.doors import Names, egress_door, origin

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Served-By: origin\r\n\r\nhello"


def to(*pairs: str) -> EgressPolicy:
    return EgressPolicy(ports=(), allow_private=pairs)


async def test_a_tunnel_carries_bytes_both_ways_and_is_recorded(tmp_path: Path) -> None:
    async with (
        origin(b"world", until=b"hello ") as server,
        egress_door(tmp_path, to(server.pair)) as door,
    ):
        answer = await door.say(
            f"CONNECT {server.pair} HTTP/1.1\r\nHost: {server.pair}\r\n\r\nhello ".encode()
        )
        assert answer == b"HTTP/1.1 200 Connection established\r\n\r\nworld"
        facts = (await door.journal.until("egress.tunnel")).facts
        assert facts["name"] == facts["address"] == "127.0.0.1"
        assert facts["port"] == server.port
        assert (facts["up"], facts["down"]) == (6, 5)
        assert "seconds" in facts


async def test_plain_http_is_forwarded_written_anew(tmp_path: Path) -> None:
    names = Names({"mirror.example.org": ("127.0.0.1",)})
    async with origin(ANSWER) as server, egress_door(tmp_path, to(server.pair), names) as door:
        answer = await door.say(
            f"GET http://Mirror.Example.org:{server.port}/a?b=c HTTP/1.1\r\n"
            f"Host: mirror.example.org:{server.port}\r\nAccept: text/html\r\n"
            "Proxy-Authorization: Basic eA==\r\nProxy-Connection: keep-alive\r\n"
            "Connection: X-Hop\r\nX-Hop: 1\r\n\r\n".encode()
        )
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert answer.endswith(b"connection: close\r\n\r\nhello")
        assert b"x-served-by: origin" in answer
        assert server.received == [
            f"GET /a?b=c HTTP/1.1\r\nhost: mirror.example.org:{server.port}\r\n"
            "accept: text/html\r\nconnection: close\r\n\r\n".encode()
        ]
        facts = (await door.journal.until("egress.request")).facts
        assert facts["name"] == "mirror.example.org"
        assert facts["address"] == "127.0.0.1"
        assert (facts["method"], facts["status"], facts["down"]) == ("GET", 200, 5)


@pytest.mark.parametrize(
    "body",
    [
        b"Content-Length: 11\r\n\r\nhello world",
        b"Transfer-Encoding: chunked\r\n\r\nb\r\nhello world\r\n0\r\n\r\n",
    ],
    ids=["length", "chunked"],
)
async def test_a_body_reaches_the_server_whole(tmp_path: Path, body: bytes) -> None:
    async with (
        origin(ANSWER, until=b"hello world") as server,
        egress_door(tmp_path, to(server.pair)) as door,
    ):
        answer = await door.say(f"PUT http://{server.pair}/f HTTP/1.1\r\n".encode() + body)
        assert answer.endswith(b"hello")
        assert b"hello world" in server.received[0]
        assert (await door.journal.until("egress.request")).facts["up"] == 11


async def test_an_expectation_is_met_by_the_door(tmp_path: Path) -> None:
    async with (
        origin(ANSWER, until=b"hello") as server,
        egress_door(tmp_path, to(server.pair)) as door,
    ):
        head = f"PUT http://{server.pair}/f HTTP/1.1\r\nExpect: 100-continue\r\n"
        answer = await door.say(head.encode() + b"Content-Length: 5\r\n\r\nhello")
        assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")
        assert b"expect" not in server.received[0].lower()


async def test_chunked_answers_pass_with_extensions_and_trailers_left_out(tmp_path: Path) -> None:
    chunked = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nT: x\r\n\r\n"
    )
    async with origin(chunked) as server, egress_door(tmp_path, to(server.pair)) as door:
        answer = await door.say(f"GET http://{server.pair}/ HTTP/1.1\r\n\r\n".encode())
        assert answer.endswith(b"\r\n\r\n5\r\nhello\r\n0\r\n\r\n")


async def test_an_http_1_0_client_gets_no_chunks(tmp_path: Path) -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    async with origin(chunked) as server, egress_door(tmp_path, to(server.pair)) as door:
        answer = await door.say(f"GET http://{server.pair}/ HTTP/1.0\r\n\r\n".encode())
        assert answer.endswith(b"\r\n\r\nhello")
        assert b"chunked" not in answer


async def test_a_head_request_keeps_the_length_it_asked_for(tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n"
    async with origin(head) as server, egress_door(tmp_path, to(server.pair)) as door:
        answer = await door.say(f"HEAD http://{server.pair}/ HTTP/1.1\r\n\r\n".encode())
        assert b"content-length: 12345\r\n" in answer


async def test_of_a_mixed_answer_only_the_allowed_address_is_dialled(tmp_path: Path) -> None:
    names = Names({"mixed.example.org": ("10.0.0.1", "127.0.0.1", "169.254.169.254")})
    async with origin(ANSWER) as server, egress_door(tmp_path, to(server.pair), names) as door:
        url = f"http://mixed.example.org:{server.port}/"
        assert (await door.say(f"GET {url} HTTP/1.1\r\n\r\n".encode())).endswith(b"hello")
        assert (await door.journal.until("egress.request")).facts["address"] == "127.0.0.1"


async def test_an_unknown_name_and_a_dead_server_are_told_apart(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        pair = f"127.0.0.1:{closed.getsockname()[1]}"
        async with egress_door(tmp_path, EgressPolicy(allow_private=(pair,))) as door:
            unknown = await door.say(b"CONNECT nowhere.example.org:443 HTTP/1.1\r\n\r\n")
            dead = await door.say(f"CONNECT {pair} HTTP/1.1\r\n\r\n".encode())
    assert unknown.startswith(b"HTTP/1.1 502")
    assert b"the name is not known" in unknown
    assert b"Connection refused" in dead
    assert [event.action for event in door.journal.events] == ["egress.failed"] * 2


async def test_mode_none_refuses_everything_and_records_what_was_asked(tmp_path: Path) -> None:
    names = Names()
    async with egress_door(tmp_path, EgressPolicy(EgressMode.NONE), names) as door:
        answer = await door.say(b"CONNECT wheels.example:443 HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 403")
    assert b"this run has no network" in answer
    assert door.journal.events[0].facts == {
        "what": "CONNECT wheels.example:443",
        "why": "this run has no network",
    }
    assert names.asked == []


async def test_half_a_tunnel_may_close_while_the_other_half_goes_on(tmp_path: Path) -> None:
    async with (
        origin(b"late answer", until=b"never said") as server,
        egress_door(tmp_path, to(server.pair)) as door,
    ):
        reader, writer = await door.connect()
        writer.write(f"CONNECT {server.pair} HTTP/1.1\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"that is all")
        writer.write_eof()
        assert await reader.read() == b"late answer"
        writer.close()


async def test_hundreds_of_tunnels_at_once_all_arrive(tmp_path: Path) -> None:
    async with (
        origin(b"bye", until=b"hi") as server,
        egress_door(tmp_path, to(server.pair)) as door,
    ):
        request = f"CONNECT {server.pair} HTTP/1.1\r\n\r\nhi".encode()
        answers = await asyncio.gather(*(door.say(request) for _ in range(300)))
    assert all(answer.endswith(b"\r\n\r\nbye") for answer in answers)


async def test_above_the_connection_limit_guests_wait_their_turn(tmp_path: Path) -> None:
    limits = Limits(connections=2)
    async with (
        origin(ANSWER) as server,
        egress_door(tmp_path, to(server.pair), limits=limits) as door,
    ):
        request = f"GET http://{server.pair}/ HTTP/1.1\r\n\r\n".encode()
        answers = await asyncio.gather(*(door.say(request) for _ in range(20)))
    assert all(answer.endswith(b"hello") for answer in answers)


async def test_a_tunnel_in_which_nothing_moves_is_closed(tmp_path: Path) -> None:
    limits = Limits(flow=tunnel.Limits(idle=timedelta(milliseconds=50)))
    async with (
        origin(b"", until=b"never said") as server,
        egress_door(tmp_path, to(server.pair), limits=limits) as door,
    ):
        answer = await door.say(f"CONNECT {server.pair} HTTP/1.1\r\n\r\n".encode())
        assert answer.endswith(b"established\r\n\r\n")
        await door.journal.until("egress.tunnel")


async def test_closing_the_door_ends_open_tunnels_and_records_them(tmp_path: Path) -> None:
    async with origin(b"", until=b"never said") as server:
        async with egress_door(tmp_path, to(server.pair)) as door:
            reader, writer = await door.connect()
            writer.write(f"CONNECT {server.pair} HTTP/1.1\r\n\r\nabc".encode())
            await reader.readuntil(b"\r\n\r\n")
        assert await reader.read() == b""
        writer.close()
    assert door.journal.of("egress.tunnel")[0].facts["up"] == 3


@pytest.mark.parametrize("move", [tunnel.splice, tunnel.copy])
def test_both_ways_of_moving_bytes_move_every_one(move: tunnel.Move) -> None:
    payload = os.urandom(300_000)
    flow = tunnel.Flow()
    near, source = socket.socketpair()
    sink, far = socket.socketpair()
    with near, source, sink, far, contextlib.suppress(OSError):
        for end in (near, sink):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        near.sendall(payload)
        near.shutdown(socket.SHUT_WR)
        move(source, sink, flow)
        sink.shutdown(socket.SHUT_WR)
        received = b"".join(iter(lambda: far.recv(1 << 16), b""))
        assert received == payload
        assert flow.moved == len(payload)
        return
    raise AssertionError("the bytes did not arrive")
