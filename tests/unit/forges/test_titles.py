"""Draft marks in titles."""

import pytest

from forklift.forges.titles import is_marked, marked, unmarked


@pytest.mark.parametrize(
    "title",
    ["WIP: x", "wip:x", "[WIP] x", "Draft: x", "DRAFT : x", "[draft]x", "(Draft) x", " WIP: x"],
)
def test_every_mark_of_a_draft_is_known_and_taken_off(title: str) -> None:
    assert is_marked(title)
    assert unmarked(title) == "x"


@pytest.mark.parametrize("title", ["x", "Draft horses", "wipe: x", "A WIP: x", "drafts: x"])
def test_an_ordinary_title_is_none(title: str) -> None:
    assert not is_marked(title)
    assert marked(title) == title


def test_a_title_gets_one_mark_however_many_it_had() -> None:
    assert marked("WIP: Draft: x", "WIP:") == "WIP: x"


def test_a_title_that_is_nothing_but_marks_gets_words() -> None:
    assert marked("WIP: [WIP]") == "untitled"
