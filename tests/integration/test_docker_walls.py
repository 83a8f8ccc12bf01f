"""Init starts nothing in a sandbox that misses a wall, and Docker as it is."""

import asyncio
import json
import subprocess
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from forklift.errors import SandboxUnavailable
from forklift.sandboxes.docker import DockerSandboxes
from forklift.sandboxes.docker_arguments import Engine, run_attached
from forklift.sandboxes.port import Limits
from forklift.sidecar.control import Control, Job, control_socket
from tests.support.guest import Place, bash, place, spec_for, visit

pytestmark = pytest.mark.docker

PROFILE = Path(__file__).parents[2] / "src/forklift/sandboxes/seccomp.json"
JOB = Job(bash("touch /workspace/started"), seconds=60, egress=False, model=False)


@pytest.fixture
def here() -> Generator[Place]:
    with place() as made:
        yield made


async def without(here: Place, wall: list[str], instead: list[str]) -> tuple[int, Control]:
    """Start a sandbox whose line lacks one wall, as a careless change would."""
    sandboxes = DockerSandboxes()
    spec = await spec_for(here, sandboxes, Limits())
    line = run_attached(spec, Engine(PROFILE, 1))
    at = next(i for i in range(len(line)) if line[i : i + len(wall)] == wall)
    line = [*line[:at], *instead, *line[at + len(wall) :]]
    socket = here.doors / "control.sock"
    async with control_socket(socket, JOB, here.uid, here.gid, lambda _: None) as control:
        process = await asyncio.create_subprocess_exec("docker", *line)
        return await process.wait(), control


SECCOMP = ["--security-opt", f"seccomp={PROFILE}"]
UNCONFINED = ["--security-opt", "seccomp=unconfined"]
NETWORK = ["--network", "none"]
ENGINE_SOCKET = ["--volume", "/var/run/docker.sock:/run/docker.sock"]


@pytest.mark.parametrize(
    ("wall", "instead", "gap"),
    [
        (NETWORK, ["--network", "bridge"], "interface eth0 is up"),
        (NETWORK, [*NETWORK, *ENGINE_SOCKET], "docker.sock"),
        (["--read-only"], [], "the root file system is writable"),
        (["--security-opt", "no-new-privileges"], [], "privileges"),
        (["--cap-drop", "ALL"], [], "capabilities"),
        (SECCOMP, UNCONFINED, "seccomp"),
        (SECCOMP, [], "socket can be opened"),  # Docker's own profile leaves some families
    ],
)
async def test_a_missing_wall_is_found_and_nothing_is_started(
    here: Place, wall: list[str], instead: list[str], gap: str
) -> None:
    code, control = await without(here, wall, instead)
    assert code == 70
    assert control.breach is not None
    assert gap in control.breach
    assert not control.ready.is_set()
    assert list(here.workspace.iterdir()) == []


async def test_root_in_the_sandbox_is_given_no_job(here: Place) -> None:
    code, control = await without(here, ["--user", f"{here.uid}:{here.gid}"], ["--user", "0:0"])
    assert (code, control.ready.is_set()) == (70, False)
    assert list(here.workspace.iterdir()) == []


async def test_a_writable_folder_of_doors_is_found(here: Place) -> None:
    mount = f"type=bind,source={here.doors},target=/run/forklift"
    code, control = await without(here, ["--mount", mount + ",readonly"], ["--mount", mount])
    assert (code, control.breach) == (70, "doors: the guest could replace the sockets")


async def test_without_a_control_socket_nothing_is_started(here: Place) -> None:
    sandboxes = DockerSandboxes()
    sandbox = await sandboxes.start(await spec_for(here, sandboxes, Limits()))
    assert (await sandbox.wait()).code == 70
    assert b"no control.sock" in await sandbox.output(1000)
    await sandbox.freeze()


async def test_every_wall_is_named_when_it_held(here: Place) -> None:
    went = await visit(here, JOB)
    ready = next(event for event in went.events if event.action == "sandbox.ready")
    assert ready.facts["walls"] == [
        "privileges", "read-only root", "doors", "interfaces", "addresses", "names",
        "socket families", "docker socket",
    ]  # fmt: skip
    assert (here.workspace / "started").exists()


async def test_a_setup_command_that_fails_ends_the_sandbox_before_the_agent(here: Place) -> None:
    job = replace(JOB, setup=("echo one", "echo two >&2; exit 3", "touch /workspace/third"))
    went = await visit(here, job)
    assert (went.end.code, went.control.setup_failed) == (71, (1, 3))
    assert (here.state / "setup.log").read_text() == "one\ntwo\n"
    assert list(here.workspace.iterdir()) == []


async def test_an_agent_that_cannot_be_started_is_named(here: Place) -> None:
    went = await visit(here, replace(JOB, argv=("/no/agent",)))
    assert went.end.code == 70
    assert went.control.fault is not None
    assert "/no/agent" in went.control.fault


@pytest.mark.parametrize(("script", "code"), [("exit 300", 44), ("kill -SEGV $$", 139)])
async def test_the_agents_own_end_is_the_sandboxs(here: Place, script: str, code: int) -> None:
    went = await visit(here, replace(JOB, argv=bash(script)))
    assert (went.end.code, went.control.exit_code) == (code, code)


async def test_prompt_files_and_identity_reach_the_agent(here: Place) -> None:
    script = "cat; cat ~/.config/tool.json; whoami; git var GIT_AUTHOR_IDENT; id -u"
    job = replace(JOB, argv=bash(script), stdin="prompt\n", files={".config/tool.json": "{}\n"})
    lines = (await visit(here, job)).output.splitlines()
    assert lines[:3] == ["prompt", "{}", "forklift"]
    assert lines[3].startswith("Forklift <forklift@localhost>")
    assert lines[4] == str(here.uid)


async def test_the_caller_can_read_and_delete_all_that_is_left(here: Place) -> None:
    script = "mkdir -p /workspace/a/b ~/c; umask 077; echo x >/workspace/a/b/x; echo y >~/c/y"
    await visit(here, replace(JOB, argv=bash(script)))
    left = [path for path in here.root.rglob("*") if path.name in ("x", "y")]
    assert {(path.stat().st_uid, path.stat().st_gid) for path in left} == {(here.uid, here.gid)}
    assert len(left) == 2


async def test_a_real_docker_context_is_followed(tmp_path: Path) -> None:
    """Made with the docker program itself, and pointing at the engine of this machine."""
    environ = {"PATH": _path(), "HOME": str(tmp_path), "DOCKER_CONFIG": str(tmp_path)}
    for command in (
        ["context", "create", "here", "--docker", "host=unix:///var/run/docker.sock"],
        ["context", "create", "nowhere", "--docker", f"host=unix://{tmp_path}/no.sock"],
        ["context", "use", "here"],
    ):
        subprocess.run(["docker", *command], env=environ, check=True, capture_output=True)  # noqa: ASYNC221
    assert json.loads((tmp_path / "config.json").read_text())["currentContext"] == "here"
    assert (await DockerSandboxes(environ=environ).probe()).startswith("docker ")
    with pytest.raises(SandboxUnavailable, match="start it"):
        await DockerSandboxes(environ={**environ, "DOCKER_CONTEXT": "nowhere"}).probe()


async def test_an_engine_that_is_down_or_missing_is_told_apart(tmp_path: Path) -> None:
    down = {"PATH": _path(), "DOCKER_HOST": f"unix://{tmp_path}/no.sock"}
    with pytest.raises(SandboxUnavailable, match="systemctl start docker"):
        await DockerSandboxes(environ=down).probe()
    with pytest.raises(SandboxUnavailable, match="apt-get install"):
        await DockerSandboxes(environ={"PATH": "/nonexistent"}).probe()


def _path() -> str:
    docker = subprocess.run(["which", "docker"], capture_output=True, text=True, check=True)
    return str(Path(docker.stdout.strip()).parent)
