"""A verified result, written down before it is published: a killed run is published by the next."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from forklift.stores.files import replace_atomically

_FILE = "verified.json"


@dataclass(frozen=True, slots=True)
class Parcel:
    commit: str
    branch: str
    title: str
    body: str
    doubts: tuple[str, ...] = ()


def write_parcel(run: Path, parcel: Parcel, redact: Callable[[str], str]) -> None:
    replace_atomically(run / "pull-request.md", redact(f"# {parcel.title}\n\n{parcel.body}\n"))
    replace_atomically(run / _FILE, redact(json.dumps(asdict(parcel), indent=2)) + "\n")


def read_parcel(run: Path) -> Parcel | None:
    """None when the run never came so far (or the file does not say)."""
    try:
        facts = json.loads((run / _FILE).read_text())
        return Parcel(
            commit=str(facts["commit"]),
            branch=str(facts["branch"]),
            title=str(facts["title"]),
            body=str(facts["body"]),
            doubts=tuple(str(doubt) for doubt in facts["doubts"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
