import pytest

from forklift.core.fork_notes import ForkNotes, parse
from forklift.errors import SetupError


def complaint_about(text: str) -> str:
    with pytest.raises(SetupError) as caught:
        parse(text)
    assert "\n" not in caught.value.message
    return caught.value.message


def test_reads_commands_and_paths_from_the_front_matter_and_the_rest_as_prose() -> None:
    notes = parse(
        "---\n# how to build\nsetup: npm ci\ntest: [npm test, npm run lint]\nprotect:\n"
        "  - /src/auth\n  - '*.lock'\n---\n\n# Our fork\n\nKeep the login.\n"
    )
    assert notes == ForkNotes(
        prose="# Our fork\n\nKeep the login.\n",
        setup=("npm ci",),
        test=("npm test", "npm run lint"),
        protect=("/src/auth", "*.lock"),
    )


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_reads_front_matter_whatever_the_line_ends_and_with_a_byte_order_mark(ends: str) -> None:
    assert parse("\ufeff---\ntest: make\n---\nprose".replace("\n", ends)).test == ("make",)


def test_a_command_may_span_lines() -> None:
    assert parse("---\ntest: |\n  make\n  make check\n---\n").test == ("make\nmake check",)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Just prose.\n",
        "---\n\nProse under a horizontal rule.\n",
        "---\nProse right under a rule.\n---\nMore.\n",
        "---\n\nNote: keep the login.\n\n---\nMore.\n",
        "---\n- a list\n- of: things\n---\n",
        "---\n---\n",
        "----\ntest: make\n----\n",
    ],
)
def test_prose_that_begins_with_a_rule_is_prose(text: str) -> None:
    assert parse(text) == ForkNotes(prose=text)


def test_names_an_unknown_key_its_line_and_the_likely_meaning() -> None:
    message = complaint_about("---\nsetup: make\ntests: make check\n---\n")
    assert "line 3" in message
    assert "'tests'" in message
    assert "did you mean 'test'?" in message


def test_says_how_to_write_a_horizontal_rule_where_a_key_is_far_from_any_known_one() -> None:
    assert "blank line" in complaint_about("---\nNote: keep the login.\n---\n")


def test_front_matter_that_is_never_closed_is_an_error_and_no_prose() -> None:
    assert "never closed" in complaint_about("---\ntest: make\n\nProse.\n")
    assert "never closed" in complaint_about("---\n\ntest: make\n")


@pytest.mark.parametrize(
    ("front_matter", "line", "words"),
    [
        ("test: 'make", 2, "YAML"),
        ("setup: a\n\ttest: b", 3, "YAML"),
        ("test: true", 2, "quotes"),
        ("test: 3", 2, "quotes"),
        ("test: {a: b}", 2, "string or a list"),
        ("test:\n  - make\n  - [a]", 4, "string or a list"),
        ("test: a\ntest: b", 3, "twice"),
        ("test: !!python/object/apply:os.system [id]", 2, "quotes"),
        ('test: "a\\0b"', 2, "NUL"),
        ("test: &a make\nsetup: *a", 3, "aliases"),
        ("test: [[[[[[a]]]]]]", 2, "deep"),
        ("test: a\n- b", 3, "YAML"),
    ],
)
def test_names_the_line_of_what_cannot_be_understood(
    front_matter: str, line: int, words: str
) -> None:
    message = complaint_about(f"---\n{front_matter}\n---\nprose\n")
    assert f"line {line}" in message
    assert words in message


@pytest.mark.parametrize("pattern", ["!keep", "a\\\\b", "../secrets", "/"])
def test_refuses_a_protected_path_that_could_never_match(pattern: str) -> None:
    assert "protect" in complaint_about(f'---\nprotect: ["{pattern}"]\n---\n')


def test_refuses_front_matter_that_is_too_large_to_be_honest() -> None:
    assert "16 KiB" in complaint_about("---\ntest: " + "a" * 20_000 + "\n---\n")


def test_brackets_without_end_neither_crash_nor_stall() -> None:
    assert "deep" in complaint_about("---\ntest: " + "[" * 10_000 + "\n---\n")


def test_an_empty_value_means_none() -> None:
    assert parse("---\nsetup:\ntest: ''\nprotect: []\n---\nprose") == ForkNotes(prose="prose")
