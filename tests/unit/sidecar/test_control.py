"""The lifeline's host end, against a guest that says whatever it likes."""

import asyncio
import json
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from forklift.core.journal import Event
from forklift.errors import SetupError
from forklift.sidecar.control import Control, Job, control_socket

JOB = Job(("agent", "--go"), environment={"TOKEN": "t"}, files={"a": "b"}, setup=("make",))


class Guest:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def say(self, line: bytes) -> None:
        self.writer.write(line)
        await self.writer.drain()

    async def tell(self, **event: object) -> None:
        await self.say(json.dumps(event).encode() + b"\n")


@asynccontextmanager
async def connected(
    tmp_path: Path, events: list[Event]
) -> AsyncGenerator[tuple[Control, Guest, dict[str, object]]]:
    path = tmp_path / "c"
    async with control_socket(path, JOB, os.getuid(), os.getgid(), events.append) as control:
        guest = Guest(*await asyncio.open_unix_connection(str(path)))
        job = json.loads(await guest.reader.readline())
        try:
            yield control, guest, job
        finally:
            guest.writer.close()


async def settled(control: Control, guest: Guest) -> None:
    """Until all that the guest has said was heard."""
    await guest.tell(event="ready", canaries=["walls"])
    await asyncio.wait_for(control.ready.wait(), 10)


async def test_the_guest_is_given_its_job_on_one_line(tmp_path: Path) -> None:
    async with connected(tmp_path, []) as (control, _, job):
        assert control.connected
        assert job["argv"] == ["agent", "--go"]
        assert (job["env"], job["files"], job["setup"]) == ({"TOKEN": "t"}, {"a": "b"}, ["make"])
        assert job["doors"] == {"egress": True, "model": True}


async def test_what_init_tells_is_known_and_written_down(tmp_path: Path) -> None:
    events: list[Event] = []
    async with connected(tmp_path, events) as (control, guest, _):
        await guest.tell(event="setup", index=0, code=0)
        await guest.tell(event="setup", index=1, code=4)
        await guest.tell(event="deadline")
        await guest.tell(event="exit", code=3)
        await settled(control, guest)
        assert control.setup_failed == (1, 4)
        assert (control.exit_code, control.hit_deadline) == (3, True)
    actions = [event.action for event in events]
    assert actions == [
        "sandbox.connected", "sandbox.setup", "sandbox.setup", "sandbox.deadline", "sandbox.exit",
        "sandbox.ready",
    ]  # fmt: skip
    assert "TOKEN" not in repr(events)


async def test_a_breach_is_the_first_word_and_harmless_to_print(tmp_path: Path) -> None:
    async with connected(tmp_path, []) as (control, guest, _):
        await guest.tell(event="breach", what="a \x1b[31mgap\n" + "x" * 9000)
        await asyncio.wait_for(control.first_word(), 10)
        assert control.breach is not None
        assert control.breach.startswith("a \\x1b[31mgap x")
        assert len(control.breach) <= 200
        assert not control.ready.is_set()


async def test_nobody_else_can_connect_after_the_guest(tmp_path: Path) -> None:
    async with connected(tmp_path, []):
        with socket.socket(socket.AF_UNIX) as other, pytest.raises(OSError, match="such file"):
            other.connect(str(tmp_path / "c"))


async def test_the_end_of_the_context_is_the_end_of_the_connection(tmp_path: Path) -> None:
    path = tmp_path / "c"
    async with control_socket(path, JOB, os.getuid(), os.getgid(), lambda _: None):
        guest = Guest(*await asyncio.open_unix_connection(str(path)))
        await guest.reader.readline()
    assert await asyncio.wait_for(guest.reader.read(), 10) == b""
    guest.writer.close()


async def test_a_guest_that_never_connects_is_tolerated(tmp_path: Path) -> None:
    path = tmp_path / "c"
    async with control_socket(path, JOB, os.getuid(), os.getgid(), lambda _: None) as control:
        assert path.stat().st_mode & 0o777 == 0o600
    assert not control.connected
    assert not path.exists()
    await asyncio.wait_for(control.first_word(), 10)


async def test_a_guest_that_goes_away_has_said_its_last_word(tmp_path: Path) -> None:
    async with connected(tmp_path, []) as (control, guest, _):
        guest.writer.close()
        await asyncio.wait_for(control.first_word(), 10)
        assert control.exit_code is None


@pytest.mark.parametrize(
    "line",
    [
        b"not json\n", b"[]\n", b"null\n", b"\xff\xfe\n", b"\n", b'{"event": ["ready"]}\n',
        b"[" * 5000 + b"\n", b'{"event": "unheard of"}\n', b'{"event": NaN}\n',
    ],
)  # fmt: skip
async def test_nonsense_is_passed_over(tmp_path: Path, line: bytes) -> None:
    events: list[Event] = []
    async with connected(tmp_path, events) as (control, guest, _):
        await guest.say(line)
        await settled(control, guest)
    assert [event.action for event in events] == ["sandbox.connected", "sandbox.ready"]


@pytest.mark.parametrize("code", ["7", None, 1.5, [], {}, True])
async def test_a_code_that_is_no_number_is_a_failure(tmp_path: Path, code: object) -> None:
    async with connected(tmp_path, []) as (control, guest, _):
        await guest.tell(event="exit", code=code)
        await settled(control, guest)
        assert control.exit_code == (1 if code is True else -1)


async def test_a_number_is_cut_to_what_a_code_can_be(tmp_path: Path) -> None:
    async with connected(tmp_path, []) as (control, guest, _):
        await guest.tell(event="exit", code=10**400)
        await settled(control, guest)
        assert control.exit_code == 255


async def test_a_guest_that_says_too_much_is_heard_no_more_and_not_cut_off(
    tmp_path: Path,
) -> None:
    events: list[Event] = []
    async with connected(tmp_path, events) as (control, guest, _):
        await guest.say(b"x" * 100_000)
        await asyncio.wait_for(control.first_word(), 10)
        await guest.tell(event="exit", code=0)
        assert control.exit_code is None
        assert not guest.reader.at_eof()


async def test_a_flood_of_events_does_not_fill_the_journal(tmp_path: Path) -> None:
    events: list[Event] = []
    async with connected(tmp_path, events) as (control, guest, _):
        line = b'{"event": "setup", "index": 0, "code": 1}\n'
        for _ in range(20):
            await guest.say(line * 100)
        await asyncio.sleep(0)
        assert control.setup_failed in (None, (0, 1))
    assert len(events) <= 1001


async def test_a_path_too_long_for_a_socket_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="XDG_RUNTIME_DIR"):
        async with control_socket(tmp_path / ("x" * 110), JOB, 0, 0, lambda _: None):
            pass


async def test_a_missing_folder_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="control socket"):
        async with control_socket(tmp_path / "none" / "c", JOB, 0, 0, lambda _: None):
            pass
