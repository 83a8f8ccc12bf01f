"""Which engine is talked to, and what happens when the program misbehaves.

The docker program is a small script here: what is promised is about any program in its place.
"""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from forklift.errors import SandboxUnavailable
from forklift.sandboxes.docker_client import NO_CONFIG, DockerClient


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return tmp_path / "docker"


def client(program: Path, script: str, **environ: str) -> DockerClient:
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return DockerClient(str(program), {"PATH": os.environ["PATH"], "HOME": "/home/me", **environ})


SHOW = (
    'printf "%s|" "$DOCKER_HOST" "$DOCKER_CONFIG" "$DOCKER_CERT_PATH" "$DOCKER_TLS_VERIFY" '
    '"$DOCKER_TLS" "$HTTP_PROXY" "$TOKEN"'
)


async def told(docker: DockerClient) -> list[str]:
    answer = await docker.call(["info"], 10, {"TOKEN": "t"})
    return answer.text.split("|")[:-1]


async def test_the_users_own_configuration_is_never_read_by_a_run(program: Path) -> None:
    docker = client(program, SHOW, HTTP_PROXY="http://me:password@proxy")
    assert await told(docker) == ["", NO_CONFIG, "", "", "", "", "t"]
    assert not Path(NO_CONFIG).exists()


async def test_docker_host_and_its_certificates_are_kept(program: Path) -> None:
    docker = client(program, SHOW, DOCKER_HOST="tcp://there:2376", DOCKER_TLS_VERIFY="1")
    host, _, certificates, verify, *_ = await told(docker)
    assert (host, certificates, verify) == ("tcp://there:2376", "/home/me/.docker", "1")


CONTEXT = 'if [ "$1" = context ]; then printf "{}"; exit 0; fi\n' + SHOW


async def test_the_context_in_use_is_resolved_before_the_configuration_is_hidden(
    program: Path, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text('{"currentContext": "mine"}')
    script = CONTEXT.replace("{}", "unix:///mine.sock\\tfalse\\t0\\t/none")
    docker = client(program, script, DOCKER_CONFIG=str(tmp_path))
    host, config, certificates, *_ = await told(docker)
    assert (host, config, certificates) == ("unix:///mine.sock", NO_CONFIG, "")


@pytest.mark.parametrize(("skip", "verify", "tls"), [("false", "1", ""), ("true", "", "1")])
async def test_a_context_with_certificates_works(
    program: Path, skip: str, verify: str, tls: str
) -> None:
    script = CONTEXT.replace("{}", f"tcp://there:2376\\t{skip}\\t1\\t/contexts/tls/abc")
    docker = client(program, script, DOCKER_CONTEXT="there")
    told_now = await told(docker)
    assert told_now[0] == "tcp://there:2376"
    assert told_now[2:5] == ["/contexts/tls/abc/docker", verify, tls]


async def test_a_context_that_cannot_be_read_is_refused_in_words(program: Path) -> None:
    docker = client(program, "echo broken >&2; exit 1", DOCKER_CONTEXT="gone")
    with pytest.raises(SandboxUnavailable, match="docker context use"):
        await docker.call(["info"], 10)


async def test_a_missing_program_says_how_to_install_it() -> None:
    docker = DockerClient("docker", {"PATH": "/nonexistent"})
    with pytest.raises(SandboxUnavailable, match="apt-get install"):
        await docker.call(["info"], 10)


async def test_a_program_that_hangs_is_ended_and_named(program: Path, tmp_path: Path) -> None:
    docker = client(program, f"echo $$ >{tmp_path}/pid; exec sleep 600")
    with pytest.raises(SandboxUnavailable, match=r"gave no answer within 0\.5 s"):
        await docker.call(["info"], 0.5)
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


async def test_a_cancelled_call_ends_its_program(program: Path, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    docker = client(program, f"echo $$ >{pid}.new; mv {pid}.new {pid}; exec sleep 600")
    calling = asyncio.ensure_future(docker.call(["info"], 100))
    while not pid.exists():  # noqa: ASYNC110  a file gives no event
        await asyncio.sleep(0.01)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()


async def test_the_tail_of_much_output_is_kept_in_order(program: Path) -> None:
    docker = client(program, "head -c 5000000 /dev/zero | tr '\\0' x; echo out; echo err >&2")
    answer = await docker.call(["logs"], 30, tail=10)
    assert answer.out == b"xxout\nerr\n"


async def test_a_failure_carries_what_the_program_said(program: Path) -> None:
    docker = client(program, "echo 'No such image: x' >&2; exit 1")
    with pytest.raises(SandboxUnavailable, match="forklift image build") as caught:
        await docker.must(["run"], 10)
    assert caught.value.detail == "No such image: x"


def test_every_wait_has_a_limit() -> None:
    patience = DockerClient("docker", {}).patience
    assert all(0 < getattr(patience, name) < 300 for name in type(patience).__slots__)
    assert replace(patience) == patience
