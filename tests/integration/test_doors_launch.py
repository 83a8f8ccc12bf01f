import asyncio
import contextlib
import os
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from forklift.core.journal import Event
from forklift.errors import SetupError
from forklift.sidecar.launch import EGRESS_SOCKET, MODEL_SOCKET, DoorsSpec, open_doors
from forklift.sidecar.policy import EgressMode, EgressPolicy, ModelPolicy
from forklift.testing.doors import TOKEN, Journal, model_policy, origin
from forklift.testing.scripted_model import Say, ScriptedModel

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


def spec(
    directory: Path, egress: EgressPolicy | None = None, model: ModelPolicy | None = None
) -> DoorsSpec:
    return DoorsSpec(directory, egress or EgressPolicy(), model, os.getuid(), os.getgid())


def children() -> dict[int, bytes]:
    """The sidecars of this process, by pid, with their command lines."""
    found: dict[int, bytes] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (entry / "cmdline").read_bytes()
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"forklift.sidecar" in command:
                found[int(entry.name)] = command
    return found


async def say(path: Path, raw: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(raw)
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    return answer


async def test_both_doors_serve_and_what_they_did_is_recorded(tmp_path: Path) -> None:
    journal = Journal()
    with ScriptedModel([Say("hi")], title=None) as server:
        async with origin(ANSWER) as mirror:
            egress = EgressPolicy(allow_private=(mirror.pair,))
            model = model_policy(server.base_url, key=server.key)
            async with open_doors(spec(tmp_path, egress, model), journal) as doors:
                fetched = await say(
                    tmp_path / EGRESS_SOCKET, f"GET http://{mirror.pair}/ HTTP/1.1\r\n\r\n".encode()
                )
                transport = httpx2.AsyncHTTPTransport(uds=str(tmp_path / MODEL_SOCKET))
                async with httpx2.AsyncClient(transport=transport, timeout=20) as client:
                    answer = await client.post(
                        "http://127.0.0.1:4000/v1/chat/completions",
                        json={"model": "m-1", "messages": []},
                        headers={"Authorization": f"Bearer {TOKEN}"},
                    )
            used = await doors.usage()
    assert fetched.endswith(b"hello")
    assert answer.status_code == 200
    assert (used.requests, used.input_tokens, used.output_tokens) == (1, 1000, 50)
    assert {event.action for event in journal.events} == {"egress.request", "model.request"}
    assert {event.actor for event in journal.events} == {"egress", "model"}
    assert not doors.budget_reached


async def test_the_sockets_are_the_guests_alone_and_gone_afterwards(tmp_path: Path) -> None:
    uid = 1234 if os.geteuid() == 0 else os.getuid()
    asked = replace(spec(tmp_path), guest_uid=uid, guest_gid=uid)
    async with open_doors(asked, Journal()):
        found = (tmp_path / EGRESS_SOCKET).stat()
        assert stat.S_IMODE(found.st_mode) == 0o600
        assert found.st_uid == uid
        assert not (tmp_path / MODEL_SOCKET).exists()
    assert list(tmp_path.iterdir()) == []
    assert children() == {}


async def test_neither_key_nor_environment_can_be_seen_from_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITEA_TOKEN", "forge-token-123456")
    model = model_policy("http://127.0.0.1:9/v1", key="very-secret-key")
    async with open_doors(spec(tmp_path, model=model), Journal()):
        pids = children()
        assert len(pids) == 2
        for pid, command in pids.items():
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            for secret in (b"very-secret-key", b"forge-token-123456", TOKEN.encode()):
                assert secret not in command + environment
            assert b"0 " in _limit(pid, "Max core file size")


def _limit(pid: int, name: str) -> bytes:
    lines = Path(f"/proc/{pid}/limits").read_bytes().splitlines()
    return next(line for line in lines if line.startswith(name.encode()))


async def test_a_door_that_dies_is_told_at_once(tmp_path: Path) -> None:
    async with open_doors(spec(tmp_path), Journal()) as doors:
        failing = asyncio.create_task(doors.failure())
        await asyncio.sleep(0)
        assert not failing.done()
        os.kill(next(iter(children())), signal.SIGKILL)
        assert await asyncio.wait_for(failing, 20) == "the egress door was ended by SIGKILL"


_HOST = """
import asyncio, sys
from pathlib import Path
from forklift.sidecar.launch import DoorsSpec, open_doors
from forklift.sidecar.policy import EgressPolicy
from forklift.testing.doors import model_policy
async def main():
    model = model_policy("http://127.0.0.1:9/v1")
    async with open_doors(DoorsSpec(Path(sys.argv[1]), EgressPolicy(), model, 0, 0), print):
        print("open", flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


async def test_killing_the_host_ends_its_doors(tmp_path: Path) -> None:
    host = subprocess.Popen(  # noqa: ASYNC220  # a second host, to be killed
        [sys.executable, "-c", _HOST, str(tmp_path)], stdout=subprocess.PIPE
    )
    assert host.stdout is not None
    with host, host.stdout:
        assert host.stdout.readline() == b"open\n"
        connections = [
            await asyncio.open_unix_connection(str(tmp_path / name))
            for name in (EGRESS_SOCKET, MODEL_SOCKET)
        ]
        host.kill()
        for reader, writer in connections:
            # A reset where the door had not yet accepted, an end where it had.
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.wait_for(reader.read(), 20) == b""
            writer.close()
    for name in (EGRESS_SOCKET, MODEL_SOCKET):
        await _refused(tmp_path / name)


async def _refused(path: Path) -> None:
    async with asyncio.timeout(20):
        while True:
            try:
                _, writer = await asyncio.open_unix_connection(str(path))
            except ConnectionRefusedError:
                return
            writer.close()


async def test_ctrl_c_in_the_terminal_does_not_close_the_doors(tmp_path: Path) -> None:
    async with open_doors(spec(tmp_path), Journal()):
        (pid,) = children()
        assert os.getsid(pid) == pid, "in the terminal's session it would get the signal"


async def test_the_budgets_end_is_seen_by_the_host(tmp_path: Path) -> None:
    with ScriptedModel([Say("hi")], title=None) as server:
        policy = model_policy(server.base_url, key=server.key)
        policy = replace(policy, budget=replace(policy.budget, requests=1))
        body = b'{"model":"m-1","messages":[]}'
        head = f"POST /v1/chat/completions HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n"
        head += f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        async with open_doors(spec(tmp_path, model=policy), Journal()) as doors:
            answers = [await say(tmp_path / MODEL_SOCKET, head.encode() + body) for _ in range(2)]
    assert [answer[9:12] for answer in answers] == [b"200", b"402"]
    assert doors.budget_reached


async def test_a_socket_path_that_is_too_long_is_a_plain_error(tmp_path: Path) -> None:
    directory = tmp_path / ("x" * 100)
    directory.mkdir()
    with pytest.raises(SetupError, match="107 are allowed; set XDG_RUNTIME_DIR"):
        async with open_doors(spec(directory), Journal()):
            pass


async def test_a_missing_directory_a_bad_address_and_a_bad_ca_are_plain_errors(
    tmp_path: Path,
) -> None:
    bad_url = model_policy("ftp://example.org/v1")
    bad_ca = replace(model_policy("https://example.org/v1"), extra_ca=str(tmp_path / "no.pem"))
    bad_pair = EgressPolicy(allow_private=("mirror.example.org",))
    for wrong, words in (
        (spec(tmp_path / "none"), "the egress door cannot open: .*No such file"),
        (spec(tmp_path, model=bad_url), "not an http:// or https:// URL"),
        (spec(tmp_path, model=bad_ca), "the model door cannot open: .*No such file"),
        (spec(tmp_path, bad_pair), "egress: .*write for example 10.0.0.5:443"),
    ):
        with pytest.raises(SetupError, match=words):
            async with open_doors(wrong, Journal()):
                pass
        assert children() == {}


async def test_a_journal_that_cannot_be_written_closes_the_door(tmp_path: Path) -> None:
    def full(_: Event) -> None:
        raise OSError("no space left on device")

    egress = EgressPolicy(EgressMode.NONE)
    async with open_doors(spec(tmp_path, egress), full) as doors:
        await say(tmp_path / EGRESS_SOCKET, b"CONNECT a.example.org:443 HTTP/1.1\r\n\r\n")
        reason = await asyncio.wait_for(doors.failure(), 20)
    assert "cannot be recorded: no space left" in reason


async def test_a_socket_that_a_killed_run_left_behind_is_no_obstacle(tmp_path: Path) -> None:
    async with open_doors(spec(tmp_path), Journal()):
        os.kill(next(iter(children())), signal.SIGKILL)
    async with open_doors(spec(tmp_path), Journal()):
        pass
    (tmp_path / EGRESS_SOCKET).write_text("a file of somebody's")
    with pytest.raises(SetupError, match="Address already in use"):
        async with open_doors(spec(tmp_path), Journal()):
            pass
