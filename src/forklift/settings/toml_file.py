"""A TOML file of `[[name]]` entries, read with types and with unknown keys refused."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from forklift.core.suggest import did_you_mean
from forklift.core.text import one_line
from forklift.errors import SetupError
from forklift.settings.own_file import read_own_file


@dataclass(frozen=True, slots=True)
class Entry:
    """One `[[name]]` table. Each getter raises `SetupError` naming the entry and the key."""

    where: str
    values: Mapping[str, object]

    def text(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise self.fault(key, "must be a string in quotes, on one line and not empty")
        return value

    def needed(self, key: str) -> str:
        if (value := self.text(key)) is None:
            raise SetupError(f"{self.where}: {key} is missing")
        return value

    def one_of(self, key: str, options: tuple[str, ...]) -> str | None:
        value = self.text(key)
        if value is not None and value not in options:
            hint = did_you_mean(value, options)
            raise self.fault(key, f"must be one of {', '.join(options)}{hint}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings, or one string alone."""
        value = self.values.get(key, [])
        items = cast("list[object]", value) if isinstance(value, list) else [value]
        found = [item for item in items if isinstance(item, str) and item.strip()]
        if len(found) != len(items):
            raise self.fault(key, "must be a string or a list of strings")
        return tuple(found)

    def flag(self, key: str) -> bool:
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            raise self.fault(key, "must be true or false")
        return value

    def whole_number(self, key: str, *, least: int, most: int) -> int | None:
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.fault(key, f"must be a whole number from {least} to {most}")
        return value

    def path(self, key: str, base: Path) -> Path | None:
        """`~/` is the home directory; a relative path is relative to `base`."""
        value = self.text(key)
        if value is None:
            return None
        try:
            return base / Path(value).expanduser()
        except RuntimeError as error:
            raise self.fault(key, "names a home directory that does not exist") from error

    def fault(self, key: str, problem: str) -> SetupError:
        return SetupError(f"{self.where}: {key} {problem}")


def read_entries(path: Path, name: str, keys: tuple[str, ...], *, private: bool) -> list[Entry]:
    """The file's `[[name]]` tables; none when there is no file."""
    text = read_own_file(path, private=private)
    if text is None:
        return []
    document = _parsed(path, text)
    for key in document:
        if key != name:
            raise SetupError(
                f"{path}: unknown key '{one_line(key, 60)}'{did_you_mean(key, [name])}; "
                f"it holds [[{name}]] entries only"
            )
    tables = document.get(name, [])
    if not isinstance(tables, list):
        raise SetupError(f"{path}: write [[{name}]] with two brackets on each side")
    items = cast("list[object]", tables)
    return [_entry(path, name, number, item, keys) for number, item in enumerate(items, 1)]


def _parsed(path: Path, text: str) -> dict[str, object]:
    import tomllib  # noqa: PLC0415 - 7 ms that only those with such a file should pay

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        # `from None`: the exception may carry the whole file, secrets included.
        raise SetupError(f"{path} is not valid TOML: {one_line(str(error))}") from None
    except RecursionError:
        raise SetupError(f"{path} is nested too deeply") from None


def _entry(path: Path, name: str, number: int, item: object, keys: tuple[str, ...]) -> Entry:
    where = f"{path}, [[{name}]] number {number}"
    if not isinstance(item, dict):
        raise SetupError(f"{where}: not a table; write [[{name}]] above its keys")
    values = cast("dict[str, object]", item)
    for key in values:
        if key not in keys:
            shown = one_line(key, 60)
            hint = did_you_mean(key, keys) or f" (known: {', '.join(keys)})"
            raise SetupError(f"{where}: unknown key '{shown}'{hint}")
    return Entry(where, values)
