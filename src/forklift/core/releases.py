"""Which of upstream's tags is the latest release. Pure."""

import re
from collections.abc import Mapping

_VERSION = re.compile(r"^(?:.*?[-_/])?v?(\d+(?:\.\d+){1,3})$", re.IGNORECASE)


def latest_release(tags: Mapping[str, str]) -> tuple[str, str] | None:
    """The highest version among tags like `v1.2.3`, and its commit; pre-releases do not count."""
    versions = [(_numbers(found[1]), name) for name in tags if (found := _VERSION.match(name))]
    if not versions:
        return None
    _, name = max(versions)
    return name, tags[name]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
