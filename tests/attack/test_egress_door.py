"""A hostile guest at the egress door: every byte here was chosen to get somewhere it must not."""

import asyncio
import socket
from datetime import timedelta
from pathlib import Path

import pytest

from forklift.sidecar.egress import Limits
from forklift.sidecar.policy import EgressMode, EgressPolicy
from forklift.testing.doors import Names, egress_door, origin

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret"
FORBIDDEN = [
    "127.0.0.1",
    "127.1",
    "0",
    "0x7f000001",
    "0x7f.0.0.1",
    "0177.0.0.1",
    "2130706433",
    "017700000001",
    "127.0.0.1.",
    "localhost",
    "localhost.",
    "LOCALHOST",
    "foo.localhost",
    "0.0.0.0",
    "10.0.0.1",
    "100.64.0.1",
    "168.63.129.16",
    "169.254.169.254",
    "172.17.0.1",
    "192.168.0.1",
    "198.18.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "metadata",
    "metadata.google.internal",
    "host.docker.internal",
    "gateway.docker.internal",
    "[::]",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:a9fe:a9fe]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]",
    "[2001:0:7f00:1::]",
    "[fe80::1]",
    "[fe80::1%25eth0]",
    "[fec0::1]",
    "[fd00:ec2::254]",
    "[ff02::1]",
]


@pytest.mark.parametrize("host", FORBIDDEN)
@pytest.mark.parametrize("form", ["CONNECT {}:80 HTTP/1.1", "GET http://{}:80/ HTTP/1.1"])
async def test_no_spelling_of_an_inner_address_gets_out(
    tmp_path: Path, host: str, form: str
) -> None:
    names = Names()
    async with egress_door(tmp_path, EgressPolicy(), names) as door:
        answer = await door.say(form.format(host).encode() + b"\r\n\r\n")
    assert answer.startswith((b"HTTP/1.1 403 ", b"HTTP/1.1 400 "))
    assert names.asked == []
    assert len(door.journal.of("egress.refused")) == 1


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "::ffff:10.0.0.1", "64:ff9b::1"]
)
async def test_a_public_name_that_leads_inside_is_refused(tmp_path: Path, address: str) -> None:
    names = Names({"rebind.example.org": (address,)})
    async with egress_door(tmp_path, EgressPolicy(), names) as door:
        answer = await door.say(b"CONNECT rebind.example.org:443 HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert len(names.asked) == 1, "asked twice, a name server may answer differently"


async def test_a_service_on_this_machine_is_never_reached(tmp_path: Path) -> None:
    with socket.create_server(("0.0.0.0", 0)) as service:
        port = service.getsockname()[1]
        own = socket.gethostbyname(socket.gethostname())
        names = Names({"me.example.org": (own, "127.0.0.1")})
        async with egress_door(tmp_path, EgressPolicy(ports=(port,)), names) as door:
            answers = [
                await door.say(f"CONNECT {host}:{port} HTTP/1.1\r\n\r\n".encode())
                for host in ("127.0.0.1", own, "me.example.org")
            ]
        assert all(answer.startswith(b"HTTP/1.1 403 ") for answer in answers)
        service.setblocking(False)
        with pytest.raises(BlockingIOError):
            service.accept()


async def test_an_opened_private_address_opens_nothing_beside_it(tmp_path: Path) -> None:
    names = Names({"other.example.org": ("10.0.0.1", "8.8.8.8")})
    async with origin(ANSWER) as server:
        policy = EgressPolicy(ports=(443,), allow_private=(server.pair,))
        async with egress_door(tmp_path, policy, names) as door:
            for host in ("127.0.0.2", "10.0.0.1", "[::ffff:127.0.0.1]", "other.example.org"):
                answer = await door.say(f"CONNECT {host}:{server.port} HTTP/1.1\r\n\r\n".encode())
                assert answer.startswith(b"HTTP/1.1 403 "), host
    assert server.received == []


async def test_an_allowlist_is_asked_before_any_name_server(tmp_path: Path) -> None:
    names = Names()
    policy = EgressPolicy(EgressMode.ALLOWLIST, hosts=("wheels.example",))
    async with egress_door(tmp_path, policy, names) as door:
        for host in (
            "stolen-data.evil.example.org",
            "wheels.example.evil.example.org",
            "xwheels.example",
        ):
            answer = await door.say(f"CONNECT {host}:443 HTTP/1.1\r\n\r\n".encode())
            assert answer.startswith(b"HTTP/1.1 403 ")
    assert names.asked == [], "a lookup alone carries data out"


SMUGGLED = [
    "GET http://{} HTTP/1.1\nHost: x\n\n",
    "GET http://{}/ HTTP/1.1\r\nHost: {}\r\nHost: evil.example.org\r\n\r\n",
    "GET http://{}/ HTTP/1.1\r\nHost: evil.example.org\r\n\r\n",
    "GET http://{}/ HTTP/1.1\r\nHost: {}@evil.example.org\r\n\r\n",
    "GET http://user:pw@{}/ HTTP/1.1\r\n\r\n",
    "GET http://evil.example.org#@{}/ HTTP/1.1\r\n\r\n",
    "GET http://{}\\@evil.example.org/ HTTP/1.1\r\n\r\n",
    "GET http://{}/ HTTP/1.1\r\nX: a\r\n b\r\n\r\n",
    "GET http://{}/ HTTP/1.1\r\nX : a\r\n\r\n",
    "GET http://{}/ HTTP/1.1\r\nX: a\0b\r\n\r\n",
    "GET http://{}/ HTTP/1.1\r\nX: a\rb\r\n\r\n",
    "GET http://{}/ HTTP/1.1\r\nX: a\nY: b\r\n\r\n",
    "GET http://{}/ x HTTP/1.1\r\n\r\n",
    "GET http://{}/\tHTTP/1.1\r\n\r\n",
    "GET https://{}/ HTTP/1.1\r\n\r\n",
    "GET ftp://{}/ HTTP/1.1\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: {}\r\n\r\n",
    "GET {} HTTP/1.1\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: {}\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "GET http://{}/ HTTP/0.9\r\n\r\n",
    "POST http://{}/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST http://{}/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "POST http://{}/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nab",
    "POST http://{}/ HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\nab",
    "POST http://{}/ HTTP/1.1\r\nContent-Length: -1\r\n\r\nab",
    "POST http://{}/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "POST http://{}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n",
    "POST http://{}/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "CONNECT {}/path HTTP/1.1\r\n\r\n",
    "CONNECT http://{}/ HTTP/1.1\r\n\r\n",
    "CONNECT user@{} HTTP/1.1\r\n\r\n",
    "CONNECT {} HTTP/1.1\r\nHost: evil.example.org:443\r\n\r\n",
    "CONNECT {} HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
    "CONNECT {} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "CONNECT {},evil.example.org:443 HTTP/1.1\r\n\r\n",
    "CONNECT {}:80 HTTP/1.1\r\n\r\n",
    "\r\n\r\nCONNECT {} HTTP/1.1\r\n\r\n",
    "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 {} \r\n\r\n",
]


@pytest.mark.parametrize("request_text", SMUGGLED)
async def test_a_request_that_means_two_things_reaches_nobody(
    tmp_path: Path, request_text: str
) -> None:
    async with origin(ANSWER) as server:
        policy = EgressPolicy(ports=(), allow_private=(server.pair,))
        async with egress_door(tmp_path, policy) as door:
            reader, writer = await door.connect()
            writer.write(request_text.replace("{}", server.pair).encode("latin-1"))
            writer.write_eof()
            answer = await asyncio.wait_for(reader.read(), 20)
            writer.close()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert server.received == []
    assert len(door.journal.of("egress.refused")) == 1


ODD_CHUNKS = [
    b"5\nhello\r\n",
    b"5;a=b\r\nhello\r\n",
    b"0x5\r\nhello\r\n",
    b"4\r\nhello\r\n",
    b"-1\r\n",
]


@pytest.mark.parametrize("chunks", ODD_CHUNKS)
async def test_odd_chunks_end_the_request(tmp_path: Path, chunks: bytes) -> None:
    async with origin(ANSWER, until=b"SMUGGLED") as server:
        policy = EgressPolicy(ports=(), allow_private=(server.pair,))
        async with egress_door(tmp_path, policy) as door:
            head = f"POST http://{server.pair}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
            smuggled = b"0\r\n\r\nGET /SMUGGLED HTTP/1.1\r\n\r\n"
            answer = await door.say(head.encode() + chunks + smuggled)
    assert b"secret" not in answer
    assert b"SMUGGLED" not in b"".join(server.received)


async def test_a_second_request_on_a_connection_goes_nowhere(tmp_path: Path) -> None:
    async with origin(ANSWER) as server:
        policy = EgressPolicy(ports=(), allow_private=(server.pair,))
        async with egress_door(tmp_path, policy) as door:
            request = f"GET http://{server.pair}/ HTTP/1.1\r\n\r\n".encode()
            answer = await door.say(request + request.replace(b"/ ", b"/second "))
    assert answer.count(b"HTTP/1.1") == 1
    assert b"/second" not in b"".join(server.received)


@pytest.mark.parametrize(
    "hostile",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\nsecret",
        b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nContent-Length: 2\r\n\r\nsecret",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nsecret",
        b"HTTP/1.1 200 OK\nContent-Length: 6\n\nsecret\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n X: y\r\n\r\nsecret",
        b"SSH-2.0-OpenSSH\r\n\r\nsecret",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 50_000 + b"\r\nsecret",
        b"",
    ],
)
async def test_a_hostile_servers_doubtful_answer_does_not_pass(
    tmp_path: Path, hostile: bytes
) -> None:
    async with origin(hostile) as server:
        policy = EgressPolicy(ports=(), allow_private=(server.pair,))
        async with egress_door(tmp_path, policy) as door:
            answer = await door.say(f"GET http://{server.pair}/ HTTP/1.1\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b"secret" not in answer


async def test_a_head_that_never_ends_is_cut_off(tmp_path: Path) -> None:
    async with egress_door(tmp_path, EgressPolicy()) as door:
        answer = await door.say(b"GET http://example.org/ HTTP/1.1\r\n" + b"X: y\r\n" * 20_000)
    assert answer.startswith(b"HTTP/1.1 431 ")


async def test_a_head_that_drips_is_cut_off(tmp_path: Path) -> None:
    limits = Limits(head=timedelta(milliseconds=100))
    async with egress_door(tmp_path, EgressPolicy(), limits=limits) as door:
        reader, writer = await door.connect()
        dripping = asyncio.create_task(_drip(writer))
        answer = await asyncio.wait_for(reader.read(), 20)
        dripping.cancel()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 408 ")


async def _drip(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.01)


async def test_a_guest_that_never_reads_costs_no_memory(tmp_path: Path) -> None:
    sent = 0

    async def pour(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        while True:
            writer.write(bytes(1 << 16))
            await writer.drain()
            sent += 1 << 16

    server = await asyncio.start_server(pour, "127.0.0.1", 0)
    pair = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    policy = EgressPolicy(ports=(), allow_private=(pair,))
    async with server, egress_door(tmp_path, policy) as door:
        reader, writer = await door.connect()
        writer.write(f"CONNECT {pair} HTTP/1.1\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        before = -1
        while before != sent:  # until the server is held back
            before = sent
            await asyncio.sleep(0.2)
        assert sent < 64 << 20
        writer.close()


async def test_control_characters_in_a_request_do_not_reach_the_journal(tmp_path: Path) -> None:
    async with egress_door(tmp_path, EgressPolicy()) as door:
        await door.say(b"GET http://a.example.org/\x1b[2J\xe2\x80\xae HTTP/1.1\r\n\r\n")
        await door.say(b"CONNECT " + b"a" * 5000 + b":443 HTTP/1.1\r\n\r\n")
    for event in door.journal.events:
        assert str(event.facts["what"]).isprintable()
        assert len(str(event.facts["what"])) <= 300


async def test_garbage_never_breaks_the_door(tmp_path: Path) -> None:
    async with egress_door(tmp_path, EgressPolicy()) as door:
        for seed in range(200):
            garbage = bytes((seed * 31 + index * index) % 256 for index in range(seed))
            reader, writer = await door.connect()
            writer.write(garbage + b"\r\n\r\n")
            writer.write_eof()
            assert (await asyncio.wait_for(reader.read(), 20)).startswith(b"HTTP/1.1 4")
            writer.close()
    assert not door.journal.of("egress.fault")
