"""The documentation, read as data."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^[ ]*```(\w*)[^\n]*\n(.*?)^[ ]*```", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"<!-- ([^\n]*) -->\s*\Z")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block."""

    language: str
    text: str
    mark: str
    """The comment right before it: `run`, `transcript: demo`, or nothing."""


@dataclass(frozen=True, slots=True)
class Page:
    path: Path

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    def blocks(self) -> list[Block]:
        text = self.text
        return [
            Block(
                found[1], found[2], mark[1] if (mark := _MARK.search(text[: found.start()])) else ""
            )
            for found in _FENCE.finditer(text)
        ]

    def prose(self) -> str:
        return _FENCE.sub("", self.text)

    def links(self) -> list[str]:
        """Those to other pages, and to places in this one."""
        prose = re.sub(r"`[^`\n]*`", "", self.prose())
        return [link for link in _LINK.findall(prose) if "://" not in link]

    def anchors(self) -> set[str]:
        return {_anchor(heading) for heading in _HEADING.findall(self.prose())}

    def section(self, heading: str) -> str:
        return self.text.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def all_pages() -> Iterator[Page]:
    yield from (Page(path) for path in sorted(ROOT.glob("*.md")))
    yield from (Page(path) for path in sorted((ROOT / "docs").rglob("*.md")))


def _anchor(heading: str) -> str:
    """As forges make them: lower case, words joined by dashes, punctuation left out."""
    plain = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower())
    return plain.strip().replace(" ", "-")
