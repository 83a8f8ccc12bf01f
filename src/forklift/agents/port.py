"""A coding-agent program, as the host sees it: what to start and how to read what it said."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from forklift.core.model_access import Wire


@dataclass(frozen=True, slots=True)
class Order:
    """What an agent is asked to do, and the model it may ask."""

    prompt: str
    provider: str
    model: str
    variant: str
    agent: str
    """The agent program's own notion of an agent (`OPENCODE_AGENT`: build, plan, …)."""
    wire: Wire
    door: str
    """The model door inside the sandbox: `http://127.0.0.1:4000/v1`."""
    token: str
    """Good for this run at the model door only."""
    session: str | None = None
    """A session of an earlier prompt to continue."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What the guest's init starts."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Configuration to write below the guest's home before the start: relative path -> text."""
    stdin: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """What a transcript tells. Hostile text: the caller makes it harmless before showing it."""

    last_words: str = ""
    session: str | None = None
    tools_used: int = 0
    error: str | None = None


class CodingAgent(Protocol):
    @property
    def name(self) -> str: ...

    def launch(self, order: Order) -> Launch: ...

    def read(self, transcript: Iterable[str]) -> Said:
        """Read a transcript line by line; a line that cannot be read is passed over."""
        ...
