"""How many tokens an answer cost, read from its own stream while it passes."""

import re
from dataclasses import dataclass, replace

from forklift.core.model_access import Wire
from forklift.sidecar.json_value import Json, Object, as_count, as_object, load

BYTES_PER_TOKEN = 3
"""For estimates, and deliberately few: a guess must not make the budget longer than it is."""

EXPECTED_OUTPUT = 4_000
"""What an answer is taken to cost that nobody has seen to its end."""

_MAX_LINE = 16 << 20
# What streams deliver piece by piece, in all three wire formats.
_WORDS = re.compile(
    rb'"(?:content|text|delta|arguments|partial_json|thinking|reasoning_content|reasoning)"'
    rb'\s*:\s*"((?:[^"\\]|\\.)*)"'
)


@dataclass(frozen=True, slots=True)
class Tokens:
    input: int = 0
    """All of the input, whether cached or not."""
    output: int = 0
    cached: int = 0
    cache_written: int = 0
    estimated: bool = False

    @property
    def total(self) -> int:
        return self.input + self.output


class Meter:
    """Sees every byte of an answer; keeps numbers, never text."""

    def __init__(self, wire: Wire, *, streamed: bool, request_bytes: int) -> None:
        self._wire = wire
        self._streamed = streamed
        self._request_bytes = request_bytes
        self._seen = 0
        self._words = 0
        self._line = bytearray()
        self._found: Tokens | None = None

    def feed(self, data: bytes) -> None:
        self._seen += len(data)
        if len(self._line) + len(data) > _MAX_LINE:
            self._words += len(self._line) + len(data)  # not to be read: charged by its size
            self._line.clear()
            return
        self._line += data
        if self._streamed and b"\n" in data:
            *lines, rest = self._line.split(b"\n")
            self._line = rest
            for line in lines:
                self._read_line(bytes(line))

    def tokens(self, *, complete: bool) -> Tokens:
        """At the end: what the answer said it cost, or an estimate.

        An answer that was broken off has told only part of it: the bill comes last, and what a
        model thinks before it speaks is not seen at all. Hanging up must not be the cheap way.
        """
        if self._streamed:
            self._read_line(bytes(self._line))
            self._words += len(self._line)  # a line that was broken off: what there is of it
        else:
            self._read(bytes(self._line))
        seen = (self._words or self._seen) // BYTES_PER_TOKEN
        told = self._found or Tokens(
            input=self._request_bytes // BYTES_PER_TOKEN, output=seen, estimated=True
        )
        if complete:
            return told
        return replace(told, output=max(told.output, seen, EXPECTED_OUTPUT), estimated=True)

    def _read_line(self, line: bytes) -> None:
        if not line.startswith(b"data:"):
            return
        self._words += sum(map(len, _WORDS.findall(line)))
        if b'"usage"' in line:
            self._read(line[5:])

    def _read(self, text: bytes) -> None:
        try:
            message = as_object(load(text))
        except ValueError:
            return
        for usage in _usages(message):
            self._found = _merge(self._found, _tokens(self._wire, usage))


def _usages(message: Object) -> list[Object]:
    """Usage stands at the top, or in the response or message that an event carries."""
    holders = [message, as_object(message.get("response")), as_object(message.get("message"))]
    return [usage for holder in holders if (usage := as_object(holder.get("usage")))]


def _tokens(wire: Wire, usage: Object) -> Tokens:
    match wire:
        case Wire.ANTHROPIC_MESSAGES:
            # Anthropic counts cached input apart; here input is all of it.
            read = as_count(usage.get("cache_read_input_tokens"))
            written = as_count(usage.get("cache_creation_input_tokens"))
            fresh = as_count(usage.get("input_tokens"))
            out = as_count(usage.get("output_tokens"))
            return Tokens(fresh + read + written, out, read, written)
        case Wire.OPENAI_RESPONSES:
            cached = _cached(usage.get("input_tokens_details"))
            return Tokens(
                as_count(usage.get("input_tokens")), as_count(usage.get("output_tokens")), cached
            )
        case Wire.OPENAI_CHAT:
            cached = _cached(usage.get("prompt_tokens_details"))
            return Tokens(
                as_count(usage.get("prompt_tokens")),
                as_count(usage.get("completion_tokens")),
                cached or as_count(usage.get("prompt_cache_hit_tokens")),
            )


def _cached(details: Json) -> int:
    return as_count(as_object(details).get("cached_tokens"))


def _merge(before: Tokens | None, now: Tokens) -> Tokens:
    """Streams repeat their running totals: the highest of each is the last word."""
    if before is None:
        return now
    return Tokens(
        max(before.input, now.input),
        max(before.output, now.output),
        max(before.cached, now.cached),
        max(before.cache_written, now.cache_written),
    )
