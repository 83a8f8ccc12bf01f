"""JSON with types: what came in as bytes is looked at before it is believed."""

import json
from typing import NoReturn, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Object: TypeAlias = dict[str, Json]


def load(text: str | bytes) -> Json:
    """Raises `ValueError` for everything that is not strictly JSON, however deep or long."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def dump(value: Json) -> bytes:
    """Raises `ValueError` for a number too large to write."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()
    except UnicodeEncodeError:  # half a surrogate pair can only be written as its escape
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def as_object(value: Json) -> Object:
    """The object, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def as_list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def as_text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def as_count(value: Json) -> int:
    """A number that can be counted with; nothing negative, no bool, no fraction."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def texts(value: Json) -> tuple[str, ...]:
    return tuple(item for item in as_list(value) if isinstance(item, str))


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
