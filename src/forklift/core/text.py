"""Making hostile text harmless before a terminal, a log, a page or a pull request sees it."""

import re

_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 (but tab and newline), DEL, C1
    "\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb"  # bidi, unseen
    "\U000e0000-\U000e007f\U000e0100-\U000e01ef"  # tags, selectors: text that only a model reads
    "\ud800-\udfff]"  # half characters, from file names that are not UTF-8: they cannot be printed
)
_CLOSING_WORD = re.compile(
    r"\b(close[sd]?|fix(?:e[sd])?|resolve[sd]?|implement(?:s|ed)?|reopen(?:s|ed)?)\b", re.IGNORECASE
)
_ZERO_WIDTH = "\u200b"


def harmless(text: str) -> str:
    """Every character that could steer a terminal or hide text, shown as its escape."""
    return _CONTROL.sub(_escape, text.replace("\r\n", "\n"))


def one_line(text: str, limit: int = 200) -> str:
    """The harmless text on one line, cut to `limit` characters."""
    line = " ".join(harmless(text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def quoted(text: str) -> str:
    """Agent text as a Markdown quote that can neither mention people nor close issues."""
    calm = harmless(text).replace("@", "@" + _ZERO_WIDTH).replace("#", "#" + _ZERO_WIDTH)
    calm = calm.replace("!", "!" + _ZERO_WIDTH)  # GitLab's merge requests are !12
    calm = _CLOSING_WORD.sub(lambda found: found[0][0] + _ZERO_WIDTH + found[0][1:], calm)
    calm = calm.replace("<", "&lt;").replace("://", ":" + _ZERO_WIDTH + "//")
    return "\n".join("> " + line if line else ">" for line in calm.split("\n"))


def code(text: str) -> str:
    """Hostile text, such as a path, as inline code that cannot end early."""
    line = one_line(text, 400)
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _escape(found: re.Match[str]) -> str:
    point = ord(found[0])
    return f"\\x{point:02x}" if point < 0x100 else f"\\u{{{point:04x}}}"
