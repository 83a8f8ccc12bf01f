"""JSON for the record, with known secrets taken out of every text."""

import json
from collections.abc import Callable, Mapping, Sequence

Json = str | int | float | bool | None | Sequence["Json"] | Mapping[str, "Json"]


def dump(facts: Mapping[str, Json], redact: Callable[[str], str]) -> str:
    # Before the encoding: a secret with a quote in it would look different afterwards.
    return json.dumps(_clean(facts, redact), ensure_ascii=True, indent=2) + "\n"


def _clean(value: Json, redact: Callable[[str], str]) -> Json:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {redact(key): _clean(item, redact) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_clean(item, redact) for item in value]
    return value
