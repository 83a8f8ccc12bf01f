"""Plain HTTP through the egress door: one request per connection, written anew on the way out."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from forklift.sidecar import http1
from forklift.sidecar.connection import Connection
from forklift.sidecar.destinations import Destination, read_destination
from forklift.sidecar.http1 import Incoming, Refused, RequestHead
from forklift.sidecar.tunnel import Flow

_ABSOLUTE = re.compile(r"http://([^/?#@]+)(/[^#]*|\?[^#]*)?", re.IGNORECASE)
_HTTP_PORT = 80


@dataclass(frozen=True, slots=True)
class PlainRequest:
    destination: Destination
    path: str


def read_target(head: RequestHead) -> PlainRequest:
    """From the absolute form, the only one that names its destination beyond doubt."""
    found = _ABSOLUTE.fullmatch(head.target)
    if not found:
        raise Refused(400, "not an http:// URL without user, password and fragment")
    destination = read_destination(found[1], _HTTP_PORT)
    check_host(head, destination, _HTTP_PORT)
    path = found[2] or "/"
    return PlainRequest(destination, path if path.startswith("/") else "/" + path)


def check_host(head: RequestHead, destination: Destination, default_port: int) -> None:
    """A Host header that names somebody else is how one server is reached under another's name."""
    host = head.one("host")
    if host is not None and read_destination(host, default_port) != destination:
        raise Refused(400, "a Host header that differs from the URL")


async def forward(
    head: RequestHead,
    asked: PlainRequest,
    guest: Connection,
    incoming: Incoming,
    server: Connection,
    flows: tuple[Flow, Flow],
) -> int:
    """Pass the request and its answer; the answer's status."""
    up, down = flows
    framing = http1.request_framing(head)
    expect = head.one("expect")
    if expect is not None and expect.lower() != "100-continue":
        raise Refused(417, "an expectation that cannot be met")
    await server.write(_request_head(head, asked, framing))
    if expect is not None:
        await guest.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    await _pass_body(incoming.body(framing), framing, server, up)
    try:
        return await _pass_answer(head, guest, Incoming(server), down)
    except Refused as error:
        raise Refused(502, f"the server's answer: {error.message}") from error


async def _pass_answer(head: RequestHead, guest: Connection, answers: Incoming, down: Flow) -> int:
    answer = await _final_head(answers)
    framing = http1.response_framing(answer, head.method)
    shown = framing
    if isinstance(framing, http1.Chunked) and head.minor == 0:
        shown = http1.UntilClose()  # HTTP/1.0 knows no chunks
    await guest.write(_response_head(answer, shown))
    await _pass_body(answers.body(framing), shown, guest, down)
    return answer.status


def _request_head(head: RequestHead, asked: PlainRequest, framing: http1.Framing) -> bytes:
    fields = [("host", _host(asked.destination))]
    fields += [
        pair
        for pair in http1.without_hop_by_hop(head)
        if pair[0] not in {"host", "expect", "content-length"}
    ]
    declared = head.one("content-length") is not None
    fields += _framing_fields(framing, declared=declared)
    fields.append(("connection", "close"))
    return http1.serialise(f"{head.method} {asked.path} HTTP/1.1", fields)


def _response_head(answer: http1.ResponseHead, framing: http1.Framing) -> bytes:
    fields = [pair for pair in http1.without_hop_by_hop(answer) if pair[0] != "content-length"]
    # A HEAD's answer keeps the length that it tells about.
    length = answer.one("content-length")
    if length is not None:
        fields.append(("content-length", length))
    elif isinstance(framing, http1.Chunked):
        fields.append(("transfer-encoding", "chunked"))
    fields.append(("connection", "close"))
    return http1.serialise(f"HTTP/1.1 {answer.status} {_reason(answer.status)}", fields)


def _framing_fields(framing: http1.Framing, *, declared: bool) -> list[tuple[str, str]]:
    match framing:
        case http1.Length(size):
            return [("content-length", str(size))] if declared else []
        case http1.Chunked():
            return [("transfer-encoding", "chunked")]
        case http1.UntilClose():
            return []


async def _final_head(answers: Incoming) -> http1.ResponseHead:
    while True:
        raw = await answers.head()
        if raw is None:
            raise Refused(502, "the server closed without an answer")
        answer = http1.parse_response(raw)
        if answer.status == 101:
            raise Refused(502, "the server switched protocols unasked")
        if answer.status >= 200:
            return answer


async def _pass_body(
    pieces: AsyncIterator[bytes], framing: http1.Framing, sink: Connection, flow: Flow
) -> None:
    chunked = isinstance(framing, http1.Chunked)
    async for piece in pieces:
        await sink.write(http1.chunk(piece) if chunked else piece)
        flow.moved += len(piece)
    if chunked:
        await sink.write(http1.LAST_CHUNK)


def _host(destination: Destination) -> str:
    text = str(destination)
    return text.removesuffix(f":{_HTTP_PORT}") if destination.port == _HTTP_PORT else text


def _reason(status: int) -> str:
    return "OK" if status < 400 else "Error"
