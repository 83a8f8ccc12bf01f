import asyncio

import pytest

from forklift.core.model_access import Budget
from forklift.sidecar.metering import Tokens
from forklift.sidecar.spending import BudgetReached, Spending


def a_cent_each(tokens: Tokens) -> float | None:
    return tokens.total / 100


def unknown(_: Tokens) -> float | None:
    return None


async def spend(spending: Spending, tokens: Tokens) -> None:
    await spending.settle(await spending.reserve(Tokens(1)), tokens)


@pytest.mark.parametrize(
    "budget", [Budget(requests=2), Budget(tokens=20), Budget(usd=0.2)], ids=["n", "tokens", "usd"]
)
async def test_the_request_after_the_budgets_end_is_refused(budget: Budget) -> None:
    spending = Spending(budget, a_cent_each)
    await spend(spending, Tokens(5, 5))
    await spend(spending, Tokens(5, 5))
    with pytest.raises(BudgetReached):
        await spending.reserve(Tokens(1))
    assert spending.usage.requests == 2
    assert spending.usage.usd == pytest.approx(0.2)


async def test_without_a_budget_nothing_is_refused() -> None:
    spending = Spending(Budget(), a_cent_each)
    for _ in range(50):
        await spend(spending, Tokens(10**6, 10**6))
    assert spending.usage.input_tokens == 50 * 10**6


async def test_a_burst_does_not_overshoot_by_its_whole_size() -> None:
    spending = Spending(Budget(tokens=1000), a_cent_each)

    async def ask() -> bool:
        try:
            held = await spending.reserve(Tokens(300))
        except BudgetReached:
            return False
        await asyncio.sleep(0)
        await spending.settle(held, Tokens(300))
        return True

    asked = sum(await asyncio.gather(*(ask() for _ in range(100))))
    assert asked == 4
    assert spending.usage.input_tokens == 1200


async def test_a_burst_does_not_overshoot_the_number_of_requests() -> None:
    spending = Spending(Budget(requests=3), unknown)

    async def ask() -> bool:
        try:
            held = await spending.reserve(Tokens(1))
        except BudgetReached:
            return False
        await asyncio.sleep(0)
        await spending.settle(held, Tokens(1))
        return True

    assert sum(await asyncio.gather(*(ask() for _ in range(50)))) == 3


async def test_a_request_that_was_never_sent_is_not_charged() -> None:
    spending = Spending(Budget(requests=1), a_cent_each)
    await spending.settle(await spending.reserve(Tokens(500)), None)
    assert spending.usage.requests == 0
    await spending.reserve(Tokens(1))


async def test_without_a_known_price_the_cost_is_unknown_and_not_zero() -> None:
    spending = Spending(Budget(usd=0.01), unknown)
    await spend(spending, Tokens(10**6, 10**6))
    await spend(spending, Tokens(10**6, 10**6))
    assert spending.usage.usd is None
