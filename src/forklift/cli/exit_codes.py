"""The one table of exit codes."""

from forklift.core.outcome import End, Interrupted, error_word, word
from forklift.errors import ForkliftError

EXIT_CODES: dict[str, int] = {
    "merged": 0,
    "up-to-date": 0,
    "forecast": 0,
    "setup": 1,
    "timeout": 2,
    "unverified": 3,
    "stuck": 4,
    "agent": 5,
    "sandbox": 6,
    "publish": 7,
    "locked": 8,
    "internal": 70,
    "SIGHUP": 129,
    "SIGINT": 130,
    "SIGTERM": 143,
}
"""A run's word to its exit code; an interrupted run's is its signal's, as shells have it."""


def exit_code(end: End | ForkliftError) -> int:
    if isinstance(end, ForkliftError):
        return EXIT_CODES[error_word(end)]
    return EXIT_CODES[end.signal if isinstance(end, Interrupted) else word(end)]


def worst(codes: list[int]) -> int:
    """Of several forks: the highest, as the table orders them by how much was lost."""
    return max(codes, default=0)
