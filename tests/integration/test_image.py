"""The kitchen-sink image: every promised tool, as the unprivileged user, in the real sandbox."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from forklift.sandboxes.docker import DEFAULT_IMAGE, DockerSandboxes
from forklift.sidecar.control import Job
from forklift.sidecar.json_value import Object, as_object, as_text, load
from tests.support.guest import Place, bash, place, python, visit

pytestmark = pytest.mark.docker

TOOLS = {
    # seeds: what a stranger's project needs to be built and tested
    "git": "git --version",
    "build-essential": "gcc --version && g++ --version && make --version",
    "cmake": "cmake --version",
    "pkg-config": "pkg-config --version",
    "python3": "python3 --version",
    "venv": "python3 -m venv /tmp/venv && /tmp/venv/bin/python --version",
    "pip": "pip --version && pip3 --version",
    "curl": "curl --version",
    "wget": "wget --version",
    "unzip": "unzip -v",
    "ca-certificates": "test -s /etc/ssl/certs/ca-certificates.crt && echo there",
    "openssl": "openssl version",
    "libssl-dev": "pkg-config --modversion openssl",
    "rustup": "rustup --version",
    "rustc": "rustc --version",
    "cargo": "cargo --version && cargo fmt --version && cargo clippy --version",
    "node": "node --version",
    "npm": "npm --version && npx --version",
    "n": "n --version",
    "bun": "bun --version && bunx --version",
    "pyenv": "pyenv --version && pyenv install --list | grep -q ' 3.12' && pyenv versions",
    "jq": "jq --version",
    "ripgrep": "rg --version",
    "fd": "fd --version",
    "tree": "tree --version",
    "bash-completion": "test -s /usr/share/bash-completion/bash_completion && echo there",
    # besides
    "git-lfs": "git lfs version",
    "uv": "uv --version && uvx --version",
    "opencode": "opencode --version",
    "claude": "claude --version",
    "codex": "codex --version",
    "pi": "pi --version",
    # and that they work, not only answer
    "a C program": "echo 'int main(){}' >/tmp/a.c && cc -o /tmp/a /tmp/a.c && /tmp/a && echo ran",
    "a sanitizer": "cc -fsanitize=address,undefined -o /tmp/s /tmp/a.c && /tmp/s && echo ran",
    "a Rust program": "cargo init -q --vcs none /tmp/crab && cd /tmp/crab && cargo run -q",
    "a Node program": "node -e 'console.log(os.userInfo().username)'",
    "a Bun program": "bun -e 'console.log(1 + 1)'",
    "a thread pool": "python3 -c 'import multiprocessing as m; print(m.Pool(2).map(abs, [-1]))'",
    "a login shell": "bash -lc 'opencode --version && cargo --version'",
    "who am I": "test \"$(whoami)\" = forklift && test -w ~ && echo forklift",
}  # fmt: skip

PINNED = {"opencode": "1.18.33", "claude": "2.1.327", "codex": "0.169.0", "pi": "0.73.1"}

FLAGS = {
    "opencode run --help": ["--format", "--model", "--variant", "--agent", "--session"],
    "codex exec --help": ["--json", "--dangerously-bypass-approvals-and-sandbox", "--model"],
    "claude --help": [
        "--print", "--output-format", "--dangerously-skip-permissions", "--model", "--resume",
    ],
    "pi --help": ["--print", "--mode", "--model", "--provider", "--session"],
}  # fmt: skip


@pytest.fixture(scope="module")
def ran() -> Object:
    """Every command once, in one sandbox: name -> [code, what it printed]."""
    commands = {**TOOLS, **{command: command for command in FLAGS}}
    script = f"""
import json, subprocess
answers = {{}}
for name, command in {commands!r}.items():
    done = subprocess.run(
        ["bash", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    said = done.stdout[:20000] + done.stderr[:20000]
    answers[name] = {{"code": str(done.returncode), "out": said}}
print(json.dumps(answers))
"""
    with place() as here:
        went = asyncio.run(visit(here, Job(python(script), seconds=110)))
    assert went.end.code == 0, went.output[-2000:]
    return as_object(load(went.output))


def said(ran: Object, name: str) -> str:
    answer = as_object(ran[name])
    assert answer["code"] == "0", as_text(answer["out"])
    return as_text(answer["out"])


@pytest.mark.parametrize("tool", TOOLS)
def test_a_promised_tool_works_for_the_unprivileged_user(ran: Object, tool: str) -> None:
    assert said(ran, tool).strip()


@pytest.mark.parametrize("agent", PINNED)
def test_an_agent_is_at_its_pinned_version(ran: Object, agent: str) -> None:
    locked = json.loads(_recipe("agents/package.json"))["dependencies"].values()
    assert PINNED[agent] in locked
    assert PINNED[agent] in said(ran, agent)


@pytest.mark.parametrize("command", FLAGS)
def test_an_agent_has_the_flags_that_forklift_uses(ran: Object, command: str) -> None:
    help_text = said(ran, command)
    assert [flag for flag in FLAGS[command] if flag not in help_text] == []


def test_node_is_new_enough_to_heed_the_proxy_variables(ran: Object) -> None:
    assert int(said(ran, "node").lstrip("v").split(".")[0]) >= 24


def test_the_lock_names_no_registry_and_checks_every_package() -> None:
    lock = json.loads(_recipe("agents/package-lock.json"))
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert [name for name, entry in packages.items() if "integrity" not in entry] == []
    assert [name for name, entry in packages.items() if "resolved" in entry] == []
    assert _recipe("python/requirements.txt").count("--hash=sha256:") == 4


async def test_the_harness_is_roots_and_the_image_says_its_version() -> None:
    image = await DockerSandboxes().find_image(DEFAULT_IMAGE)
    assert image.harness == "1"
    look = "stat -c '%U %a %n' /opt/forklift/harness /opt/forklift/harness/* /opt/tools"
    with place() as here:
        went = await visit(here, Job(bash(look), seconds=60))
    assert went.output.splitlines() == [
        "root 755 /opt/forklift/harness",
        "root 644 /opt/forklift/harness/init.py",
        "root 755 /opt/forklift/harness/run.sh",
        "root 755 /opt/tools",
    ]


async def test_the_image_carries_the_init_of_this_checkout() -> None:
    with place() as here:
        went = await visit(here, Job(bash("cat /opt/forklift/harness/init.py"), seconds=60))
    assert went.output == (_root() / "src/forklift/guest/init.py").read_text()


async def test_no_certificate_of_the_building_machine_is_left_in_the_image() -> None:
    look = "ls -A /usr/local/share/ca-certificates; ls -A /opt/forklift; ls -d /context"
    with place() as here:
        went = await visit(here, Job(bash(look), seconds=60))
    assert went.output.splitlines()[0] == "harness"
    assert "No such file" in went.output.splitlines()[1]


async def test_any_uid_works() -> None:
    with place() as made:
        here = Place(made.root, 4321, 4321)
        for folder in (here.workspace, here.state, here.doors):
            _give(folder, 4321)
        tools = "whoami && git init -q r && node -e 'os.userInfo()' && opencode --version"
        went = await visit(here, Job(bash(tools), seconds=60))
    assert went.end.code == 0, went.output
    assert went.output.startswith("forklift\n")


def _give(folder: Path, uid: int) -> None:
    """To another user if we may, else (not root) to everybody."""
    if os.getuid() == 0:
        os.chown(folder, uid, uid)
    else:
        folder.chmod(0o777)


def _root() -> Path:
    return Path(__file__).parents[2]


def _recipe(name: str) -> str:
    return (_root() / "docker/kitchen-sink" / name).read_text()
