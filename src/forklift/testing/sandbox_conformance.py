"""What every sandbox backend must do, as a class of tests to derive from.

A backend's own test module derives `SandboxConformance`, gives the fixture `world`, and lets
pytest collect the class. `shell_argv` spells the guest's few verbs for backends that run real
programs; `guest_program` plays them for `MemorySandboxes`.
"""

import asyncio
import contextlib
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from forklift.errors import ForkliftError, SandboxUnavailable, SetupError, UnsafeOutput
from forklift.sandboxes.port import Mount, Owner, Sandboxes, SandboxSpec
from forklift.testing.sandbox_memory import GuestView

_SCRIPTS = {
    "exit": 'exit "$1"',
    "print": 'printf %s "$1"',
    "flood": 'head -c "$1" /dev/zero | tr "\\0" x; printf "the end"',
    "environment": 'printf %s "$(printenv "$1")"',
    "write": 'printf %s "$2" >"$1"',
    "read": 'cat "$1"',
    "sleep": "printf awake; exec sleep 600",
}


def shell_argv(verb: str, *arguments: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", _SCRIPTS[verb], "sh", *arguments)


async def guest_program(view: GuestView) -> int:
    """The same verbs for `MemorySandboxes`, under the name `guest`."""
    _, verb, *arguments = view.argv
    match verb, arguments:
        case "exit", [code]:
            return int(code)
        case "print", [text]:
            await view.print(text)
        case "flood", [count]:
            await view.print(b"x" * int(count) + b"the end")
        case "environment", [name]:
            await view.print(view.environment.get(name, ""))
        case "write", [path, text]:
            view.path(path, write=True).write_text(text)
        case "read", [path]:
            await view.print(view.path(path).read_bytes())
        case _:
            await view.print("awake")
            await asyncio.sleep(600)
    return 0


def memory_argv(verb: str, *arguments: str) -> tuple[str, ...]:
    return ("guest", verb, *arguments)


@dataclass
class World:
    """A backend under test, and how its guests are told what to do."""

    sandboxes: Sandboxes
    argv: Callable[..., tuple[str, ...]]
    image: str
    digest: str
    uid: int = 1000
    gid: int = 1000
    # Not a real process: a reaper that runs beside these tests cannot judge it.
    owner: Owner = field(default_factory=lambda: Owner(1, 1, f"conformance/{uuid.uuid4().hex}"))
    names: list[str] = field(default_factory=list[str])

    def spec(self, verb: str, *arguments: str, mounts: tuple[Mount, ...] = ()) -> SandboxSpec:
        name = f"forklift-conformance-{uuid.uuid4().hex[:12]}"
        self.names.append(name)
        return SandboxSpec(
            name=name,
            run_id="conformance",
            owner=self.owner,
            deadline=datetime.now(UTC) + timedelta(minutes=5),
            image=self.digest,
            uid=self.uid,
            gid=self.gid,
            mounts=mounts,
            argv=self.argv(verb, *arguments),
            workdir="/",
        )

    async def printed(self, spec: SandboxSpec) -> bytes:
        sandbox = await self.sandboxes.start(spec)
        await sandbox.wait()
        return await sandbox.output(1 << 20)

    async def reap_own(self) -> list[str]:
        """Reap as if this world's owner had died; the names of its own that were found."""
        gone = await self.sandboxes.reap(lambda owner: owner == self.owner, datetime.now(UTC))
        return [name for name in gone if name in self.names]

    async def tidy(self) -> None:
        for name in self.names:
            with contextlib.suppress(ForkliftError):
                await self.sandboxes.destroy(name)


class SandboxConformance:
    """Derive, and override the fixture `world`; call `tidy` when it is done."""

    @pytest.fixture
    def world(self) -> World:
        raise NotImplementedError("derive this class and give the backend to test")

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """A folder that the guest may write to."""
        folder = tmp_path / "writable"
        folder.mkdir()
        folder.chmod(0o777)  # whoever the guest is
        return folder

    async def test_the_probe_names_the_backend_and_its_version(self, world: World) -> None:
        name, _, version = (await world.sandboxes.probe()).partition(" ")
        assert name
        assert version

    async def test_an_image_is_found_with_its_digest_and_harness(self, world: World) -> None:
        image = await world.sandboxes.find_image(world.image)
        assert (image.name, image.digest) == (world.image, world.digest)
        assert image.harness

    async def test_a_missing_image_is_named_in_the_refusal(self, world: World) -> None:
        with pytest.raises(SandboxUnavailable, match=r"forklift/no-such-image:1"):
            await world.sandboxes.find_image("forklift/no-such-image:1")

    async def test_the_exit_code_is_the_programs_own(self, world: World) -> None:
        sandbox = await world.sandboxes.start(world.spec("exit", "7"))
        end = await sandbox.wait()
        assert (end.code, end.out_of_memory) == (7, False)

    async def test_waiting_twice_gives_the_same_end(self, world: World) -> None:
        sandbox = await world.sandboxes.start(world.spec("exit", "5"))
        both = await asyncio.gather(sandbox.wait(), sandbox.wait())
        assert [end.code for end in [*both, await sandbox.wait()]] == [5, 5, 5]

    async def test_a_sandbox_knows_its_spec(self, world: World) -> None:
        spec = world.spec("exit", "0")
        sandbox = await world.sandboxes.start(spec)
        assert sandbox.spec == spec

    async def test_what_was_printed_can_be_read(self, world: World) -> None:
        assert await world.printed(world.spec("print", "hello")) == b"hello"

    async def test_of_much_output_the_last_part_is_given(self, world: World) -> None:
        sandbox = await world.sandboxes.start(world.spec("flood", "300000"))
        await sandbox.wait()
        assert await sandbox.output(9) == b"xxthe end"
        assert await sandbox.output(0) == b""

    async def test_the_environment_reaches_the_guest(self, world: World) -> None:
        spec = replace(world.spec("environment", "TOKEN"), environment={"TOKEN": "a b\nc=$d"})
        assert await world.printed(spec) == b"a b\nc=$d"

    async def test_what_is_written_to_a_writable_mount_stays(
        self, world: World, folder: Path
    ) -> None:
        mounts = (Mount(folder, "/harness-state", writable=True),)
        await world.printed(world.spec("write", "/harness-state/note", "kept", mounts=mounts))
        assert (folder / "note").read_text() == "kept"

    async def test_a_read_only_mount_can_be_read_and_not_written(
        self, world: World, folder: Path
    ) -> None:
        (folder / "note").write_text("ours")
        mounts = (Mount(folder, "/run/forklift"),)
        seen = await world.printed(world.spec("read", "/run/forklift/note", mounts=mounts))
        sandbox = await world.sandboxes.start(
            world.spec("write", "/run/forklift/note", "theirs", mounts=mounts)
        )
        assert (await sandbox.wait()).code != 0
        assert (seen, (folder / "note").read_text()) == (b"ours", "ours")

    async def test_a_killed_sandbox_has_ended(self, world: World) -> None:
        sandbox = await world.sandboxes.start(world.spec("sleep"))
        await sandbox.kill()
        assert (await sandbox.wait()).code == 137

    async def test_killing_what_has_ended_is_no_error(self, world: World) -> None:
        sandbox = await world.sandboxes.start(world.spec("exit", "0"))
        await sandbox.wait()
        await sandbox.kill()
        await sandbox.kill()
        assert (await sandbox.wait()).code == 0

    async def test_a_name_that_is_taken_is_refused_and_the_first_lives_on(
        self, world: World
    ) -> None:
        spec = world.spec("sleep")
        first = await world.sandboxes.start(spec)
        with pytest.raises(SandboxUnavailable, match="already"):
            await world.sandboxes.start(spec)
        await first.kill()
        assert (await first.wait()).code == 137

    async def test_a_program_that_does_not_exist_is_refused_and_leaves_nothing(
        self, world: World
    ) -> None:
        spec = replace(world.spec("sleep"), argv=("/no/such/program",))
        with pytest.raises(SandboxUnavailable, match="no such file or directory"):
            await world.sandboxes.start(spec)
        assert await world.reap_own() == []

    async def test_an_image_that_is_gone_is_refused(self, world: World) -> None:
        spec = replace(world.spec("exit", "0"), image="sha256:" + "0" * 64)
        with pytest.raises(SandboxUnavailable, match="image"):
            await world.sandboxes.start(spec)

    async def test_a_mount_whose_source_is_missing_is_refused(
        self, world: World, tmp_path: Path
    ) -> None:
        spec = world.spec("exit", "0", mounts=(Mount(tmp_path / "missing", "/workspace"),))
        with pytest.raises(SandboxUnavailable):
            await world.sandboxes.start(spec)
        assert not (tmp_path / "missing").exists()

    async def test_a_cancelled_start_leaves_nothing_behind(self, world: World) -> None:
        starting = asyncio.ensure_future(world.sandboxes.start(world.spec("sleep")))
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert await world.reap_own() == []

    async def test_destroying_frees_the_name(self, world: World) -> None:
        spec = world.spec("sleep")
        await world.sandboxes.start(spec)
        await world.sandboxes.destroy(spec.name)
        await world.sandboxes.start(spec)

    async def test_destroying_what_is_not_there_is_no_error(self, world: World) -> None:
        spec = world.spec("exit", "0")
        await world.sandboxes.destroy(spec.name)
        await world.sandboxes.start(spec)
        await world.sandboxes.destroy(spec.name)
        await world.sandboxes.destroy(spec.name)
        assert await world.reap_own() == []

    async def test_a_frozen_sandbox_is_forgotten_and_its_files_stay(
        self, world: World, folder: Path
    ) -> None:
        mounts = (Mount(folder, "/harness-state", writable=True),)
        spec = world.spec("write", "/harness-state/note", "kept", mounts=mounts)
        sandbox = await world.sandboxes.start(spec)
        await sandbox.wait()
        await sandbox.freeze()
        assert await world.reap_own() == []
        thawed = replace(spec, argv=world.argv("read", "/harness-state/note"))
        resumed = await world.sandboxes.resume(thawed)
        await resumed.wait()
        assert await resumed.output(100) == b"kept"

    async def test_resuming_ends_a_leftover_of_that_name(self, world: World) -> None:
        spec = world.spec("sleep")
        await world.sandboxes.start(spec)
        resumed = await world.sandboxes.resume(replace(spec, argv=world.argv("exit", "3")))
        assert (await resumed.wait()).code == 3

    async def test_a_capture_is_exactly_what_was_printed(
        self, world: World, tmp_path: Path
    ) -> None:
        into = tmp_path / "captured"
        end = await world.sandboxes.capture(world.spec("flood", "100000"), into, 1 << 20)
        assert end.code == 0
        assert into.read_bytes() == b"x" * 100000 + b"the end"
        assert into.stat().st_mode & 0o777 == 0o600

    async def test_a_capture_gives_the_exit_code_and_leaves_nothing_behind(
        self, world: World, tmp_path: Path
    ) -> None:
        end = await world.sandboxes.capture(world.spec("exit", "127"), tmp_path / "it", 100)
        assert end.code == 127
        assert await world.reap_own() == []

    async def test_a_capture_as_long_as_its_limit_passes(
        self, world: World, tmp_path: Path
    ) -> None:
        await world.sandboxes.capture(world.spec("print", "12345"), tmp_path / "it", 5)
        assert (tmp_path / "it").read_bytes() == b"12345"

    async def test_a_capture_over_its_limit_is_unsafe_and_leaves_nothing(
        self, world: World, tmp_path: Path
    ) -> None:
        with pytest.raises(UnsafeOutput, match="1000"):
            await world.sandboxes.capture(world.spec("flood", "5000000"), tmp_path / "it", 1000)
        assert not (tmp_path / "it").exists()
        assert await world.reap_own() == []

    async def test_a_capture_never_follows_a_link_nor_overwrites(
        self, world: World, tmp_path: Path
    ) -> None:
        (tmp_path / "link").symlink_to(tmp_path / "target")
        (tmp_path / "file").write_text("ours")
        for name in ("link", "file"):
            with pytest.raises(SetupError, match=name):
                await world.sandboxes.capture(world.spec("print", "x"), tmp_path / name, 100)
        assert not (tmp_path / "target").exists()
        assert (tmp_path / "file").read_text() == "ours"

    async def test_a_capture_that_cannot_start_leaves_no_file(
        self, world: World, tmp_path: Path
    ) -> None:
        spec = replace(world.spec("sleep"), argv=("/no/such/program",))
        with pytest.raises(SandboxUnavailable):
            await world.sandboxes.capture(spec, tmp_path / "it", 100)
        assert not (tmp_path / "it").exists()
        assert await world.reap_own() == []

    async def test_a_cancelled_capture_leaves_nothing_behind(
        self, world: World, tmp_path: Path
    ) -> None:
        into = tmp_path / "it"
        capturing = asyncio.ensure_future(world.sandboxes.capture(world.spec("sleep"), into, 100))
        while not into.exists():  # noqa: ASYNC110  a file gives no event
            await asyncio.sleep(0.01)
        capturing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await capturing
        assert not into.exists()
        assert await world.reap_own() == []

    async def test_reaping_ends_what_a_dead_owner_left_and_nothing_else(self, world: World) -> None:
        dead = replace(world.owner, pid=2)
        orphan = replace(world.spec("sleep"), owner=dead)
        await world.sandboxes.start(orphan)
        cared_for = await world.sandboxes.start(world.spec("sleep"))
        gone = await world.sandboxes.reap(lambda owner: owner == dead, datetime.now(UTC))
        assert orphan.name in gone
        assert cared_for.spec.name not in gone
        assert await world.reap_own() == [cared_for.spec.name]

    async def test_reaping_ends_what_is_past_its_deadline_whoever_owns_it(
        self, world: World
    ) -> None:
        late = replace(world.spec("sleep"), deadline=datetime.now(UTC) - timedelta(seconds=2))
        await world.sandboxes.start(late)
        gone = await world.sandboxes.reap(lambda _: False, datetime.now(UTC))
        assert late.name in gone
        assert await world.reap_own() == []

    async def test_reaping_also_takes_what_has_ended_but_was_not_forgotten(
        self, world: World
    ) -> None:
        sandbox = await world.sandboxes.start(world.spec("exit", "0"))
        await sandbox.wait()
        assert await world.reap_own() == [sandbox.spec.name]
