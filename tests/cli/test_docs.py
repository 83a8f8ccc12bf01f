"""The documentation is true: what can be compared with the code is."""

import ast
import re
import shlex
from collections.abc import Iterator

import pytest

from forklift.cli.app import COMMANDS
from forklift.cli.exit_codes import EXIT_CODES
from forklift.core.outcome import ERROR_WORDS, WORDS
from scripts import reference
from tests.support.pages import ROOT, Page, all_pages

README = Page(ROOT / "README.md")
SOURCES = [
    path for path in (ROOT / "src/forklift").rglob("*.py") if "testing" not in path.parts
]  # fmt: skip
COMMAND = re.compile(r'(?:^|[\s;&|(]|\$ |bin/)forklift"?(?=\s|$)(.*)')
OPERATORS = {"&&", "||", "|", ";", ">", "<", "&", "2>&1"}


@pytest.mark.parametrize("name", list(reference.pages()))
def test_generated_pages_are_up_to_date(name: str) -> None:
    on_disk = (reference.PAGES / name).read_text(encoding="utf-8")
    assert on_disk == reference.pages()[name], "run: make docs"


def command_lines(page: Page) -> Iterator[str]:
    for block in page.blocks():
        for line in block.text.splitlines():
            if block.language == "sh" or "$ forklift" in line or "bin/forklift" in line:
                yield line
    for span in re.findall(r"`(forklift(?: [^`]*)?)`", page.prose()):
        if not span.endswith(":"):  # what is printed, not what is typed
            yield span.replace("\n", " ")


def commands() -> list[tuple[str, str]]:
    found = {
        (page.name, match[1].strip())
        for page in all_pages()
        for line in command_lines(page)
        if (match := COMMAND.search(line))
    }
    return sorted(found)


def arguments(text: str) -> list[str]:
    words = shlex.split(text, comments=True)
    end = next((i for i, word in enumerate(words) if word in OPERATORS), len(words))
    return words[:end]


@pytest.mark.parametrize(("page", "text"), commands())
def test_every_command_line_is_one_that_the_command_understands(page: str, text: str) -> None:
    words = arguments(text)
    if words[:1] in (["--help"], ["--version"]):
        return
    name = words.pop(0) if words and not words[0].startswith("-") else "sync"
    if name in COMMANDS and not words:
        return  # prose that names a command
    reference.parser_of(name).parse_args([word for word in words if word != "--help"])


@pytest.mark.parametrize("page", list(all_pages()), ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Page) -> None:
    assert [link for link in page.links() if not leads_somewhere(page, link)] == []


def leads_somewhere(page: Page, link: str) -> bool:
    target, _, anchor = link.partition("#")
    place = (page.path.parent / target).resolve() if target else page.path
    return place.exists() and (not anchor or anchor in Page(place).anchors())


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached: set[str] = set()
    waiting = [README]
    while waiting:
        page = waiting.pop()
        if page.name in reached:
            continue
        reached.add(page.name)
        targets = [(page.path.parent / link.partition("#")[0]).resolve() for link in page.links()]
        waiting += [Page(path) for path in targets if path.suffix == ".md" and path.exists()]
    assert [page.name for page in all_pages() if page.name not in reached] == []


def test_the_readme_and_the_reference_have_every_exit_code_and_every_word() -> None:
    for text in (README.section("Exit codes"), reference.exit_codes_page()):
        for word, code in EXIT_CODES.items():
            assert re.search(rf"\b{word}\b", text), word
            assert re.search(rf"\b{code}\b", text), code
        for word in {*WORDS.values(), *ERROR_WORDS.values()}:
            assert f"`{word}`" in text


def test_every_variable_of_forklifts_is_documented() -> None:
    internal = {
        "FORKLIFT_GIT_PASSWORD",
        "FORKLIFT_GIT_USER",
    }  # from the host to the git it starts, and no further
    places = [*SOURCES, *(ROOT / "scripts").iterdir(), *(ROOT / "docker").rglob("*")]
    code = "".join(path.read_text(errors="replace") for path in places if path.is_file())
    documented = "".join(page.text for page in all_pages())
    used = set(re.findall(r"\bFORKLIFT_[A-Z_]*[A-Z]\b", code))
    assert {name for name in used - internal if name not in documented} == set()


def journal_actions() -> set[str]:
    actions: set[str] = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                actions.add(node.value)
    pattern = re.compile(r"(run|result|git|forge|sandbox|egress|model|journal)\.[a-z]+(_[a-z]+)*")
    files = re.compile(r".*\.(sock|py|log|git|jsonl|mount|parcel|bundle)")
    return {text for text in actions if pattern.fullmatch(text) and not files.fullmatch(text)}


def test_the_journals_page_has_every_action_that_is_written_and_no_other() -> None:
    page = Page(ROOT / "docs/reference/journal.md").text
    listed = set(re.findall(r"^\| `([a-z_.]+)` \|", page, re.MULTILINE))
    composed = {
        "forge.pull_request_opened", "forge.pull_request_updated",
        "egress.unlisted", "model.unlisted",
    }  # fmt: skip
    assert listed == journal_actions() | composed


def test_the_index_of_decisions_has_them_all() -> None:
    index = Page(ROOT / "docs/decisions/README.md")
    there = {path.name for path in index.path.parent.glob("*.md")} - {"README.md"}
    assert {link for link in index.links() if "/" not in link} == there


def test_no_two_decisions_have_one_number() -> None:
    numbers = [path.name[:4] for path in (ROOT / "docs/decisions").glob("[0-9]*.md")]
    assert sorted(numbers) == sorted(set(numbers))


def promises() -> list[tuple[str, str]]:
    text = Page(ROOT / "SECURITY.md").section("What is promised")
    return re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", text)


@pytest.mark.parametrize(("file", "test"), promises())
def test_every_promise_of_the_security_page_has_the_test_it_names(file: str, test: str) -> None:
    assert re.search(rf"^ *(async )?def {test}\(", (ROOT / file).read_text(), re.MULTILINE)


def test_every_row_of_promises_names_a_test() -> None:
    rows = re.findall(
        r"^\| (?!promise|---).*",
        Page(ROOT / "SECURITY.md").section("What is promised"),
        re.MULTILINE,
    )
    assert len(rows) == len(promises()) > 0


def test_contributors_are_shown_targets_and_places_that_exist() -> None:
    page = Page(ROOT / "CONTRIBUTING.md")
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert (
        set(re.findall(r"\bmake ([a-z]+)(?= |`|$)", page.text, re.MULTILINE)) - {"the"} <= targets
    )
    places = re.findall(r"`([a-z_]+/[\w./]*)`", page.section("Find the room for your change"))
    assert [place for place in places if not (ROOT / "src/forklift" / place).exists()] == []


def test_what_the_readme_says_it_says_is_what_it_says() -> None:
    code = "".join(path.read_text() for path in SOURCES)
    said = re.sub(r'"\s*\n\s*f?"', "", code)
    rows = re.findall(r"^\| (.+?) \|", README.section("When something is wrong"), re.MULTILINE)
    for row in rows[2:]:
        fragments = re.split(r"…|'\w+'|: |[\w-]+/[\w-]+:\w+", row)
        for fragment in filter(None, (text.strip() for text in fragments)):
            assert fragment in said, row
