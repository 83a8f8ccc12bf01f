"""Two things at once, neither left running when the other fails."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

One = TypeVar("One")
Other = TypeVar("Other")


async def all_or_none(
    first: Coroutine[Any, Any, One], second: Coroutine[Any, Any, Other]
) -> tuple[One, Other]:
    """Both results. Where both fail, the first's error counts: what a person reads does not depend
    on which was faster."""
    one, other = asyncio.create_task(first), asyncio.create_task(second)
    try:
        return await one, await other
    finally:
        for task in (one, other):
            task.cancel()
        await asyncio.gather(one, other, return_exceptions=True)
