"""A run's budget: a request may start only while some of it is left."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from forklift.core.model_access import Budget, Usage
from forklift.sidecar.metering import Tokens

Price = Callable[[Tokens], float | None]
"""What so many tokens cost, or None for a model whose price is not known."""


class BudgetReached(Exception):
    """The run may ask no more. Never leaves the sidecar: it becomes an HTTP answer."""


@dataclass(frozen=True, slots=True, eq=False)
class Reservation:
    """Compared by identity: two requests that expect the same are two reservations."""

    tokens: int
    usd: float


class Spending:
    def __init__(self, budget: Budget, price: Price) -> None:
        self.usage = Usage()
        self._budget = budget
        self._price = price
        self._held: set[Reservation] = set()
        self._settled = asyncio.Condition()

    async def reserve(self, expected: Tokens) -> Reservation:
        """Hold what a request will probably cost; raises `BudgetReached` when nothing is left.

        What is held counts as spent: a burst of requests near the end waits for the earlier ones
        instead of starting all at once and overshooting by all of them.
        """
        async with self._settled:
            while True:
                if self._reached(Reservation(0, 0.0), 0):
                    raise BudgetReached
                if not self._held or not self._reached(self._all_held(), len(self._held)):
                    break
                await self._settled.wait()
            reservation = Reservation(expected.total, self._price(expected) or 0.0)
            self._held.add(reservation)
            return reservation

    async def settle(self, reservation: Reservation, tokens: Tokens | None) -> float | None:
        """Replace what was held by what it was; None when no model was asked. The cost in USD."""
        async with self._settled:
            self._held.discard(reservation)
            self._settled.notify_all()
            if tokens is None:
                return None
            usd = self._price(tokens)
            before = self.usage
            self.usage = Usage(
                requests=before.requests + 1,
                input_tokens=before.input_tokens + tokens.input,
                output_tokens=before.output_tokens + tokens.output,
                cached_tokens=before.cached_tokens + tokens.cached,
                usd=before.usd if usd is None else (before.usd or 0.0) + usd,
            )
            return usd

    def _reached(self, held: Reservation, pending: int) -> bool:
        used, limit = self.usage, self._budget
        tokens = used.input_tokens + used.output_tokens + held.tokens
        return bool(
            (limit.requests and used.requests + pending >= limit.requests)
            or (limit.tokens and tokens >= limit.tokens)
            or (limit.usd and (used.usd or 0.0) + held.usd >= limit.usd)
        )

    def _all_held(self) -> Reservation:
        return Reservation(
            sum(one.tokens for one in self._held), sum(one.usd for one in self._held)
        )
