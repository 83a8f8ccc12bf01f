"""The model door's own HTTP client: one fixed server, one request per connection, no redirects.

Small, because a run waits for its sidecars to start: an HTTP library would double that time, and
whatever it does on its own (redirects, proxies from the environment, decompression) would have to
be switched off again.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

from forklift.sidecar import http1
from forklift.sidecar.http1 import Incoming, Refused, ResponseHead

_T = TypeVar("_T")
_CONNECT = 20.0
_SILENCE = 600.0
"""A model may think for minutes before its first word."""


class Unreachable(Refused):
    """Nothing was asked, so nothing is owed."""


@dataclass(frozen=True, slots=True)
class Answer:
    head: ResponseHead
    body: AsyncIterator[bytes]


class Upstream:
    def __init__(self, base_url: str, extra_ca: str | None) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("the model server's address is not an http:// or https:// URL")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError("the model server's address may have no user, query or fragment")
        self._secure = parts.scheme == "https"
        self._name = parts.hostname
        self._port = parts.port or (443 if self._secure else 80)
        self._host = parts.netloc
        self._path = parts.path.rstrip("/")
        self._extra_ca = extra_ca
        # Loading the system's certificates takes a while: at the first request, unless they are
        # the operator's own, where a mistake must be told at once.
        self._trust = self._load_trust() if extra_ca else None

    @asynccontextmanager
    async def post(
        self, path: str, fields: Sequence[tuple[str, str]], body: bytes
    ) -> AsyncGenerator[Answer]:
        """Raises `Refused` for a server that cannot be reached or does not speak HTTP."""
        reader, writer = await self._connect()
        try:
            writer.write(self._head(path, fields, len(body)) + body)
            await _in_time(writer.drain())
            incoming = Incoming(_Patient(reader))
            head = await self._final_head(incoming)
            framing = http1.response_framing(head, "POST")
            yield Answer(head, incoming.body(framing))
        finally:
            writer.transport.abort()  # the rest of an answer that nobody wants is not waited for

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        trust = await self._trusted() if self._secure else None
        try:
            async with asyncio.timeout(_CONNECT):
                return await asyncio.open_connection(self._name, self._port, ssl=trust)
        except TimeoutError:
            raise Unreachable(504, "the model server does not answer") from None
        except ssl.SSLCertVerificationError as error:
            raise Unreachable(
                502,
                "the model server's certificate is not trusted"
                f" ({error.verify_message}); is --extra-ca needed?",
            ) from error
        except OSError as error:
            raise Unreachable(
                502, f"the model server cannot be reached: {error.strerror or error}"
            ) from error

    async def _trusted(self) -> ssl.SSLContext:
        if self._trust is None:
            self._trust = await asyncio.to_thread(self._load_trust)
        return self._trust

    def _load_trust(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        if self._extra_ca:
            context.load_verify_locations(self._extra_ca)
        return context

    def _head(self, path: str, fields: Sequence[tuple[str, str]], size: int) -> bytes:
        ours = [
            ("host", self._host),
            *fields,
            ("accept-encoding", "identity"),
            ("content-length", str(size)),
            ("connection", "close"),
        ]
        return http1.serialise(f"POST {self._path}{path} HTTP/1.1", ours)

    async def _final_head(self, incoming: Incoming) -> ResponseHead:
        while (raw := await incoming.head()) is not None:
            head = http1.parse_response(raw)
            if head.status >= 200:
                return head
        raise Refused(502, "the model server closed without an answer")


@dataclass(frozen=True, slots=True)
class _Patient:
    reader: asyncio.StreamReader

    async def read(self, limit: int, /) -> bytes:
        return await _in_time(self.reader.read(limit))


async def _in_time(work: Awaitable[_T]) -> _T:
    try:
        async with asyncio.timeout(_SILENCE):
            return await work
    except TimeoutError:
        raise Refused(504, "the model server fell silent") from None
    except OSError as error:
        raise Refused(502, "the connection to the model server broke") from error
