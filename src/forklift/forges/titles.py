"""Draft state as two forges keep it: in the title's first word."""

import re

from forklift.core.text import one_line

LONGEST_TITLE = 255

_MARK = re.compile(
    r"\s*(?:\[(?:wip|draft)\]|\((?:wip|draft)\)|(?:wip|draft)\s*:)\s*", re.IGNORECASE
)


def is_marked(title: str) -> bool:
    return _MARK.match(title) is not None


def marked(title: str, mark: str = "") -> str:
    """The title with this mark and no other, short enough for every forge."""
    return one_line(f"{mark} {unmarked(title)}".strip(), LONGEST_TITLE)


def unmarked(title: str) -> str:
    """The title as a person means it."""
    rest = title
    while found := _MARK.match(rest):
        rest = rest[found.end() :]
    return rest.strip() or "untitled"
