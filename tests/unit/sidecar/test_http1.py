import asyncio
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forklift.sidecar import http1
from forklift.sidecar.http1 import Chunked, Framing, Incoming, Length, Refused


@dataclass
class Pieces:
    """A connection that delivers its bytes in pieces of one size."""

    data: bytes
    size: int = 1

    async def read(self, limit: int, /) -> bytes:
        count = min(self.size, limit)
        piece, self.data = self.data[:count], self.data[count:]
        return piece


async def read_body(data: bytes, framing: Framing, size: int = 1) -> tuple[bytes, bytes]:
    source = Pieces(data, size)
    incoming = Incoming(source)
    body = b"".join([piece async for piece in incoming.body(framing)])
    return body, incoming.held + source.data


GET = b"GET / HTTP/1.1\r\nHost: a.example\r\n"


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\nHost: a",
        b"GET / HTTP/1.1\r\nHost: a\nX: b",
        b"GET / HTTP/1.1\r\nX: a\rY: b",
        b"GET / HTTP/1.1\r\nX: a\r\n folded",
        b"GET / HTTP/1.1\r\nX : a",
        b"GET / HTTP/1.1\r\n X: a",
        b"GET / HTTP/1.1\r\nX: a\x00b",
        b"GET / HTTP/1.1\r\nX\x0b: a",
        b"GET / HTTP/1.1\r\nno colon",
        b"GET / HTTP/1.1\r\n: empty name",
        b"GET  / HTTP/1.1",
        b"GET /\tHTTP/1.1",
        b" GET / HTTP/1.1",
        b"GET / HTTP/1.1 ",
        b"GET / HTTP/2.0",
        b"GET / HTTP/1.10",
        b"GET / http/1.1",
        b"GET /",
        b"GET /\x7f HTTP/1.1",
        b"GET /\xe4 HTTP/1.1",
        b"G(T / HTTP/1.1",
        b"\r\nGET / HTTP/1.1",
        b"",
    ],
)
def test_refuses_a_head_that_two_parsers_could_read_differently(head: bytes) -> None:
    with pytest.raises(Refused):
        http1.parse_request(head)


@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Length: 3\r\nTransfer-Encoding: chunked",
        b"Content-Length: 3\r\nContent-Length: 3",
        b"Content-Length: 3\r\nContent-Length: 4",
        b"Content-Length: 3, 3",
        b"Content-Length: +3",
        b"Content-Length: -1",
        b"Content-Length: 0x3",
        b"Content-Length: 3 3",
        b"Content-Length: ",
        b"Content-Length: 99999999999999999999",
        b"Content-Length: \xb2",
        b"Transfer-Encoding: gzip, chunked",
        b"Transfer-Encoding: chunked, identity",
        b"Transfer-Encoding: xchunked",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: \x0bchunked",
        b"Transfer-Encoding:",
    ],
)
def test_refuses_a_body_that_is_delimited_in_a_doubtful_way(fields: bytes) -> None:
    with pytest.raises(Refused):
        http1.request_framing(http1.parse_request(GET + fields))


def test_refuses_chunks_from_an_http_1_0_client() -> None:
    head = http1.parse_request(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked")
    with pytest.raises(Refused):
        http1.request_framing(head)


@pytest.mark.parametrize(
    "body",
    [
        b"3\nabc\r\n0\r\n\r\n",
        b"3\r\nabc\n0\r\n\r\n",
        b"3\r\nabcd\r\n0\r\n\r\n",
        b"3;x=y\r\nabc\r\n0\r\n\r\n",
        b"3 \r\nabc\r\n0\r\n\r\n",
        b"0x3\r\nabc\r\n0\r\n\r\n",
        b"+3\r\nabc\r\n0\r\n\r\n",
        b"-3\r\nabc\r\n0\r\n\r\n",
        b"\r\nabc\r\n0\r\n\r\n",
        b"3_0\r\nabc\r\n0\r\n\r\n",
        b"ffffffffffffffff\r\nabc",
        b"3\r\nabc\r\n0\r\nTrailer: x\r\n\r\n",
        b"3\r\nabc\r\n0\r\n",
        b"3\r\nab",
        b"1" * 5000,
    ],
)
async def test_refuses_odd_chunks(body: bytes) -> None:
    with pytest.raises(Refused):
        await read_body(body, Chunked())


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=5), st.integers(1, 64))
def test_reads_chunks_wherever_the_pieces_are_cut(chunks: list[bytes], size: int) -> None:
    wire = b"".join(map(http1.chunk, chunks)) + http1.LAST_CHUNK + b"NEXT"
    assert asyncio.run(read_body(wire, Chunked(), size)) == (b"".join(chunks), b"NEXT")


@given(st.binary(max_size=300))
def test_a_head_is_read_or_refused_and_nothing_else(head: bytes) -> None:
    try:
        parsed = http1.parse_request(head)
    except Refused:
        return
    written = http1.serialise(f"{parsed.method} {parsed.target} HTTP/1.1", parsed.fields)
    again = http1.parse_request(written.removesuffix(b"\r\n\r\n"))
    assert again.fields == parsed.fields


async def test_a_body_ends_where_its_length_says() -> None:
    assert await read_body(b"abcNEXT", Length(3)) == (b"abc", b"NEXT")


async def test_a_body_that_ends_too_early_is_an_error_and_not_a_short_body() -> None:
    with pytest.raises(Refused):
        await read_body(b"ab", Length(3))


async def test_a_head_that_never_ends_is_cut_off() -> None:
    incoming = Incoming(Pieces(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 100_000, 4096))
    with pytest.raises(Refused) as refused:
        await incoming.head()
    assert refused.value.status == 431


def test_too_many_headers_are_refused() -> None:
    with pytest.raises(Refused):
        http1.parse_request(GET + b"\r\n".join([b"X: y"] * 200))


def test_headers_for_one_connection_do_not_travel_further() -> None:
    head = http1.parse_request(
        GET
        + b"Connection: close, X-Private\r\nX-Private: 1\r\nProxy-Authorization: Basic eA==\r\n"
        + b"Keep-Alive: 5\r\nTE: trailers\r\nUpgrade: h2c\r\nAccept: */*"
    )
    assert http1.without_hop_by_hop(head) == (("host", "a.example"), ("accept", "*/*"))
