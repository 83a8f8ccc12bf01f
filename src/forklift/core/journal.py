"""The hash chain: each entry seals all before it, so a changed, dropped or moved line is found."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

Scalar = str | int | float | bool | None
Facts = Mapping[str, Scalar | list[str] | list[int]]
"""What an entry may say: flat, so that a reader needs no schema."""

GENESIS = "0" * 64


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, in words an auditor would use: `model.request`, `git.push`."""

    actor: str
    """Who did it: `host`, `egress`, `model`, `forge`, `guest`."""
    action: str
    facts: Facts


@dataclass(frozen=True, slots=True)
class Link:
    """Where the chain stands: the number and hash of its last entry."""

    number: int = 0
    digest: str = GENESIS


def seal(event: Event, at: datetime, after: Link) -> tuple[str, Link]:
    """The line to append (without newline) and where the chain then stands."""
    body = {
        "n": after.number + 1,
        "at": at.isoformat(timespec="milliseconds"),
        "actor": event.actor,
        "action": event.action,
        "facts": dict(event.facts),
        "prev": after.digest,
    }
    digest = _digest(body)
    line = json.dumps({**body, "hash": digest}, ensure_ascii=True, separators=(",", ":"))
    return line, Link(after.number + 1, digest)


def first_fault(lines: Iterable[str]) -> str | None:
    """What is wrong with a journal, or None when every entry follows from the one before."""
    link = Link()
    for line in lines:
        try:
            entry = json.loads(line)
            claimed = entry.pop("hash")
            number, prev = entry["n"], entry["prev"]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return f"entry {link.number + 1} cannot be read"
        if number != link.number + 1 or prev != link.digest:
            return f"entry {link.number + 1} does not follow from the one before"
        if _digest(entry) != claimed:
            return f"entry {link.number + 1} was changed"
        link = Link(number, claimed)
    return None


def last_link(line: str | None) -> Link:
    """Where a chain stands after `line`, for going on with an existing journal."""
    if line is None:
        return Link()
    entry = json.loads(line)
    return Link(int(entry["n"]), str(entry["hash"]))


def _digest(body: Mapping[str, object]) -> str:
    canonical = json.dumps(body, ensure_ascii=True, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()
