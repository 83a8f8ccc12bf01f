"""FORK.md: prose for the agent, and optional front matter that the host acts on.

Front matter lies between a first line `---` and a next line `---`:

    ---
    setup: npm ci
    test: [npm test, npm run lint]
    protect:
      - /src/auth
      - "*.lock"
    ---

A document may also begin with a horizontal rule. What follows `---` is taken for front matter when
its first line names a key (`word:`), and for prose otherwise or when a blank line comes first,
except that one of our own keys in the first paragraph always means front matter: a `test` that is
silently passed over would be worse than an error.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from forklift.core.path_patterns import matches
from forklift.core.suggest import did_you_mean
from forklift.core.text import one_line
from forklift.errors import SetupError

__all__ = ["KEYS", "ForkNotes", "matches", "parse"]

KEYS = ("setup", "test", "protect")

_LARGEST = 16 * 1024
_DEEPEST = 3
_RULE = re.compile(r"---[ \t]*")
_END = re.compile(r"(?:---|\.\.\.)[ \t]*")
_ANY_KEY = re.compile(r"""["']?[A-Za-z][\w-]*["']?[ \t]*:(?:\s|$)""")
_OUR_KEY = re.compile(rf"({'|'.join(KEYS)})[ \t]*:(?:\s|$)")
_STRING, _NULL, _LIST = (f"tag:yaml.org,2002:{kind}" for kind in ("str", "null", "seq"))


@dataclass(frozen=True, slots=True)
class ForkNotes:
    prose: str = ""
    setup: tuple[str, ...] = ()
    """Commands run in the sandbox before the agent."""
    test: tuple[str, ...] = ()
    """Commands that prove a merge good."""
    protect: tuple[str, ...] = ()
    """Paths that upstream must not change silently: see `path_patterns.matches`."""


def parse(text: str) -> ForkNotes:
    """Read FORK.md. Raises `SetupError` with the line that cannot be understood."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    end = _end_of_front_matter(lines)
    if end is None:
        return ForkNotes(prose="\n".join(lines))
    block = "\n".join(lines[1:end])
    if len(block) > _LARGEST:
        raise _fault(1, f"the front matter is larger than {_LARGEST // 1024} KiB")
    return _read(block, prose="\n".join(lines[end + 1 :]).lstrip("\n"))


def _end_of_front_matter(lines: list[str]) -> int | None:
    if not _RULE.fullmatch(lines[0]):
        return None
    ends = (number for number, line in enumerate(lines[1:], 1) if _END.fullmatch(line))
    end = next(ends, None)
    if not _is_meant(lines[1:end]):
        return None
    if end is None:
        raise _fault(1, "the front matter is never closed; end it with a line ---")
    return end


def _is_meant(block: list[str]) -> bool:
    begins_at_once = bool(block) and bool(block[0].strip())
    first = list(_first_paragraph(block))
    if not first:
        return False
    return (begins_at_once and bool(_ANY_KEY.match(first[0]))) or any(map(_OUR_KEY.match, first))


def _first_paragraph(block: list[str]) -> Iterator[str]:
    begun = False
    for line in block:
        if line.strip() and not line.startswith("#"):
            begun = True
            yield line
        elif begun and not line.strip():
            return


def _read(block: str, prose: str) -> ForkNotes:
    found: dict[str, tuple[str, ...]] = {}
    for key, value in _pairs(block):
        name, line = key.value, _line(key)
        if name not in KEYS:
            raise _fault(line, _unknown(str(name)))
        if name in found:
            raise _fault(line, f"'{name}' is given twice; make it one list")
        found[name] = tuple(_strings(name, value))
    for pattern in found.get("protect", ()):
        if reason := _bad_pattern(pattern):
            raise _fault(1, f"protect: '{one_line(pattern)}' {reason}")
    setup, test, protect = (found.get(name, ()) for name in KEYS)
    return ForkNotes(prose, setup, test, protect)


def _pairs(block: str) -> list[tuple[yaml.Node, yaml.Node]]:
    try:
        _refuse_tricks(block)
        root = yaml.compose(block, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 2 if mark else 1
        raise _fault(line, f"not valid YAML: {one_line(error.problem or 'unreadable')}") from error
    except yaml.YAMLError as error:
        raise _fault(1, f"not valid YAML: {one_line(str(error))}") from error
    if root is None:
        return []
    if not isinstance(root, yaml.MappingNode):
        raise _fault(_line(root), "the front matter is no list of `key: value` lines")
    return root.value


def _refuse_tricks(block: str) -> None:
    # Before anything is built: aliases multiply, and depth ends the parser's recursion.
    depth = 0
    for event in yaml.parse(block, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 2 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent):
            raise _fault(line, "YAML aliases (*name) are not supported; write the value out")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise _fault(line, "nested too deeply; a value is a string or a list of strings")


def _strings(name: str, value: yaml.Node) -> Iterator[str]:
    is_list = isinstance(value, yaml.SequenceNode) and value.tag == _LIST
    items = value.value if is_list else [value]
    for item in items:
        if item.tag == _NULL:
            continue
        if not isinstance(item, yaml.ScalarNode) or item.tag != _STRING:
            raise _fault(_line(item), f"'{name}' is a string or a list of strings; use quotes")
        if "\0" in item.value:
            raise _fault(_line(item), f"'{name}' holds a NUL character")
        if text := item.value.strip():
            yield text


def _bad_pattern(pattern: str) -> str | None:
    if pattern.startswith("!"):
        return "begins with '!'; exceptions are not supported"
    if "\\" in pattern:
        return "holds a backslash; write / between directories"
    if ".." in pattern.split("/") or not pattern.strip("/"):
        return "names no path of the repository"
    return None


def _unknown(name: str) -> str:
    hint = did_you_mean(name, KEYS) or "; for a horizontal rule, leave a blank line below it"
    return f"unknown key '{one_line(name, 60)}'{hint} (known: {', '.join(KEYS)})"


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 2 if node.start_mark else 1


def _fault(line: int, problem: str) -> SetupError:
    return SetupError(f"FORK.md, line {line}: {problem}")
