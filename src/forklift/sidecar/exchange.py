"""One question to the model server and its answer, on the way back to the guest."""

import hashlib
from collections.abc import Iterable

from forklift.core.model_access import Wire
from forklift.core.secret import Secret
from forklift.sidecar import http1
from forklift.sidecar.connection import Connection
from forklift.sidecar.http1 import Refused, ResponseHead
from forklift.sidecar.metering import BYTES_PER_TOKEN, EXPECTED_OUTPUT, Meter, Tokens
from forklift.sidecar.scrub import Scrubber
from forklift.sidecar.upstream import Answer, Unreachable, Upstream
from forklift.sidecar.wire import COUNT_TOKENS, Asked

_MAX_ERROR = 64 << 10
_SHOWN = frozenset(
    {"content-type", "request-id", "retry-after", "retry-after-ms", "x-request-id"}
    | {"x-should-retry"}
)
_READABLE = ("application/json", "text/event-stream", "text/plain")
_STREAM = "text/event-stream"


class Outcome:
    """Filled in as the exchange goes on, so that it is right however the exchange ends."""

    def __init__(self) -> None:
        self.status = 0
        self.tokens: Tokens | None = None
        """None while nothing was asked: what could not be sent is not charged."""
        self.ended = "broken off"
        self._digest = hashlib.sha256()

    def passed(self, data: bytes) -> None:
        self._digest.update(data)

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()


class Exchange:
    def __init__(self, upstream: Upstream, wire: Wire, secrets: Iterable[Secret]) -> None:
        self._upstream = upstream
        self._wire = wire
        self._secrets = tuple(secrets)

    async def run(
        self, asked: Asked, fields: list[tuple[str, str]], guest: Connection, outcome: Outcome
    ) -> None:
        """Pass the answer to the guest. Raises `Refused` for one that may not be passed."""
        # From here on it may be paid for, whatever comes back and whoever hangs up.
        outcome.tokens = expected(asked)
        try:
            async with self._upstream.post(asked.path, fields, asked.body) as answer:
                outcome.status = answer.head.status
                if answer.head.status >= 300:
                    outcome.tokens = None
                _check(answer.head)
                if answer.head.status >= 400:
                    await self._pass_error(answer, guest, outcome)
                else:
                    await self._pass_answer(asked, answer, guest, outcome)
        except Unreachable:
            outcome.tokens = None
            raise
        except Refused as error:
            if error.status >= 500:
                raise
            raise Refused(502, f"the model server's answer: {error.message}") from error
        outcome.ended = "complete"

    async def _pass_answer(
        self, asked: Asked, answer: Answer, guest: Connection, outcome: Outcome
    ) -> None:
        scrubber = Scrubber(self._secrets)
        meter = Meter(
            self._wire,
            streamed=_kind(answer.head).startswith(_STREAM),
            request_bytes=len(asked.body),
        )
        fields = [*self._shown(answer.head), ("transfer-encoding", "chunked")]
        await guest.write(http1.serialise(f"HTTP/1.1 {answer.head.status} OK", fields))
        complete = False
        try:
            async for piece in answer.body:
                meter.feed(piece)
                await _pass(scrubber.feed(piece), guest, outcome)
            complete = True
            await _pass(scrubber.finish(), guest, outcome)
        finally:
            free = asked.path.endswith(COUNT_TOKENS)
            outcome.tokens = Tokens() if free else meter.tokens(complete=complete)
        await guest.write(http1.LAST_CHUNK)

    async def _pass_error(self, answer: Answer, guest: Connection, outcome: Outcome) -> None:
        body = bytearray()
        async for piece in answer.body:
            body += piece
            if len(body) > _MAX_ERROR:
                break
        # Cut after the search: a secret across the cut must not leave its first half behind.
        clean = Scrubber(self._secrets).whole(bytes(body))[:_MAX_ERROR]
        outcome.passed(clean)
        fields = [*self._shown(answer.head), ("content-length", str(len(clean)))]
        head = http1.serialise(f"HTTP/1.1 {answer.head.status} Error", fields)
        await guest.write(head + clean)

    def _shown(self, head: ResponseHead) -> list[tuple[str, str]]:
        scrubber = Scrubber(self._secrets)
        return [
            (name, scrubber.whole(value.encode()).decode())
            for name, value in head.fields
            if name in _SHOWN
        ]


def expected(asked: Asked) -> Tokens:
    """What a question will probably cost."""
    if asked.path.endswith(COUNT_TOKENS):
        return Tokens()  # a question about a question is free
    return Tokens(len(asked.body) // BYTES_PER_TOKEN, EXPECTED_OUTPUT, estimated=True)


async def _pass(data: bytes, guest: Connection, outcome: Outcome) -> None:
    if data:
        outcome.passed(data)
        await guest.write(http1.chunk(data))


def _check(head: ResponseHead) -> None:
    """What cannot be searched for secrets does not pass."""
    if 300 <= head.status < 400:
        raise Refused(502, "the model server redirects, which is not followed; is its URL right?")
    if any(coding.lower() != "identity" for coding in head.all("content-encoding")):
        raise Refused(502, "the model server's answer is compressed and cannot be searched")
    kind = _kind(head)
    if "charset=" in kind and "utf-8" not in kind and "us-ascii" not in kind:
        raise Refused(502, "the model server's answer is in a charset that cannot be searched")
    if head.status < 400 and not kind.startswith(_READABLE):
        raise Refused(502, "the model server's answer is neither JSON nor an event stream")


def _kind(head: ResponseHead) -> str:
    return (head.one("content-type") or "").lower()
