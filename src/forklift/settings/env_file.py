"""`KEY=value` lines, read as a shell would where it matters, and refused where it would surprise.

Comments (`#` at the start or after a space), blank lines, `export`, single and double quotes,
CRLF. Nothing is expanded. No message ever shows a value.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from forklift.core.suggest import did_you_mean
from forklift.errors import SetupError

_LINE = re.compile(r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_SPACED = re.compile(r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]+=|[^=]*=[ \t]+[^#\s]")
_NAME = re.compile(r"[A-Z][A-Z_]*")
_SINGLE = re.compile(r"'([^']*)'(.*)")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"(.*)')
_ESCAPE = re.compile(r'\\(["\\$`])')
_REST = re.compile(r"\s*|\s+#.*")


@dataclass(frozen=True, slots=True)
class Assignment:
    value: str
    line: int


def parse_env(text: str, known: Collection[str], *, source: str) -> Mapping[str, Assignment]:
    """The assignments by key. Raises `SetupError` naming `source`, line and key."""
    found: dict[str, Assignment] = {}
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        key, value = _assignment(stripped, f"{source}, line {number}")
        if key not in known:
            raise _unknown(key, known, f"{source}, line {number}")
        if key in found:
            first = found[key].line
            raise SetupError(
                f"{source}, line {number}: {key} is already given on line {first}; remove one"
            )
        found[key] = Assignment(value, number)
    return found


def _assignment(line: str, where: str) -> tuple[str, str]:
    if _SPACED.match(line):
        raise SetupError(f"{where}: write KEY=value without spaces around the '='")
    if not (found := _LINE.fullmatch(line)):
        # The line is not shown: it may be a key that was pasted alone.
        raise SetupError(f"{where}: not a KEY=value line; comment it out with # or correct it")
    key = found[1]
    return key, _value(found[2], f"{where}: {key}")


def _value(raw: str, where: str) -> str:
    if raw.startswith(("'", '"')):
        pattern = _SINGLE if raw.startswith("'") else _DOUBLE
        found = pattern.fullmatch(raw)
        if not found:
            raise SetupError(f"{where}: the quote is not closed")
        if not _REST.fullmatch(found[2]):
            raise SetupError(f"{where}: something follows the closing quote; quote the whole value")
        return found[1] if pattern is _SINGLE else _ESCAPE.sub(r"\1", found[1])
    value = re.split(r"\s+#", raw, maxsplit=1)[0].rstrip()
    if any(char.isspace() or char in "'\"" for char in value):
        raise SetupError(f"{where}: a space or quote inside; put the whole value in quotes")
    return value


def _unknown(key: str, known: Collection[str], where: str) -> SetupError:
    hint = did_you_mean(key, known)
    # `c2VjcmV0==`, pasted alone, reads as an assignment: only what looks like a name is shown.
    shown = f" {key}" if hint or _NAME.fullmatch(key) else ""
    return SetupError(f"{where}: unknown key{shown}{hint} (known: {', '.join(known)})")
