"""A sidecar's side of the journal: one bounded line of JSON per event, on stdout.

A guest decides how often something happens, so not how much is written: after a door's share of
entries the rest are counted, and one last entry says how many there were.
"""

import json
import os
import queue
import threading
from collections import Counter
from collections.abc import Mapping

from forklift.core.journal import Event, Facts, Scalar
from forklift.core.model_access import Usage
from forklift.core.text import one_line
from forklift.sidecar.handover import usage_facts

MAX_ENTRIES = 5_000
MAX_LINE = 16 << 10
_MAX_TEXT = 400
_MAX_ITEMS = 20


class Report:
    """Writes from its own thread: a host that is slow to read must not stall the door."""

    def __init__(self, actor: str, descriptor: int, most: int = MAX_ENTRIES) -> None:
        self._actor = actor
        self._descriptor = descriptor
        self._left = most
        self._unlisted: Counter[str] = Counter()
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, daemon=True)
        self._writer.start()

    def ready(self) -> None:
        self._put({"ready": True})

    def event(self, event: Event) -> None:
        if not self._left:
            self._unlisted[event.action] += 1
            return
        self._left -= 1
        self._put({"action": event.action, "facts": _bounded(event.facts)})

    def usage(self, usage: Usage) -> None:
        self._put({"usage": usage_facts(usage)})

    def close(self, patience: float) -> None:
        """Say what was left out, and wait until the host has all of it or patience ends."""
        if self._unlisted:
            facts = {"more": self._unlisted.total(), **dict(self._unlisted.most_common(8))}
            self._put({"action": f"{self._actor}.unlisted", "facts": facts})
        self._lines.put(None)
        self._writer.join(patience)

    def _put(self, message: Mapping[str, object]) -> None:
        self._lines.put(json.dumps(message).encode() + b"\n")

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            while line:
                try:
                    line = line[os.write(self._descriptor, line) :]
                except OSError:
                    return  # the host is gone, and with it this process in a moment


def _bounded(facts: Facts) -> dict[str, object]:
    return {name: _short(value) for name, value in facts.items()}


def _short(value: Scalar | list[str] | list[int]) -> object:
    if isinstance(value, list):
        return [_text(item) for item in value[:_MAX_ITEMS]]
    return _text(value)


def _text(value: Scalar) -> Scalar:
    return one_line(value, _MAX_TEXT) if isinstance(value, str) else value
