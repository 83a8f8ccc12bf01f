"""HTTP/1.1 as strictly as two parsers must agree on it: what is doubtful is refused, not guessed.

Both doors read with this and write every message anew from the parsed parts, so that no byte
sequence can mean one thing to a door and another to the server behind it.
"""

import re
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Protocol

from forklift.errors import GuestError

MAX_HEAD = 64 << 10
_MAX_FIELDS = 128
_PIECE = 64 << 10
_MAX_SIZE_LINE = 256
_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # noqa: S105  # RFC 9110's word for a name
_REQUEST_LINE = re.compile(rf"({_TOKEN}) ([\x21-\x7e]+) HTTP/1\.([01])")
_STATUS_LINE = re.compile(r"HTTP/1\.([01]) ([1-5][0-9]{2})(?: ([\t\x20-\x7e\x80-\xff]*))?")
_FIELD = re.compile(rf"({_TOKEN}):[ \t]*([\t\x20-\x7e\x80-\xff]*)")
_LENGTH = re.compile(r"[0-9]{1,18}")
_SIZE = re.compile(rb"[0-9A-Fa-f]{1,15}")

HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection"}
    | {"te", "trailer", "transfer-encoding", "upgrade", "http2-settings"}
)

Fields = tuple[tuple[str, str], ...]
"""Header fields in their order, names in lower case."""


class Refused(GuestError):
    """A message that goes no further. Never leaves a sidecar: it becomes an HTTP answer."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True)
class Head:
    fields: Fields

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.fields if key == name]

    def one(self, name: str) -> str | None:
        """The field's value; twice the same field is doubtful and refused."""
        values = self.all(name)
        if len(values) > 1:
            raise Refused(400, f"more than one {name} header")
        return values[0] if values else None


@dataclass(frozen=True, slots=True)
class RequestHead(Head):
    method: str
    target: str
    minor: int


@dataclass(frozen=True, slots=True)
class ResponseHead(Head):
    status: int
    minor: int


@dataclass(frozen=True, slots=True)
class Length:
    """A body of so many bytes."""

    size: int


@dataclass(frozen=True, slots=True)
class Chunked:
    """A body in chunks. Only a server's may carry extensions and trailers, which are dropped."""

    lenient: bool = False


@dataclass(frozen=True, slots=True)
class UntilClose:
    """A response's body that ends with the connection."""


Framing = Length | Chunked | UntilClose


class Source(Protocol):
    async def read(self, limit: int, /) -> bytes:
        """Up to `limit` bytes; none at the end."""
        ...


class Incoming:
    """The reading side of a connection. Holds at most one head and one piece of a body."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._held = bytearray()

    @property
    def held(self) -> bytes:
        """What was read and not yet consumed."""
        return bytes(self._held)

    async def head(self, limit: int = MAX_HEAD) -> bytes | None:
        """A head without its blank line, or None when the peer closed before it began one."""
        start = 0
        while (end := self._held.find(b"\r\n\r\n", start)) < 0:
            start = max(0, len(self._held) - 3)
            if len(self._held) > limit:
                raise Refused(431, f"headers of more than {limit} bytes")
            if not await self._more():
                if self._held:
                    raise Refused(400, "the connection ended within the headers")
                return None
        if end > limit:
            raise Refused(431, f"headers of more than {limit} bytes")
        head = bytes(self._held[:end])
        del self._held[: end + 4]
        return head

    async def body(self, framing: Framing) -> AsyncIterator[bytes]:
        """The body's bytes without their framing, as they come."""
        match framing:
            case Length(size):
                async for piece in self._exactly(size):
                    yield piece
            case Chunked(lenient):
                async for piece in self._chunks(lenient=lenient):
                    yield piece
            case UntilClose():
                while self._held or await self._more():
                    yield self._take(_PIECE)

    async def _chunks(self, *, lenient: bool) -> AsyncIterator[bytes]:
        while True:
            line = await self._line()
            digits, extension, _ = line.partition(b";")
            if lenient:
                digits = digits.rstrip(b" \t")
            if not _SIZE.fullmatch(digits) or (extension and not lenient):
                raise Refused(400, "a chunk's size that cannot be read")
            if not (size := int(digits, 16)):
                break
            async for piece in self._exactly(size):
                yield piece
            if await self._line():
                raise Refused(400, "a chunk that is longer than it says")
        trailers = 0
        while await self._line():
            trailers += 1
            if not lenient or trailers > _MAX_FIELDS:
                raise Refused(400, "trailers are not accepted")

    async def _exactly(self, size: int) -> AsyncIterator[bytes]:
        while size:
            if not self._held and not await self._more():
                raise Refused(400, "the connection ended within the body")
            piece = self._take(min(size, _PIECE))
            size -= len(piece)
            yield piece

    async def _line(self) -> bytes:
        while (end := self._held.find(b"\n")) < 0:
            if len(self._held) > _MAX_SIZE_LINE:
                raise Refused(400, "a chunk's size that cannot be read")
            if not await self._more():
                raise Refused(400, "the connection ended within the body")
        line = bytes(self._held[: end + 1])
        del self._held[: end + 1]
        # A bare line feed is where parsers disagree, and where smuggled requests begin.
        if not line.endswith(b"\r\n") or b"\r" in line[:-2]:
            raise Refused(400, "a line that does not end in CR LF")
        return line[:-2]

    async def _more(self) -> bool:
        data = await self._source.read(_PIECE)
        self._held += data
        return bool(data)

    def _take(self, limit: int) -> bytes:
        piece = bytes(self._held[:limit])
        del self._held[:limit]
        return piece


def parse_request(head: bytes) -> RequestHead:
    first, fields = _split(head)
    found = _REQUEST_LINE.fullmatch(first)
    if not found:
        raise Refused(400, "a request line that cannot be read")
    return RequestHead(fields, found[1], found[2], int(found[3]))


def parse_response(head: bytes) -> ResponseHead:
    first, fields = _split(head)
    found = _STATUS_LINE.fullmatch(first)
    if not found:
        raise Refused(502, "the server's status line cannot be read")
    return ResponseHead(fields, int(found[2]), int(found[1]))


def request_framing(head: RequestHead) -> Framing:
    """How the request's body is delimited. Two ways at once are one too many."""
    length, coding = head.one("content-length"), head.one("transfer-encoding")
    if coding is None:
        return Length(_size(length) if length is not None else 0)
    if length is not None:
        raise Refused(400, "both content-length and transfer-encoding")
    if coding.lower() != "chunked" or head.minor == 0:
        raise Refused(400, "a transfer-encoding other than chunked")
    return Chunked()


def response_framing(head: ResponseHead, method: str) -> Framing:
    if method == "HEAD" or head.status < 200 or head.status in {204, 304}:
        return Length(0)
    length, coding = head.one("content-length"), head.one("transfer-encoding")
    if coding is not None:
        if length is not None or coding.lower() != "chunked":
            raise Refused(502, "the server's answer is delimited in a doubtful way")
        return Chunked(lenient=True)
    return Length(_size(length)) if length is not None else UntilClose()


def without_hop_by_hop(head: Head) -> Fields:
    """The fields that travel further: not those for this connection alone, nor those it names."""
    named = {name.strip().lower() for value in head.all("connection") for name in value.split(",")}
    return tuple(pair for pair in head.fields if pair[0] not in HOP_BY_HOP | named)


def serialise(first_line: str, fields: Iterable[tuple[str, str]]) -> bytes:
    lines = [first_line, *(f"{name}: {value}" for name, value in fields)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"


def _size(text: str) -> int:
    if not _LENGTH.fullmatch(text):
        raise Refused(400, "a content-length that is not a number")
    return int(text)


def _split(head: bytes) -> tuple[str, Fields]:
    first, *lines = head.decode("latin-1").split("\r\n")
    if len(lines) > _MAX_FIELDS:
        raise Refused(431, f"more than {_MAX_FIELDS} headers")
    return first, tuple(_field(line) for line in lines)


def _field(line: str) -> tuple[str, str]:
    # A folded line, a bare CR or LF, a NUL, a space before the colon: none of them matches.
    found = _FIELD.fullmatch(line)
    if not found:
        raise Refused(400, "a header that cannot be read")
    return found[1].lower(), found[2].rstrip(" \t")
