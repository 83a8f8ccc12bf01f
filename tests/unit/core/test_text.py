import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forklift.core.text import code, harmless, one_line, quoted

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))
STEERING = {"Cc", "Cs", "Zl", "Zp"}


@given(ANY_TEXT)
def test_harmless_text_holds_nothing_that_steers_a_terminal(text: str) -> None:
    for char in harmless(text):
        assert char in "\t\n" or unicodedata.category(char) not in STEERING


@given(ANY_TEXT)
def test_harmless_text_can_be_written_anywhere_and_stays_the_same(text: str) -> None:
    calm = harmless(text)
    calm.encode()
    assert harmless(calm) == calm


@pytest.mark.parametrize(
    "char",
    ["\x1b", "\r", "\x00", "\x7f", "\x9b", "\u202e", "\u2066", "\u200b", "\ufeff", "\U000e0041",
     "\udc80", "\U000e0101"],
)  # fmt: skip
def test_shows_a_dangerous_character_as_its_escape(char: str) -> None:
    assert char not in harmless(f"a{char}b")
    assert "\\" in harmless(f"a{char}b")


@pytest.mark.parametrize("text", ["naïve — “quotes”", "日本語", "emoji 🙂", "tab\tand\nline"])
def test_leaves_ordinary_text_alone(text: str) -> None:
    assert harmless(text) == text


def test_windows_line_ends_become_plain_ones() -> None:
    assert harmless("a\r\nb") == "a\nb"


@given(ANY_TEXT, st.integers(min_value=1, max_value=300))
def test_one_line_is_one_line_of_at_most_the_limit(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert len(line.splitlines()) <= 1


@given(ANY_TEXT)
def test_a_quote_cannot_be_left_and_mentions_nobody(text: str) -> None:
    for line in quoted(text).split("\n"):
        assert line.startswith(">")
    for mark in ("@", "#", "!"):
        assert all(rest.startswith("\u200b") for rest in quoted(text).split(mark)[1:])
    assert "<" not in quoted(text)
    assert "://" not in quoted(text)


@pytest.mark.parametrize("text", ["Fixes #12", "closes acme/tool#3", "RESOLVED !4", "Closed: GH-5"])
def test_a_quote_closes_no_issue(text: str) -> None:
    first_word = text.split(maxsplit=1)[0].strip(":")
    assert first_word not in quoted(text)


@given(ANY_TEXT)
def test_inline_code_cannot_end_early(text: str) -> None:
    shown = code(text)
    fence = len(shown) - len(shown.lstrip("`"))
    inside = shown[fence:-fence]
    assert "\n" not in shown
    assert "`" * fence not in inside
