"""Known secrets taken out of a stream of bytes, wherever the stream is cut into pieces."""

import json
import re
from collections.abc import Iterable

from forklift.core.secret import MASK, Secret, encodings

_MASK = MASK.encode()
_SHORTEST = 6


class Scrubber:
    """Holds back only what could still become a secret: a token that cannot passes at once."""

    def __init__(self, secrets: Iterable[Secret]) -> None:
        forms = sorted({form for secret in secrets for form in _forms(secret)}, key=_longest_first)
        self._find = re.compile(b"|".join(map(re.escape, forms))) if forms else None
        self._beginnings = frozenset(form[:size] for form in forms for size in range(1, len(form)))
        self._most = max(map(len, forms), default=1) - 1
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """What of the stream so far may go on."""
        if self._find is None:
            return data
        text = self._held + data
        hold = self._hold_from(text)
        clean: list[bytes] = []
        at = 0
        for found in self._find.finditer(text):
            if found.start() >= hold:
                break
            clean += (text[at : found.start()], _MASK)
            at = found.end()
        cut = max(at, hold)
        clean.append(text[at:cut])
        self._held = text[cut:]
        return b"".join(clean)

    def finish(self) -> bytes:
        rest, self._held = self._held, b""
        return self._find.sub(_MASK, rest) if self._find else rest

    def whole(self, data: bytes) -> bytes:
        """For what is not a stream."""
        return self._find.sub(_MASK, data) if self._find else data

    def _hold_from(self, text: bytes) -> int:
        """Where the longest tail begins that could be the beginning of a secret."""
        for size in range(min(self._most, len(text)), 0, -1):
            if text[-size:] in self._beginnings:
                return len(text) - size
        return len(text)


def _forms(secret: Secret) -> set[bytes]:
    value = secret.reveal()
    if len(value) < _SHORTEST:
        return set()
    spelt = encodings(value) | {json.dumps(value)[1:-1], value.encode().hex()}
    spelt |= {form.replace("/", "\\/") for form in tuple(spelt)}
    spelt |= {"".join(f"\\u{ord(char):04x}" for char in value), value.encode().hex().upper()}
    return {form.encode() for form in spelt if form}


def _longest_first(form: bytes) -> tuple[int, bytes]:
    # A short form must not cut a longer one in two and leave its rest visible.
    return (-len(form), form)
