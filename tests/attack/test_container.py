"""What an agent may try from inside its sandbox, for real, in a container as Forklift runs it."""

import asyncio
import os
import platform
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from forklift.sandboxes.docker import DockerSandboxes
from forklift.sandboxes.owner import is_dead
from forklift.sandboxes.port import Limits
from forklift.sidecar.control import Job, control_socket
from forklift.sidecar.json_value import Object, as_object, load, texts
from tests.support.guest import Place, bash, place, python, spec_for, visit

pytestmark = pytest.mark.docker

MEGA = 1 << 20


@pytest.fixture
def here() -> Iterator[Place]:
    with place() as made:
        yield made


async def findings(here: Place, script: str) -> Object:
    """What a Python script in the sandbox prints as one JSON object."""
    went = await visit(here, Job(python(textwrap.dedent(script)), seconds=60))
    assert went.end.code == 0, went.output
    return as_object(load(went.output))


# --- using up the machine -----------------------------------------------------------------------


async def test_a_fork_bomb_ends_with_its_sandbox(here: Place) -> None:
    bomb = "bomb() { bomb | bomb & }; bomb; sleep 2; exit 9"
    went = await visit(here, Job(bash(bomb), seconds=30), Limits(pids=64))
    assert went.control.ready.is_set()
    control = went.control
    # Init may meet the bomb before its own last thread is started: for that one reason alone it may
    # end everything itself.
    starved = control.fault == "RuntimeError: can't start new thread"
    assert control.hit_deadline or control.exit_code is not None or starved
    assert went.end.code != 0


async def test_a_memory_bomb_is_killed_at_its_limit(here: Place) -> None:
    bomb = python("held = []\nwhile True: held.append(bytearray(8 << 20))")
    went = await visit(here, Job(bomb, seconds=60), Limits(memory_bytes=192 * MEGA))
    assert went.end.code == 128 + signal.SIGKILL
    assert went.end.out_of_memory


async def test_a_file_grows_to_its_limit_and_no_further(here: Place) -> None:
    bomb = bash("head -c 200M /dev/zero >/workspace/big; head -c 200M /dev/zero >/tmp/big; true")
    await visit(here, Job(bomb, seconds=60), Limits(file_bytes=16 * MEGA, tmp_bytes=8 * MEGA))
    assert (here.workspace / "big").stat().st_size == 16 * MEGA


async def test_the_temporary_folder_is_as_large_as_it_was_given(here: Place) -> None:
    bomb = bash("head -c 64M /dev/zero >/tmp/a 2>/dev/null; stat -c %s /tmp/a")
    went = await visit(here, Job(bomb, seconds=60), Limits(tmp_bytes=8 * MEGA))
    assert int(went.output.split()[-1]) <= 8 * MEGA


async def test_a_gigabyte_without_a_newline_costs_constant_memory_and_disk(here: Place) -> None:
    flood = bash("head -c 1G /dev/zero | tr '\\0' x; head -c 100M /dev/zero >&2; echo the end")
    job = Job(flood, transcript="transcript.jsonl", transcript_cap=MEGA, seconds=100)
    went = await visit(here, job, Limits(memory_bytes=160 * MEGA))
    assert (went.end.code, went.control.exit_code) == (0, 0)
    assert (here.state / "transcript.jsonl").stat().st_size == MEGA
    assert (here.state / "agent.stderr.log").stat().st_size == 8 * MEGA
    assert len(went.output) == MEGA


async def test_orphans_in_any_number_are_put_to_rest(here: Place) -> None:
    script = "for i in $(seq 400); do (true & ) & wait; done; echo done"
    went = await visit(here, Job(bash(script), seconds=60), Limits(pids=64))
    assert (went.end.code, went.output) == (0, "done\n")


# --- becoming more than one is ------------------------------------------------------------------


async def test_a_setuid_program_stays_who_it_was(here: Place) -> None:
    script = """
    import json, os, stat, subprocess
    assert os.stat("/usr/bin/passwd").st_mode & stat.S_ISUID
    child = subprocess.Popen("/usr/bin/passwd", stdin=subprocess.PIPE)
    lines = open(f"/proc/{child.pid}/status").read().splitlines()
    child.kill()
    print(json.dumps({"uids": [l for l in lines if l.startswith("Uid")][0].split()[1:]}))
    """
    assert (await findings(here, script))["uids"] == [str(here.uid)] * 4


async def test_sockets_other_than_local_and_loopback_cannot_be_made(here: Place) -> None:
    script = """
    import json, socket
    def opens(family, kind, protocol=0):
        try:
            socket.socket(family, kind, protocol).close()
            return True
        except OSError:
            return False
    print(json.dumps({"open": [
        f"{family} {kind} {protocol}"
        for family in range(60) for kind in (1, 2, 3, 5) for protocol in (0, 1, 4, 9, 12, 15, 16)
        if opens(family, kind, protocol)
    ]}))
    """
    opened = set(texts((await findings(here, script))["open"]))
    local = {f"1 {kind} {protocol}" for kind in (1, 2, 3, 5) for protocol in (0, 1)}
    # Kind 2, protocol 1: an echo request; without an interface it reaches nobody.
    loopback = {f"{family} {rest}" for family in (2, 10) for rest in ("1 0", "2 0", "2 1")}
    routes = {"16 2 0", "16 3 0"}
    assert opened - local - loopback - routes == set()
    assert {"1 1 0", "2 1 0"} <= opened


_NUMBERS = {
    "x86_64": {
        "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "unshare": 272,
        "setns": 308, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "keyctl": 250,
        "add_key": 248, "request_key": 249, "io_uring_setup": 425, "open_by_handle_at": 304,
        "init_module": 175, "kexec_load": 246, "swapon": 167, "reboot": 169, "sethostname": 170,
        "fsopen": 430, "fsmount": 432, "move_mount": 429, "open_tree": 428, "mount_setattr": 442,
        "pidfd_getfd": 438, "acct": 163, "quotactl": 179, "syslog": 103, "clock_settime": 227,
        "ioperm": 173, "iopl": 172, "modify_ldt": 154,
    },
    "aarch64": {
        "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "unshare": 97, "setns": 268,
        "bpf": 280, "perf_event_open": 241, "userfaultfd": 282, "keyctl": 219, "add_key": 217,
        "request_key": 218, "io_uring_setup": 425, "open_by_handle_at": 265, "init_module": 105,
        "kexec_load": 104, "swapon": 224, "reboot": 142, "sethostname": 161, "fsopen": 430,
        "fsmount": 432, "move_mount": 429, "open_tree": 428, "mount_setattr": 442,
        "pidfd_getfd": 438, "acct": 89, "quotactl": 60, "syslog": 116, "clock_settime": 112,
    },
}  # fmt: skip


async def test_calls_that_only_widen_the_attack_surface_are_not_there(here: Place) -> None:
    numbers = _NUMBERS[platform.machine()]
    script = f"""
    import ctypes, json
    libc = ctypes.CDLL(None, use_errno=True)
    answers = {{}}
    for name, number in {numbers!r}.items():
        ctypes.set_errno(0)
        answers[name] = [libc.syscall(number, 0, 0, 0, 0, 0), ctypes.get_errno()]
    print(json.dumps(answers))
    """
    answers = await findings(here, script)
    # EPERM and ENOSYS are the filter's words; anything else would be the kernel's own answer.
    assert {
        name: answer for name, answer in answers.items() if answer not in ([-1, 1], [-1, 38])
    } == {}


async def test_no_namespace_can_be_made_by_any_door(here: Place) -> None:
    script = """
    import ctypes, json, os
    libc = ctypes.CDLL(None, use_errno=True)
    clone = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
    kinds = {"user": 0x10000000, "net": 0x40000000, "mount": 0x20000, "pid": 0x20000000}
    made = []
    for name, flag in kinds.items():
        child = libc.syscall(clone, flag | 17, 0, 0, 0, 0)
        if child == 0:
            os._exit(0)
        if child > 0:
            made.append(name)
    clone3 = libc.syscall(435, 0, 0)
    print(json.dumps({"made": made, "clone3": [clone3, ctypes.get_errno()]}))
    """
    assert await findings(here, script) == {"made": [], "clone3": [-1, 38]}


# --- turning on init ----------------------------------------------------------------------------


async def test_no_signal_from_inside_reaches_init(here: Place) -> None:
    script = """
    import json, os, signal, time
    refused = []
    for number in range(1, 65):
        try:
            os.kill(1, number)
        except (PermissionError, OSError):
            refused.append(number)
    time.sleep(0.3)
    print(json.dumps({"alive": os.path.exists("/proc/1"), "parent": os.getppid()}))
    """
    assert await findings(here, script) == {"alive": True, "parent": 1}


async def test_init_cannot_be_traced_read_or_robbed_of_its_sockets(here: Place) -> None:
    script = """
    import ctypes, json, os
    libc = ctypes.CDLL(None, use_errno=True)
    def fails(attempt):
        try:
            return attempt() in (-1, None)
        except OSError:
            return True
    machine = os.uname().machine
    ptrace = {"x86_64": 101, "aarch64": 117}[machine]
    readv = {"x86_64": 310, "aarch64": 270}[machine]
    print(json.dumps({
        "attach": fails(lambda: libc.syscall(ptrace, 16, 1, 0, 0)),
        "seize": fails(lambda: libc.syscall(ptrace, 0x4206, 1, 0, 0)),
        "read memory": fails(lambda: open("/proc/1/mem", "rb").read(1)),
        "write memory": fails(lambda: open("/proc/1/mem", "r+b").write(b"x")),
        "read by call": fails(lambda: libc.syscall(readv, 1, 0, 0, 0, 0) or None),
        "environment": fails(lambda: open("/proc/1/environ").read()),
        "descriptors": fails(lambda: os.listdir("/proc/1/fd")),
        "root": fails(lambda: os.listdir("/proc/1/root")),
        "score": fails(lambda: open("/proc/1/oom_score_adj", "w").write("1000")),
        "own descriptors": sorted(os.listdir("/proc/self/fd"))[:3] == ["0", "1", "2"]
            and len(os.listdir("/proc/self/fd")) == 4,
    }))
    """
    answers = await findings(here, script)
    assert [name for name, held in answers.items() if not held] == []


async def test_the_control_socket_takes_nobody_after_init(here: Place) -> None:
    script = """
    import json, os, socket
    def refused(attempt):
        try:
            attempt()
            return False
        except OSError:
            return True
    door = "/run/forklift/control.sock"
    def impersonate():
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(door)
    print(json.dumps({
        "connect": refused(impersonate),
        "create": refused(lambda: open("/run/forklift/egress.sock", "w")),
        "bind": refused(lambda: socket.socket(socket.AF_UNIX).bind("/run/forklift/model.sock")),
        "link": refused(lambda: os.symlink("/tmp/x", "/run/forklift/link")),
        "rename": refused(lambda: os.rename("/run/forklift", "/run/other")),
        "mode": refused(lambda: os.chmod("/run/forklift", 0o777)),
    }))
    """
    answers = await findings(here, script)
    assert [name for name, held in answers.items() if not held] == []
    assert list(here.doors.iterdir()) == []


async def test_what_the_agent_leaves_running_ends_with_it(here: Place) -> None:
    script = """
    beat='trap "" TERM HUP; while :; do date +%s%N >>/workspace/alive; sleep 0.01; done'
    ( setsid bash -c "$beat" & ) &
    while [ ! -s /workspace/alive ]; do sleep 0.01; done
    exit 5
    """
    went = await visit(here, Job(bash(script), seconds=60))
    before = (here.workspace / "alive").read_bytes()
    await asyncio.sleep(0.1)
    assert (went.end.code, went.control.exit_code) == (5, 5)
    assert (here.workspace / "alive").read_bytes() == before


async def test_an_agent_that_ignores_everything_ends_at_the_deadline(here: Place) -> None:
    script = "trap '' TERM INT HUP; echo started; while :; do sleep 1; done"
    went = await visit(here, Job(bash(script), seconds=1))
    assert went.control.hit_deadline
    assert (went.end.code, went.output) == (124, "started\n")


async def test_links_pipes_and_folders_in_its_way_do_not_trip_init(here: Place) -> None:
    (here.workspace / "victim").write_text("ours")
    os.chown(here.workspace / "victim", here.uid, here.gid)
    prepare = """
    rm -rf /harness-state/*.log ~/.config
    ln -s /workspace/victim /harness-state/transcript.jsonl
    mkfifo /harness-state/agent.stderr.log
    mkdir /harness-state/setup.log
    ln -s /workspace ~/.config
    ln -s /dev/zero ~/notes
    """
    await visit(here, Job(bash(prepare), seconds=60))
    job = Job(
        bash("echo words; cat ~/.config/agent.json ~/notes"),
        files={".config/agent.json": "{}", "notes": "n"},
        setup=("echo set up",),
        transcript="transcript.jsonl",
        seconds=60,
    )
    went = await visit(here, job)
    assert went.end.code == 0, went.control.fault
    assert (here.workspace / "victim").read_text() == "ours"
    assert (here.state / "transcript.jsonl").read_text() == "words\n{}n"
    assert not (here.workspace / "agent.json").exists()


# --- reaching out -------------------------------------------------------------------------------


async def test_nothing_but_its_own_folders_can_be_written(here: Place) -> None:
    script = """
    import json, os
    wrote = []
    for path in ("/x", "/etc/passwd", "/etc/x", "/usr/bin/x", "/opt/forklift/harness/init.py",
                 "/opt/tools/bin/x", "/run/x", "/run/forklift/x", "/var/lib/x", "/root/x",
                 "/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger",
                 "/sys/kernel/x", "/sys/fs/cgroup/x", "/dev/sda", "/dev/mem", "/dev/kmsg"):
        try:
            open(path, "a").close()
            wrote.append(path)
        except OSError:
            pass
    for folder in ("/workspace", "/harness-state", "/harness-state/home", "/tmp", "/var/tmp"):
        open(folder + "/x", "a").close()
    print(json.dumps({"wrote": wrote}))
    """
    assert await findings(here, script) == {"wrote": []}


async def test_the_hosts_files_and_processes_are_not_there(here: Place, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("host")
    script = f"""
    import json, os
    pids = [p for p in os.listdir("/proc") if p.isdigit()]
    print(json.dumps({{
        "secret": os.path.exists({str(tmp_path / "secret")!r}),
        "docker": os.path.exists("/var/run/docker.sock"),
        "processes": len(pids) > 2,
    }}))
    """
    answers = await findings(here, script)
    assert [name for name, there in answers.items() if there] == []


async def test_no_address_answers_and_no_name_resolves(here: Place) -> None:
    script = """
    import json, socket
    reached = []
    for address in ("172.17.0.1", "10.0.0.1", "192.168.1.1", "169.254.169.254", "8.8.8.8"):
        for port in (22, 53, 80, 443, 2375):
            with socket.socket() as s:
                s.settimeout(2)
                if s.connect_ex((address, port)) == 0:
                    reached.append([address, port])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.sendto(b"x", ("8.8.8.8", 53))
            reached.append("datagram")
        except OSError:
            pass
    try:
        socket.getaddrinfo("example.com", 443)
        reached.append("name")
    except OSError:
        pass
    print(json.dumps({"reached": reached}))
    """
    assert await findings(here, script) == {"reached": []}


# --- the host dies ------------------------------------------------------------------------------

_HOST = """
import asyncio, sys
from pathlib import Path
from forklift.sandboxes.docker import DockerSandboxes
from forklift.sandboxes.port import Limits
from forklift.sidecar.control import Job, control_socket
from forklift.sidecar.json_value import Object, as_object, load, texts
from tests.support.guest import Place, bash, spec_for

async def main():
    here = Place(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    sandboxes = DockerSandboxes()
    job = Job(bash("sleep 600"), egress=False, model=False)
    spec = await spec_for(here, sandboxes, Limits())
    socket = here.doors / "control.sock"
    async with control_socket(socket, job, here.uid, here.gid, lambda _: None) as control:
        await sandboxes.start(spec)
        await control.first_word()
        print(spec.name, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_a_host_process_that_is_killed_takes_its_sandbox_with_it(here: Place) -> None:
    repository = Path(__file__).parents[2]
    arguments = [sys.executable, "-c", _HOST, here.root, str(here.uid), str(here.gid)]
    with subprocess.Popen(arguments, cwd=repository, stdout=subprocess.PIPE, text=True) as host:  # noqa: ASYNC220
        assert host.stdout
        name = host.stdout.readline().strip()
        assert name
        host.kill()
    waited = subprocess.run(  # noqa: ASYNC221  nothing else runs here
        ["docker", "wait", name], capture_output=True, text=True, timeout=30, check=True
    )
    assert waited.stdout.strip() == "143"
    assert name in await DockerSandboxes().reap(is_dead, datetime.now(UTC))


async def test_leaving_the_control_context_ends_the_sandbox(here: Place) -> None:
    sandboxes = DockerSandboxes()
    spec = await spec_for(here, sandboxes, Limits())
    job = Job(bash("sleep 600"), egress=False, model=False)
    socket = here.doors / "control.sock"
    async with control_socket(socket, job, here.uid, here.gid, lambda _: None) as control:
        sandbox = await sandboxes.start(spec)
        await control.first_word()
    assert (await sandbox.wait()).code == 143
    await sandbox.freeze()
