"""The line that makes a sandbox, word for word: a wall that is forgotten must show here."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from forklift.sandboxes.docker_arguments import (
    Engine,
    client_environment,
    owner_label,
    read_owner_label,
    run_attached,
    run_detached,
)
from forklift.sandboxes.port import Limits, Mount, Owner, SandboxSpec

ENGINE = Engine(seccomp=Path("/profile.json"), cpus=2)
SPEC = SandboxSpec(
    name="forklift-demo",
    run_id="demo",
    owner=Owner(42, 1234, "boot/4026531836"),
    deadline=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    image="sha256:abc",
    uid=1000,
    gid=1001,
    mounts=(
        Mount(Path("/runs/a/workspace"), "/workspace", writable=True),
        Mount(Path("/run/user/1000/forklift/a"), "/run/forklift"),
    ),
    argv=("/opt/forklift/harness/run.sh", "--flag"),
    environment={"OPENCODE_API_KEY": "secret-token", "HOME": "/harness-state/home"},
    limits=Limits(memory_bytes=1 << 30, cpus=4.0, pids=100, file_bytes=1000, tmp_bytes=2000),
)

WALLS = [
    "--name",
    "forklift-demo",
    "--hostname",
    "forklift",
    "--pull",
    "never",
    "--label",
    "forklift.run=demo",
    "--label",
    "forklift.owner=42:1234:boot/4026531836",
    "--label",
    "forklift.deadline=1767323045",
    "--network",
    "none",
    "--ipc",
    "private",
    "--cgroupns",
    "private",
    "--user",
    "1000:1001",
    "--read-only",
    "--tmpfs",
    "/tmp:rw,exec,nosuid,nodev,mode=1777,size=2000",
    "--tmpfs",
    "/var/tmp:rw,exec,nosuid,nodev,mode=1777,size=2000",
    "--cap-drop",
    "ALL",
    "--security-opt",
    "no-new-privileges",
    "--security-opt",
    "seccomp=/profile.json",
    "--no-healthcheck",
    "--stop-timeout",
    "1",
    "--pids-limit",
    "100",
    "--memory",
    "1073741824",
    "--memory-swap",
    "1073741824",
    "--shm-size",
    "268435456",
    "--cpus",
    "2",
    "--ulimit",
    "fsize=1000",
    "--ulimit",
    "nofile=16384:16384",
    "--ulimit",
    "core=0",
    "--env",
    "HOME=/harness-state/home",
    "--env",
    "OPENCODE_API_KEY",
    "--mount",
    "type=bind,source=/runs/a/workspace,target=/workspace",
    "--mount",
    "type=bind,source=/run/user/1000/forklift/a,target=/run/forklift,readonly",
    "--workdir",
    "/workspace",
    "--entrypoint",
    "/opt/forklift/harness/run.sh",
    "sha256:abc",
    "--flag",
]


def test_a_sandbox_has_every_wall_and_a_log_that_cannot_grow() -> None:
    log = "--log-driver local --log-opt max-size=5242880 --log-opt max-file=2"
    head = ["run", "--detach", *log.split(), "--log-opt", "compress=false"]
    assert run_detached(SPEC, ENGINE) == [*head, *WALLS]


def test_a_capture_has_the_same_walls_and_keeps_nothing() -> None:
    head = ["run", "--rm", "--attach", "stdout", "--log-driver", "none"]
    assert run_attached(SPEC, ENGINE) == [*head, *WALLS]


def test_podman_has_the_same_walls() -> None:
    arguments = run_detached(SPEC, replace(ENGINE, podman=True))
    assert arguments[-len(WALLS) :] == WALLS
    assert "k8s-file" in arguments


def test_no_value_of_the_environment_is_in_the_arguments() -> None:
    assert not any("secret-token" in argument for argument in run_detached(SPEC, ENGINE))
    assert client_environment(SPEC) == {"OPENCODE_API_KEY": "secret-token"}


def test_the_guests_path_does_not_become_the_clients() -> None:
    spec = replace(SPEC, environment={"PATH": "/guest/bin"})
    assert "PATH=/guest/bin" in run_detached(spec, ENGINE)
    assert client_environment(spec) == {}


def test_a_home_is_given_where_none_was_asked_for() -> None:
    assert "HOME=/harness-state/home" in run_detached(replace(SPEC, environment={}), ENGINE)


@pytest.mark.parametrize(
    ("source", "written"),
    [
        ("/plain", "source=/plain"),
        ("/with,comma", '"source=/with,comma"'),
        ('/with"quote', '"source=/with""quote"'),
        ("/x,target=/etc", '"source=/x,target=/etc"'),
    ],
)
def test_a_folders_name_cannot_add_to_its_mount(source: str, written: str) -> None:
    spec = replace(SPEC, mounts=(Mount(Path(source), "/workspace"),))
    mount = run_detached(spec, ENGINE)[run_detached(spec, ENGINE).index("--mount") + 1]
    assert mount == f"type=bind,{written},target=/workspace,readonly"


def test_an_owner_survives_its_label() -> None:
    assert read_owner_label(owner_label(SPEC.owner)) == SPEC.owner


@pytest.mark.parametrize("label", ["", "1", "1:2", "x:2:boot", "1:x:boot", "1:2:", "-1:2:boot"])
def test_a_label_that_is_not_ours_names_no_owner(label: str) -> None:
    assert read_owner_label(label) is None
