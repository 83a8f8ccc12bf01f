"""The nearest known word for a mistyped one."""

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'test'?`, or nothing when no known word is near."""
    import difflib  # noqa: PLC0415 - every command would pay for a mistake that few make

    options = {_plain(name): name for name in known}
    near = difflib.get_close_matches(_plain(word), options, n=1, cutoff=0.6)
    return f"; did you mean '{options[near[0]]}'?" if near else ""


def _plain(word: str) -> str:
    # Case and the choice between `-` and `_` are the commonest slips.
    return word.lower().replace("_", "-")
