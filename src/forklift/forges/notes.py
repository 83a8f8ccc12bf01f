"""What could not be done on the side, for the person who reads the run's result.

A pull request that is open is worth more than its labels: nothing here raises.
"""

from collections.abc import Awaitable

from forklift.core.text import one_line
from forklift.errors import ForgeError
from forklift.forges.answer import Answer
from forklift.forges.http import ForgeClient


def note(api: ForgeClient, what: str, answer: Answer) -> list[str]:
    """Nothing when the answer is good."""
    if answer.ok:
        return []
    return [api.redacted(one_line(f"{what}: {answer.said or answer.status}", 300))]


def unknown_label(api: ForgeClient, name: str) -> str:
    return f"no label '{one_line(name)}' in {api.repository}; it was not set"


async def noted(what: str, step: Awaitable[list[str]]) -> list[str]:
    """The step's own notes, or one that says why it failed."""
    try:
        return await step
    except ForgeError as error:
        return [f"{what}: {error.message}"]
