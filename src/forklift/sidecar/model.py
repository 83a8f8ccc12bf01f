"""The model door: the guest asks its model here, and only that, with a key it never sees.

Every request is understood, written anew and sent to one fixed server; every answer is metered and
searched for secrets on its way back.
"""

import asyncio
import contextlib
import hashlib
import hmac
import socket
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta

from forklift.core.journal import Event, Facts
from forklift.core.model_access import ModelChoice, Usage
from forklift.core.text import one_line
from forklift.sidecar import http1, wire
from forklift.sidecar.connection import Connection
from forklift.sidecar.exchange import Exchange, Outcome, expected
from forklift.sidecar.http1 import Incoming, Refused, RequestHead
from forklift.sidecar.metering import Tokens
from forklift.sidecar.policy import ModelPolicy
from forklift.sidecar.spending import BudgetReached, Price, Reservation, Spending
from forklift.sidecar.upstream import Upstream
from forklift.sidecar.wire import Asked

_BUDGET_STATUS = 402
"""Not 429: agents wait and ask again after that, until their own time is up."""
_BREATH = 0.05


@dataclass(frozen=True, slots=True)
class Limits:
    connections: int = 128
    questions: int = 32
    """Open at the model server at once."""
    intake: int = 2
    """Bodies read and understood at once: each may take many times its size in memory."""
    idle: timedelta = timedelta(minutes=2)
    body: timedelta = timedelta(minutes=1)


class ModelDoor:
    def __init__(
        self,
        policy: ModelPolicy,
        report: Callable[[Event], None],
        report_usage: Callable[[Usage], None],
        limits: Limits | None = None,
    ) -> None:
        """Raises `ValueError` or `OSError` when the policy's address or CA bundle is no use."""
        self._policy = policy
        self._report = report
        self._report_usage = report_usage
        self._limits = limits or Limits()
        self._wire = policy.choice.provider.wire
        secrets = (policy.choice.key, policy.token, *policy.scrub)
        upstream = Upstream(policy.choice.provider.base_url, policy.extra_ca)
        self._exchange = Exchange(upstream, self._wire, secrets)
        self._spending = Spending(policy.budget, self._price)
        self._priced: Price | None = None
        self._pricing: asyncio.Task[None] | None = None
        self._told: set[str] = set()
        self._intake = asyncio.Semaphore(self._limits.intake)
        self._questions = asyncio.Semaphore(self._limits.questions)

    async def serve(self, listener: socket.socket) -> None:
        """Until cancelled; questions that are open then are recorded with what they cost so far."""
        listener.setblocking(False)
        self._start_pricing()
        loop = asyncio.get_running_loop()
        slots = asyncio.Semaphore(self._limits.connections)
        async with asyncio.TaskGroup() as visits:
            while True:
                await slots.acquire()
                try:
                    sock, _ = await loop.sock_accept(listener)
                except OSError:  # it was gone again, or descriptors are short: not the door's end
                    slots.release()
                    await asyncio.sleep(_BREATH)
                    continue
                visits.create_task(self._visit(sock)).add_done_callback(lambda _: slots.release())

    async def _visit(self, sock: socket.socket) -> None:
        with sock:
            guest = Connection(sock, self._limits.idle)
            incoming = Incoming(guest)
            try:
                while await self._serve_one(guest, incoming):
                    guest.answered = False
            except Refused as error:
                await self._refuse(guest, error)
            except (TimeoutError, OSError):
                pass  # the guest went away: it knows
            except Exception as error:  # noqa: BLE001  # a bug met by one connection ends it alone
                self._report(Event("model", "model.fault", {"why": type(error).__name__}))

    async def _serve_one(self, guest: Connection, incoming: Incoming) -> bool:
        """Whether the connection may carry another request."""
        async with asyncio.timeout(self._limits.idle.total_seconds()):
            raw = await incoming.head()
        if raw is None:
            return False
        head = http1.parse_request(raw)
        self._check_token(head)
        again = head.minor == 1 and "close" not in (head.one("connection") or "").lower()
        if head.method == "GET" and head.target.partition("?")[0] == wire.MODELS:
            _check_no_body(head)
            await guest.write(_json_answer(200, wire.models_body(self._policy.choice)))
            return again
        asked = await self._take_in(head, guest, incoming)
        self._tell_withheld(asked)
        await self._ask(head, asked, guest)
        return again

    def _check_token(self, head: RequestHead) -> None:
        bearer = (head.one("authorization") or "").partition(" ")[2].strip()
        shown = bearer or (head.one("x-api-key") or "")
        token = self._policy.token.reveal()
        if not token or not hmac.compare_digest(shown.encode(), token.encode()):
            raise Refused(401, "this door opens for the run's own token only")

    async def _take_in(self, head: RequestHead, guest: Connection, incoming: Incoming) -> Asked:
        path = wire.route(self._wire, head.method, head.target)
        framing = http1.request_framing(head)
        if isinstance(framing, http1.Length) and framing.size > wire.MAX_BODY:
            raise _too_large()
        expect = head.one("expect")
        async with self._intake:
            if expect is not None:
                await guest.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                guest.answered = False
            body = bytearray()
            async with asyncio.timeout(self._limits.body.total_seconds()):
                async for piece in incoming.body(framing):
                    body += piece
                    if len(body) > wire.MAX_BODY:
                        raise _too_large()
            return wire.prepare(self._policy, path, bytes(body))

    async def _ask(self, head: RequestHead, asked: Asked, guest: Connection) -> None:
        pricing = self._start_pricing()
        if self._policy.budget.usd:
            await asyncio.shield(pricing)
        try:
            reservation = await self._spending.reserve(expected(asked))
        except BudgetReached:
            self._tell_budget()
            raise Refused(
                _BUDGET_STATUS, "this run's budget is used up; no further request is answered"
            ) from None
        outcome, started = Outcome(), time.monotonic()
        fields = wire.request_fields(self._policy, head, streamed=asked.streamed)
        try:
            async with self._questions:
                await _while_wanted(self._exchange.run(asked, fields, guest, outcome), guest)
        except Refused as error:
            if not guest.answered:
                outcome.status = error.status
            outcome.ended = error.message
            raise
        finally:
            try:
                await asyncio.shield(pricing)
            finally:  # a door that closes has no price, and still tells what was used
                await self._settle(reservation, asked, outcome, time.monotonic() - started)

    async def _settle(
        self, reservation: Reservation, asked: Asked, outcome: Outcome, seconds: float
    ) -> None:
        usd = await self._spending.settle(reservation, outcome.tokens)
        tokens = outcome.tokens or Tokens()
        facts: Facts = {
            "model": self._policy.choice.model,
            "path": asked.path,
            "status": outcome.status,
            "ended": outcome.ended,
            "input_tokens": tokens.input,
            "output_tokens": tokens.output,
            "cached_tokens": tokens.cached,
            "estimated": tokens.estimated,
            "usd": usd,
            "seconds": round(seconds, 3),
            "request_sha256": hashlib.sha256(asked.body).hexdigest(),
            "response_sha256": outcome.digest,
        }
        self._report(Event("model", "model.request", facts))
        self._report_usage(self._spending.usage)

    async def _refuse(self, guest: Connection, error: Refused) -> None:
        if error.status not in {_BUDGET_STATUS, 502, 504}:  # those have their own entries
            facts: Facts = {"why": one_line(error.message), "status": error.status}
            self._report(Event("model", "model.refused", facts))
        if guest.answered:
            return
        body = wire.error_body(self._wire, error.status, error.message)
        with contextlib.suppress(OSError, TimeoutError):
            await guest.write(_json_answer(error.status, body, close=True))
            await guest.hang_up()

    def _tell_withheld(self, asked: Asked) -> None:
        """Agents declare the same tools with every request: once is enough."""
        new = [name for name in asked.withheld if name not in self._told]
        if new and len(self._told) < 200:
            self._told.update(new)
            self._report(Event("model", "model.withheld", {"what": new}))

    def _tell_budget(self) -> None:
        if "budget" in self._told:
            return
        self._told.add("budget")
        used = self._spending.usage
        facts: Facts = {
            "requests": used.requests,
            "tokens": used.input_tokens + used.output_tokens,
            "usd": used.usd,
        }
        self._report(Event("model", "model.budget_reached", facts))

    def _start_pricing(self) -> asyncio.Task[None]:
        if self._pricing is None:
            self._pricing = asyncio.create_task(self._load_prices())
        return self._pricing

    async def _load_prices(self) -> None:
        self._priced = await asyncio.to_thread(_prices_of, self._policy.choice)

    def _price(self, tokens: Tokens) -> float | None:
        return self._priced(tokens) if self._priced else None


async def _while_wanted(exchange: Coroutine[None, None, None], guest: Connection) -> None:
    """Break off when the guest hangs up: what nobody waits for need not be paid for."""
    asking = asyncio.ensure_future(exchange)
    gone = asyncio.ensure_future(guest.gone())
    try:
        await asyncio.wait({asking, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (asking, gone):
            if not task.done():
                task.cancel()
        await asyncio.wait({asking, gone})
    if asking.cancelled():
        raise ConnectionAbortedError
    asking.result()


def _prices_of(choice: ModelChoice) -> Price:
    # Not at the top: the tables take 0.2 s to load, which no run should wait for. They are read
    # while the sandbox starts.
    from forklift.sidecar import prices  # noqa: PLC0415

    return prices.price_of(choice)


def _check_no_body(head: RequestHead) -> None:
    if http1.request_framing(head) != http1.Length(0):
        raise Refused(400, "a GET with a body")


def _too_large() -> Refused:
    return Refused(413, f"a request of more than {wire.MAX_BODY >> 20} MiB")


def _json_answer(status: int, body: bytes, *, close: bool = False) -> bytes:
    fields = [("content-type", "application/json"), ("content-length", str(len(body)))]
    if close:
        fields.append(("connection", "close"))
    return http1.serialise(f"HTTP/1.1 {status} {'OK' if status < 400 else 'Error'}", fields) + body
