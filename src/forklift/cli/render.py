"""How ends, errors and progress look. Standard output holds results, standard error the rest."""

import json
import os
import sys
import time
from dataclasses import asdict
from typing import Any, TextIO

from forklift.core.outcome import (
    End,
    Forecast,
    Merged,
    Stuck,
    Unpublished,
    Unverified,
    error_word,
    word,
)
from forklift.core.text import harmless
from forklift.errors import ForkliftError


class Terminal:
    """Progress for a person; silence in cron. Warnings reach both."""

    def __init__(self, stream: TextIO, *, quiet: bool) -> None:
        self._stream = stream
        self._shows_steps = stream.isatty() and not quiet
        self._start = time.monotonic()

    def step(self, text: str) -> None:
        if self._shows_steps:
            seconds = time.monotonic() - self._start
            print(f"{_dim(f'{seconds:6.1f}s')}  {harmless(text)}", file=self._stream, flush=True)

    def warn(self, text: str) -> None:
        print(f"forklift: warning: {harmless(text)}", file=self._stream, flush=True)


def error_line(error: ForkliftError) -> str:
    return f"forklift: {harmless(error.message)}"


def end_lines(end: End) -> list[str]:
    """The result, first line first."""
    lines = [f"{word(end)}: {harmless(end.headline)}"]
    match end:
        case Merged(details=details) | Forecast(details=details):
            lines += [f"  {harmless(line)}" for line in details]
        case Stuck(preview=preview):
            lines += [f"  | {line}" for line in preview.splitlines()]
        case Unpublished(command=command):
            lines.append(f"  by hand: {command}")
        case Unverified(reasons=reasons) if len(reasons) > 1:
            lines += [f"  - {harmless(reason)}" for reason in reasons]
        case _:
            pass
    return lines


def as_json(subject: str, end: End | ForkliftError, code: int) -> str:
    if isinstance(end, ForkliftError):
        facts: dict[str, Any] = {"word": error_word(end), "headline": end.message}
    else:
        facts = {"word": word(end), **asdict(end)}
    # All ASCII: what hostile text hides from a terminal is escaped by JSON itself.
    return json.dumps({"fork": subject, "exit_code": code, **facts}, ensure_ascii=True)


def print_json(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=True))


def _dim(text: str) -> str:
    return text if "NO_COLOR" in os.environ else f"\x1b[2m{text}\x1b[0m"


def complain(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
