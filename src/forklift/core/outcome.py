"""How a run ends: one frozen value per end, so that `assert_never` keeps every reader whole."""

from dataclasses import dataclass
from typing import Literal

from forklift.errors import (
    ForkliftError,
    ForkLocked,
    GuestError,
    RemoteError,
    SandboxUnavailable,
    SetupError,
)

Signal = Literal["SIGHUP", "SIGINT", "SIGTERM"]


@dataclass(frozen=True, slots=True)
class UpToDate:
    """Nothing to do, or all done and waiting for a person."""

    headline: str
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a dry run found: nothing was changed anywhere."""

    headline: str
    conflicts: tuple[str, ...] = ()
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Merged:
    """Verified and published."""

    headline: str
    branch: str
    commit: str
    url: str | None
    """The pull request; None where the branch is the result."""
    draft: bool = False
    details: tuple[str, ...] = ()
    """What a person should read next, line by line."""


@dataclass(frozen=True, slots=True)
class TimedOut:
    headline: str


@dataclass(frozen=True, slots=True)
class Unverified:
    headline: str
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stuck:
    headline: str
    preview: str


@dataclass(frozen=True, slots=True)
class AgentFailed:
    headline: str


@dataclass(frozen=True, slots=True)
class Unpublished:
    """Verified, but the push or the pull request failed; the result is kept."""

    headline: str
    command: str
    """What a person runs to publish it."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    headline: str
    signal: Signal


End = (
    UpToDate
    | Forecast
    | Merged
    | TimedOut
    | Unverified
    | Stuck
    | AgentFailed
    | Unpublished
    | Interrupted
)

WORDS: dict[type, str] = {
    UpToDate: "up-to-date",
    Forecast: "forecast",
    Merged: "merged",
    TimedOut: "timeout",
    Unverified: "unverified",
    Stuck: "stuck",
    AgentFailed: "agent",
    Unpublished: "publish",
    Interrupted: "interrupted",
}


def word(end: End) -> str:
    """The end's one word, as in the run's state file and in `forklift status`."""
    return WORDS[type(end)]


ERROR_WORDS: dict[type[ForkliftError], str] = {
    SetupError: "setup",
    SandboxUnavailable: "sandbox",
    ForkLocked: "locked",
    GuestError: "unverified",
    RemoteError: "publish",
    ForkliftError: "internal",
}


def error_word(error: ForkliftError) -> str:
    """The word for a run that an error ended: that of the nearest class in the table."""
    return next(ERROR_WORDS[kind] for kind in type(error).__mro__ if kind in ERROR_WORDS)
