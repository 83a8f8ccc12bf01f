"""A value that never prints."""

import base64
import urllib.parse
from collections.abc import Iterable
from dataclasses import dataclass

_SHORTEST_WORTH_HIDING = 6
"""Shorter "secrets" would blank out ordinary words everywhere."""

MASK = "[redacted]"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Secret:
    """Holds a credential. Only `reveal()` gives it out, so that every use can be found by name."""

    _value: str

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__

    def __bool__(self) -> bool:
        return bool(self._value)


class Redactor:
    """Removes known secrets, also base64 and URL-encoded, from text on its way out."""

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        self._forms: tuple[str, ...] = ()
        for secret in secrets:
            self.learn(secret)

    def learn(self, secret: Secret) -> None:
        value = secret.reveal()
        if len(value) < _SHORTEST_WORTH_HIDING:
            return
        forms = {*self._forms, *encodings(value)}
        # Longest first: a short form must not cut a longer one in two and leave its rest visible.
        self._forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))

    def __call__(self, text: str) -> str:
        for form in self._forms:
            text = text.replace(form, MASK)
        return text


def encodings(value: str) -> set[str]:
    """The spellings in which a secret tends to leave: plain, URL-encoded, base64 at each offset."""
    raw = value.encode()
    forms = {value, urllib.parse.quote(value, safe=""), urllib.parse.quote_plus(value)}
    for offset in range(3):
        # base64 depends on what stands before modulo 3 only, save at the rims.
        encoded = base64.b64encode(b"\0" * offset + raw).decode().rstrip("=")
        core = encoded[(0, 2, 3)[offset] : len(encoded) - (1 if (offset + len(raw)) % 3 else 0)]
        if len(core) >= _SHORTEST_WORTH_HIDING:
            forms |= {core, core.replace("+", "-").replace("/", "_")}
    return forms
