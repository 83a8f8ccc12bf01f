"""The one door to a forge's API: what all three adapters share, and all that keeps the token home.

Every request goes to the configured address and nowhere else: no redirect is followed, no URL from
an answer is ever asked. Answers are bounded in size and time. What does the same when it is done
twice is repeated; a POST never is (`opening.py` says what happens then).
"""

import asyncio
import ssl
import urllib.parse
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import httpx2
from pydantic import TypeAdapter, ValidationError

from forklift.core.secret import Redactor
from forklift.core.text import one_line
from forklift.errors import ForgeError
from forklift.forges.answer import NO_ANSWER, Answer, Dialect, in_words, retry_after
from forklift.forges.port import ForgeAddress

T = TypeVar("T")
Params = Mapping[str, str | int]
Body = Mapping[str, object]

PAGE = 50
"""Gitea gives no more at once, whatever is asked."""

_MOST_PAGES = 200
_LARGEST_ANSWER = 32 << 20
_WORTH_ANOTHER_TRY = frozenset({502, 503, 504})


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, and for what."""

    connect: timedelta = timedelta(seconds=10)
    read: timedelta = timedelta(seconds=30)
    whole: timedelta = timedelta(seconds=90)
    """For one answer altogether: a server that sends a byte now and then ends here."""
    pauses: tuple[timedelta, ...] = (timedelta(seconds=0.5), timedelta(seconds=2))
    """Before each repetition; as many repetitions as there are pauses."""
    longest_pause: timedelta = timedelta(seconds=20)
    """A server that asks for more (Retry-After) is reported, not waited for."""


class ForgeClient:
    def __init__(
        self,
        address: ForgeAddress,
        dialect: Dialect,
        *,
        extra_ca: Path | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.repository = address.repository
        self._dialect = dialect
        self._base = address.api_url.rstrip("/")
        self._patience = patience or Patience()
        self._redact = Redactor([address.token])
        self._http = httpx2.AsyncClient(
            headers={
                "Accept": "application/json",
                # Compressed answers could grow without bound while they are unpacked.
                "Accept-Encoding": "identity",
                "Authorization": f"{dialect.scheme} {_printable(address)}",
                "User-Agent": "forklift",
                **dialect.headers,
            },
            verify=_trust(self._base, extra_ca),
            follow_redirects=False,
            timeout=httpx2.Timeout(
                self._patience.read.total_seconds(),
                connect=self._patience.connect.total_seconds(),
            ),
        )

    async def ask(
        self, method: str, path: str, *, params: Params | None = None, body: Body | None = None
    ) -> Answer:
        """What the forge answers, whatever it is: never raises, so that callers can decide."""
        answer = await self._once(method, path, params, body)
        if method == "POST":
            return answer
        for pause in self._patience.pauses:
            wait = self._wait(answer, pause)
            if wait is None:
                break
            await asyncio.sleep(wait.total_seconds())
            answer = await self._once(method, path, params, body)
        return answer

    async def get(self, path: str, shape: TypeAdapter[T], params: Params | None = None) -> T:
        return self.read(await self.ask("GET", path, params=params), shape)

    async def send(self, method: str, path: str, body: Body, shape: TypeAdapter[T]) -> T:
        return self.read(await self.ask(method, path, body=body), shape)

    async def pages(
        self, path: str, shape: TypeAdapter[list[T]], params: Params | None = None
    ) -> AsyncGenerator[T]:
        """Every item of a listing, page after page."""
        seen = 0
        for number in range(1, _MOST_PAGES + 1):
            here: Params = {**(params or {}), "page": number, self._dialect.page_size: PAGE}
            answer = await self.ask("GET", path, params=here)
            items = self.read(answer, shape)
            for item in items:
                yield item
            seen += len(items)
            if _is_last(answer, len(items), seen):
                return
        raise ForgeError(
            f"{self._dialect.forge} lists more than {_MOST_PAGES * PAGE} entries for "
            f"{self.repository}, which is more than Forklift reads"
        )

    def read(self, answer: Answer, shape: TypeAdapter[T]) -> T:
        """The answer's content, or the `ForgeError` that says why there is none."""
        if not answer.ok:
            raise self.error(answer)
        try:
            return shape.validate_json(answer.body)
        except ValidationError as error:
            raise ForgeError(
                f"{self._base} did not answer {answer.method} {answer.path} as the API of "
                f"{self._dialect.forge} does; check the forge's kind and API address",
                detail=self.redacted(one_line(str(error), 2_000)),
            ) from error

    def error(self, answer: Answer) -> ForgeError:
        words = in_words(answer, self._dialect, str(self.repository), datetime.now(UTC))
        detail = f"{answer.method} {self._base}{answer.path}: {answer.status} {answer.said}"
        return ForgeError(self.redacted(words), detail=self.redacted(detail))

    def redacted(self, text: str) -> str:
        """Without the token, for what a server said: it may well repeat what it was sent."""
        return self._redact(text)

    async def aclose(self) -> None:
        await self._http.aclose()

    async def _once(
        self, method: str, path: str, params: Params | None, body: Body | None
    ) -> Answer:
        try:
            async with (
                asyncio.timeout(self._patience.whole.total_seconds()),
                self._http.stream(method, self._url(path), params=params, json=body) as response,
            ):
                return await _taken(response, method, path)
        except httpx2.TimeoutException:
            trouble = "no answer in time"
        except TimeoutError:
            trouble = "the answer took too long to arrive"
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            trouble = str(error) or type(error).__name__
        return Answer(method, path, NO_ANSWER, trouble=trouble)

    def _url(self, path: str) -> str:
        if path == "/graphql":
            # Beside the REST API, not below it, on a GitHub Enterprise server (…/api/v3).
            return self._base.removesuffix("/v3") + path
        return self._base + path

    def _wait(self, answer: Answer, pause: timedelta) -> timedelta | None:
        """How long to wait before the next try; None when there is none."""
        if answer.status == NO_ANSWER:
            return pause
        if answer.status not in _WORTH_ANOTHER_TRY:
            return None
        now = datetime.now(UTC)
        asked = retry_after(answer, now)
        wait = max(pause, asked - now) if asked else pause
        return wait if wait <= self._patience.longest_pause else None


def segment(text: str) -> str:
    """A name as one segment of a path: whatever it holds, it stays one segment."""
    if text in {".", ".."}:
        raise ForgeError(f"{text!r} is no name that a forge could know; check the remote's URL")
    return urllib.parse.quote(text, safe="")


async def _taken(response: httpx2.Response, method: str, path: str) -> Answer:
    headers = {name.lower(): value for name, value in response.headers.items()}
    body = bytearray()
    trouble = ""
    if headers.get("content-encoding", "identity") != "identity":
        trouble = "the answer is compressed, which was not asked for"
    else:
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > _LARGEST_ANSWER:
                trouble = f"the answer is larger than {_LARGEST_ANSWER >> 20} MiB"
                break
    status = response.status_code
    return Answer(method, path, status, headers, b"" if trouble else bytes(body), trouble)


def _is_last(answer: Answer, count: int, seen: int) -> bool:
    """Whether a listing ends here. A short page proves nothing: a server's cap may be lower."""
    if count == 0:
        return True
    if "link" in answer.headers:
        return 'rel="next"' not in answer.headers["link"]
    total = answer.headers.get("x-total-count", "")
    if total.isdecimal():
        return seen >= int(total[:12])
    return count < PAGE


def _printable(address: ForgeAddress) -> str:
    token = address.token.reveal()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ForgeError(
            f"the token for {address.repository.host} is empty or holds characters that no token "
            "has, such as a line break; set it again"
        )
    return token


def _trust(base: str, extra_ca: Path | None) -> ssl.SSLContext | bool:
    if extra_ca is None or not base.startswith("https:"):
        return True
    trust = httpx2.create_ssl_context()
    try:
        trust.load_verify_locations(cafile=extra_ca)
    except (OSError, ssl.SSLError) as error:
        raise ForgeError(
            f"the extra CA bundle {extra_ca} cannot be read: {error}; it must be a PEM file"
        ) from error
    return trust
