"""Making a guest's request into one that asks the model and nothing else.

A provider offers more than a model: it fetches URLs, searches the web, runs code, keeps files and
conversations. Each of these is a way out of a sandbox that has none. So only what is known to stay
inside passes: unknown fields and tools are left out (an agent declares them by habit and works
without), while content that the provider would have to fetch refuses the request (leaving it out
would change what the agent said).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from forklift.core.text import one_line
from forklift.sidecar.http1 import Refused
from forklift.sidecar.json_value import Json, Object, as_list, as_object, as_text

URLS = "urls"
FILES = "files"
"""Names for `granted_tools`: let the provider fetch URLs, or use files it keeps."""

_FIELDS_OF_TOOLS = {
    "web_search_options": "web_search",
    "search_parameters": "web_search",
    "mcp_servers": "mcp",
    "container": "code_execution",
}


@dataclass(slots=True)
class Cleaning:
    """One request's cleaning: what is granted, and what has been left out so far."""

    granted: frozenset[str]
    withheld: list[str] = field(default_factory=list[str])

    def grants(self, name: str) -> bool:
        """`web_search` grants `web_search`, `web_search_preview` and `web_search_20250305`."""
        return any(name == given or name.startswith(given + "_") for given in self.granted)

    def keep(self, body: Object, known: frozenset[str], quiet: frozenset[str]) -> Object:
        """The known fields. `quiet` ones are dropped without a word: habit, not intent."""
        kept: Object = {}
        for name, value in body.items():
            if name in known or self.grants(_FIELDS_OF_TOOLS.get(name, name)):
                kept[name] = value
            elif name not in quiet and not _is_off(value):
                self.withheld.append(one_line(name, 60))
        return kept

    def tools(self, body: Object, stays_inside: Callable[[Object], bool]) -> None:
        """Leave out every declared tool that the provider would run itself."""
        kept: list[Json] = []
        for tool in as_list(body.get("tools")):
            declared = as_object(tool)
            kind = as_text(declared.get("type")) or "untyped"
            if stays_inside(declared) or self.grants(kind):
                kept.append(tool)
            else:
                self.withheld.append(f"tool {one_line(kind, 60)}")
        if kept:
            body["tools"] = kept
        else:
            for name in ("tools", "tool_choice", "parallel_tool_calls"):
                body.pop(name, None)

    def inline(self, value: Json, what: str) -> None:
        """Content must be in the request itself: as base64 or a `data:` URL."""
        text = as_text(value)[:80].strip().lower()
        if ":" in text and not text.startswith("data:") and not self.grants(URLS):
            raise Refused(400, f"{what} that the provider would fetch; send its content instead")

    def no_file(self, part: Object) -> None:
        if part.get("file_id") is not None and not self.grants(FILES):
            raise Refused(400, "a file that the provider keeps; send its content instead")


def parts(content: Json, readers: Mapping[str, Callable[[Object], None]], where: str) -> None:
    """Look at each part of a content list; a part of an unknown type refuses the request."""
    if isinstance(content, dict):
        raise Refused(400, f"{where} must be text or a list")
    for item in as_list(content):
        if isinstance(item, str):
            continue
        part = as_object(item)
        kind = as_text(part.get("type"))
        reader = readers.get(kind)
        if reader is None:
            raise Refused(400, f"{where} of the type {one_line(kind or 'none', 60)!r}")
        reader(part)


def plain(_: Object) -> None:
    """A part that holds nothing but what is in it."""


def _is_off(value: Json) -> bool:
    return value is None or value is False or value in ([], {}, "")
