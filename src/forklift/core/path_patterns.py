"""Path patterns as in `.gitignore`, matched in bounded time whatever they say."""

import itertools
from fnmatch import fnmatchcase


def matches(pattern: str, path: str) -> bool:
    """Whether `path` (relative, with `/`) is the pattern's, or lies below a directory that is.

    - `*.lock`, `vendor`, `vendor/`: no slash but at the end, so at any depth.
    - `/src/auth`, `docs/api`: a slash before the end, so from the repository's root.
    - `*` and `?` stay within one name, `[abc]` is one character, `**` is any number of directories.
    - `vendor/` also means the path `vendor` itself: a directory that became a file has changed.
    - There is no `!`, and no backslash.
    """
    wanted = pattern.strip("/").split("/")
    if wanted == [""]:
        return False
    if "/" not in pattern.rstrip("/"):
        wanted = ["**", *wanted]
    if wanted[-1] == "**":
        wanted.append("*")  # `vendor/**` is what lies inside
    return _covers(tuple(wanted), tuple(path.strip("/").split("/")))


def _covers(wanted: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    # All places at once instead of trying one after the other: no pattern can make this slow,
    # and no path so deep that it ends the recursion.
    places = _with_skips({0}, wanted)
    for part in parts:
        after = {i if wanted[i] == "**" else i + 1 for i in places if _fits(part, wanted[i])}
        places = _with_skips(after, wanted)
        if len(wanted) in places:
            return True  # what is left of the path lies below a match
    return False


def _fits(part: str, wanted: str) -> bool:
    return wanted == "**" or fnmatchcase(part, wanted.replace("[^", "[!"))


def _with_skips(places: set[int], wanted: tuple[str, ...]) -> set[int]:
    """`**` may stand for no directory at all."""
    reached: set[int] = set()
    for place in places:
        reached.add(place)
        for skipped in itertools.takewhile(lambda i: wanted[i] == "**", range(place, len(wanted))):
            reached.add(skipped + 1)
    return reached
