"""Where a run stands, as `state.json` keeps it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import cast

from forklift.core.model_access import Usage
from forklift.core.owner import Owner
from forklift.stores.redacted_json import Json

RUNNING = "running"
DIED = "died"
"""Never written: what is seen when a running run's owner is dead."""
UNREADABLE = "unreadable"
"""Never written: what is seen when the file is missing or corrupt."""
STUCK = "stuck"

_WORD = re.compile(r"[a-z][a-z-]{0,31}")


@dataclass(frozen=True, slots=True)
class RunState:
    word: str
    """`running`, or how it ended: the words of `core.outcome` and of the exit codes."""
    headline: str
    updated: datetime
    owner: Owner | None = None
    branch: str | None = None
    pr_url: str | None = None
    usage: Usage | None = None
    journal_entries: int | None = None
    """How many entries the journal had when this was written, and the last one's hash: the chain
    alone cannot show that its end was cut off."""
    journal_hash: str | None = None

    @property
    def is_running(self) -> bool:
        return self.word == RUNNING

    def died(self) -> "RunState":
        return replace(self, word=DIED, headline="its process is gone without a word")

    def as_json(self) -> Mapping[str, Json]:
        return {
            "word": self.word,
            "headline": self.headline,
            "updated": self.updated.isoformat(),
            "owner": _plain(self.owner),
            "branch": self.branch,
            "pr_url": self.pr_url,
            "usage": _plain(self.usage),
            "journal_entries": self.journal_entries,
            "journal_hash": self.journal_hash,
        }


def parse_state(text: str) -> RunState | None:
    """None for anything that `as_json` would not have written."""
    try:
        return _state(json.loads(text))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def unreadable(since: datetime) -> RunState:
    return RunState(UNREADABLE, "its state.json is missing or cannot be read", since)


def _plain(value: Owner | Usage | None) -> Json:
    return {f.name: cast("Json", getattr(value, f.name)) for f in fields(value)} if value else None


def _state(read: object) -> RunState:
    facts = _object(read)
    word, updated = _text(facts["word"]), datetime.fromisoformat(_text(facts["updated"]))
    if not _WORD.fullmatch(word) or updated.tzinfo is None:
        raise ValueError(word)
    return RunState(
        word=word,
        headline=_text(facts["headline"]),
        updated=updated,
        owner=_owner(facts.get("owner")),
        branch=_text_or_none(facts.get("branch")),
        pr_url=_text_or_none(facts.get("pr_url")),
        usage=_usage(facts.get("usage")),
        journal_entries=_number(facts.get("journal_entries")),
        journal_hash=_text_or_none(facts.get("journal_hash")),
    )


def _owner(read: object) -> Owner | None:
    if read is None:
        return None
    facts = _object(read)
    pid, started = _number(facts["pid"]), _number(facts["started"])
    if pid is None or started is None:
        raise ValueError(read)
    return Owner(pid, started, _text(facts["namespace"]))


def _usage(read: object) -> Usage | None:
    if read is None:
        return None
    facts = _object(read)
    usd = facts.get("usd")
    if usd is not None and not isinstance(usd, int | float):
        raise TypeError(usd)
    counts = {f.name: _number(facts.get(f.name)) or 0 for f in fields(Usage) if f.name != "usd"}
    return replace(Usage(usd=usd), **counts)


def _object(read: object) -> Mapping[str, object]:
    if not isinstance(read, dict):
        raise TypeError(read)
    return cast("dict[str, object]", read)


def _text(read: object) -> str:
    if not isinstance(read, str):
        raise TypeError(read)
    return read


def _text_or_none(read: object) -> str | None:
    return None if read is None else _text(read)


def _number(read: object) -> int | None:
    if read is not None and (not isinstance(read, int) or isinstance(read, bool)):
        raise TypeError(read)
    return read
