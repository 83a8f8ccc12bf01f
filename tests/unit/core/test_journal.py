import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forklift.core.journal import GENESIS, Event, Link, first_fault, last_link, seal

AT = datetime(2026, 11, 5, 14, 3, 9, tzinfo=UTC)
SCALARS = st.one_of(st.text(), st.integers(), st.booleans(), st.none(), st.floats(allow_nan=False))
EVENTS = st.builds(
    Event, st.sampled_from(["host", "egress"]), st.text(), st.dictionaries(st.text(), SCALARS)
)


def chained(events: list[Event]) -> list[str]:
    link, lines = Link(), list[str]()
    for number, event in enumerate(events):
        line, link = seal(event, AT + timedelta(seconds=number), link)
        lines.append(line)
    return lines


THREE = chained([Event("host", "run.begun", {"n": n}) for n in range(3)])


@given(st.lists(EVENTS, max_size=6))
def test_an_untouched_journal_has_no_fault_and_one_line_an_entry(events: list[Event]) -> None:
    lines = chained(events)
    assert first_fault(lines) is None
    assert all(line.isascii() and "\n" not in line for line in lines)


@given(st.data())
def test_any_changed_character_is_found(data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(THREE) - 1))
    place = data.draw(st.integers(0, len(THREE[number]) - 1))
    char = data.draw(st.characters(min_codepoint=0x20, max_codepoint=0x7E))
    line = THREE[number]
    changed = line[:place] + char + line[place + 1 :]
    lines = [*THREE[:number], changed, *THREE[number + 1 :]]
    assert (first_fault(lines) is None) == (changed == line)


def test_a_dropped_a_moved_and_a_doubled_entry_are_found() -> None:
    first, second, third = THREE
    for lines in ([second, third], [first, third], [first, third, second], [first, first, second]):
        assert first_fault(lines) is not None


def test_an_entry_that_was_rewritten_with_a_fresh_hash_breaks_the_next_one() -> None:
    forged, _ = seal(Event("host", "run.begun", {"n": 9}), AT, Link())
    assert first_fault([forged, *THREE[1:]]) == "entry 2 does not follow from the one before"


@pytest.mark.parametrize(
    "line",
    ["", "null", "[]", "{}", "3", '{"hash": 1}', "[" * 100_000, '{"n":1,"hash":[],"prev":{}}'],
)
def test_a_line_that_is_no_entry_is_named_and_does_not_crash(line: str) -> None:
    fault = first_fault([THREE[0], line])
    assert fault is not None
    assert "entry 2" in fault


def test_goes_on_where_an_existing_journal_ends() -> None:
    line, _ = seal(Event("host", "more", {}), AT, last_link(THREE[-1]))
    assert first_fault([*THREE, line]) is None
    assert last_link(None) == Link(0, GENESIS)


def test_an_entry_can_be_read_without_a_schema() -> None:
    assert json.loads(THREE[0])["facts"] == {"n": 0}
