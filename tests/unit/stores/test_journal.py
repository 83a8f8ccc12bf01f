import multiprocessing
import subprocess
import sys
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from forklift.core.journal import Event, last_link
from forklift.core.secret import Redactor, Secret
from forklift.errors import SetupError
from forklift.stores.journal import Journal, fault_in

AT = datetime(2026, 11, 5, 14, 3, 9, tzinfo=UTC)
BEGUN = Event("host", "run.begun", {"run": "tool_1"})


def clock() -> datetime:
    return AT


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


@pytest.fixture
def journal(path: Path) -> Generator[Journal]:
    opened = Journal(path, clock)
    yield opened
    opened.close()


def actions(path: Path) -> list[str]:
    return [line.split('"action":"')[1].split('"')[0] for line in path.read_text().splitlines()]


def test_what_is_appended_can_be_verified_and_is_private(journal: Journal, path: Path) -> None:
    journal.append(BEGUN)
    journal.append(Event("host", "git.push", {"refs": ["a", "b"]}), durable=True)
    assert fault_in(path) is None
    assert actions(path) == ["run.begun", "git.push"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_goes_on_with_the_chain_of_an_earlier_process(journal: Journal, path: Path) -> None:
    journal.append(BEGUN)
    later = Journal(path, clock)
    later.append(Event("host", "run.resumed", {}))
    later.close()
    assert fault_in(path) is None
    assert actions(path) == ["run.begun", "run.resumed"]


def test_two_writers_share_one_chain(journal: Journal, path: Path) -> None:
    other = Journal(path, clock)
    for number in range(10):
        (journal, other)[number % 2].append(Event("host", "tick", {"n": number}))
    other.close()
    assert fault_in(path) is None
    assert len(actions(path)) == 10


def append_many(path: Path) -> None:
    journal = Journal(path, clock)
    for number in range(50):
        journal.append(Event("egress", "connect", {"n": number, "pad": "x" * 2_000}))
    journal.close()


def test_processes_that_write_at_once_break_no_chain(path: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=append_many, args=(path,)) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert fault_in(path) is None
    assert len(actions(path)) == 150


@pytest.mark.parametrize("torn", ['{"n":2,"at":"20', "\0" * 500, "x" * 200_000])
def test_a_line_torn_by_a_crash_is_cut_off_and_the_cut_is_recorded(
    journal: Journal, path: Path, torn: str
) -> None:
    journal.append(BEGUN)
    with path.open("a") as file:
        file.write(torn)
    assert fault_in(path) is not None
    later = Journal(path, clock)
    later.append(Event("host", "run.resumed", {}))
    later.close()
    assert fault_in(path) is None
    assert actions(path) == ["run.begun", "journal.recovered", "run.resumed"]
    assert f'"cut_bytes":{len(torn)}' in path.read_text()


def test_a_journal_with_nothing_but_a_torn_line_begins_anew(path: Path) -> None:
    path.write_text('{"n":1')
    journal = Journal(path, clock)
    journal.append(BEGUN)
    journal.close()
    assert fault_in(path) is None
    assert actions(path) == ["journal.recovered", "run.begun"]


@pytest.mark.parametrize("line", ["not an entry", "[]", "{}", '{"n":"x","hash":"y"}'])
def test_refuses_to_go_on_after_a_whole_line_that_is_no_entry(path: Path, line: str) -> None:
    path.write_text(line + "\n")
    journal = Journal(path, clock)
    with pytest.raises(SetupError, match="damaged at its end"):
        journal.append(BEGUN)
    journal.close()
    assert path.read_text() == line + "\n"


def test_known_secrets_do_not_reach_the_journal(path: Path) -> None:
    journal = Journal(path, clock, Redactor([Secret('sk-"quoted"-secret')]))
    facts = {"error": 'bad key sk-"quoted"-secret', "tried": ['sk-"quoted"-secret'], "counts": [1]}
    journal.append(Event("model", "refused", facts))
    journal.close()
    assert "quoted" not in path.read_text()
    assert fault_in(path) is None


def test_the_end_that_is_kept_elsewhere_shows_that_entries_were_cut_off(
    journal: Journal, path: Path
) -> None:
    journal.append(BEGUN)
    journal.append(BEGUN)
    kept = journal.link
    path.write_text(path.read_text().splitlines(keepends=True)[0])
    assert fault_in(path) is None
    assert last_link(path.read_text().splitlines()[-1]) != kept


def test_a_cut_off_end_and_a_replaced_entry_are_found_by_the_end_that_was_kept(
    journal: Journal, path: Path
) -> None:
    for number in range(3):
        journal.append(Event("host", "step", {"number": number}))
    end = journal.link
    lines = path.read_text().splitlines(keepends=True)
    assert fault_in(path, end) is None
    path.write_text("".join(lines[:2]))
    assert fault_in(path, end) == "its end was cut off: 1 entries are missing"
    path.unlink()
    other = Journal(path, lambda: datetime(2024, 1, 1, tzinfo=UTC))
    for number in range(3):
        other.append(Event("host", "forged", {"number": number}))
    other.close()
    assert fault_in(path, end) == "entry 3 was replaced"


def test_a_missing_journal_is_told_in_plain_words(path: Path) -> None:
    assert fault_in(path) == "the journal cannot be read: No such file or directory"


def test_does_not_write_through_a_link(tmp_path: Path, path: Path) -> None:
    (tmp_path / "elsewhere").write_text("")
    path.symlink_to("elsewhere")
    with pytest.raises(SetupError, match="cannot write"):
        Journal(path, clock)


FILL_THE_DISK = """
import resource, sys
from datetime import UTC, datetime
from pathlib import Path
from forklift.core.journal import Event, last_link
from forklift.errors import SetupError
from forklift.stores.journal import Journal
journal = Journal(Path(sys.argv[1]), lambda: datetime(2026, 11, 5, tzinfo=UTC))
journal.append(Event("host", "first", {}))
resource.setrlimit(resource.RLIMIT_FSIZE, (400, resource.RLIM_INFINITY))
try:
    journal.append(Event("host", "second", {"pad": "x" * 1000}))
except SetupError as error:
    print(error.message)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
journal.append(Event("host", "third", {}))
"""


def test_when_there_is_no_room_no_half_line_is_left_and_it_can_go_on_later(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FILL_THE_DISK, str(path)], capture_output=True, text=True, check=True
    )
    assert "the disk is full" in done.stdout
    assert fault_in(path) is None
    assert actions(path) == ["first", "third"]
