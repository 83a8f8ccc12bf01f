"""PID 1 of a sandbox: tries the walls, opens the doors, runs one job, ends everything.

Runs inside the image with the standard library alone (Python 3.8 or later) and shares no code
with the host. The host speaks first, one line of JSON on control.sock: the job. After that the
connection is a lifeline: when the host closes it or dies, everything here ends.

Exit codes: the agent's own, 70 a wall or a promise does not hold, 71 a setup command failed,
124 the deadline passed, 128+n the agent ended by signal n, 143 the host is gone.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import IO, TYPE_CHECKING, NamedTuple, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

DOORS = "/run/forklift"
STATE = "/harness-state"
HOME = STATE + "/home"

BROKEN, SETUP_FAILED, DEADLINE, HOST_GONE = 70, 71, 124, 143

JOB_LIMIT = 64 << 20
LOG_LIMIT = 8 << 20
ECHO_LIMIT = 1 << 20
DRAIN_SECONDS = 2.0
SEND_SECONDS = 5.0
GRACE_SECONDS = 5.0
CONNECTIONS = 256
CHUNK = 256 << 10


class Broken(Exception):
    """A wall that does not hold: nothing untrusted may start behind it."""


class Fault(Exception):
    """The job cannot be done as it was given."""


class DeadlinePassed(Exception):
    """The job's seconds are over."""


def main() -> NoReturn:
    _protect_init()
    try:
        control = Control()
    except OSError as error:
        _say_on_stderr("no control.sock to take a job from: " + str(error))
        os._exit(BROKEN)
    try:
        code = _run(control)
    except Broken as wall:
        control.send(event="breach", what=str(wall))
        code = BROKEN
    except DeadlinePassed:
        code = DEADLINE
    except Exception as error:  # the process's edge: whatever it is, nothing may keep running
        control.send(event="fault", what=f"{type(error).__name__}: {error}")
        code = BROKEN
    os._exit(code)  # ends what is left: the kernel kills a pid namespace whose PID 1 is gone


def _run(control: Control) -> int:
    job = control.receive_job()
    held = try_the_walls()
    environment = make_environment(job)
    if job.egress:
        Relay(3128, DOORS + "/egress.sock").start()
    if job.model:
        Relay(4000, DOORS + "/model.sock").start()
    control.send(event="ready", canaries=held)
    write_files(job.files)
    shift = Shift(control, job, environment)
    try:
        return shift.work()
    except DeadlinePassed:
        shift.end_everything()
        control.send(event="deadline")
        raise


class Job(NamedTuple):
    argv: list[str]
    environment: dict[str, str]
    files: dict[str, str]
    stdin: str
    setup: list[str]
    cwd: str
    transcript: str | None
    transcript_cap: int
    seconds: float
    egress: bool
    model: bool


def read_job(line: bytes) -> Job:
    told = json.loads(line)
    return Job(
        argv=told["argv"],
        environment=told["env"],
        files=told["files"],
        stdin=told["stdin"],
        setup=told["setup"],
        cwd=told["cwd"],
        transcript=told["transcript"],
        transcript_cap=told["transcript_cap"],
        seconds=told["seconds"],
        egress=told["doors"]["egress"],
        model=told["doors"]["model"],
    )


# --- the host ------------------------------------------------------------------------------------


class Control:
    """The lifeline."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(SEND_SECONDS)
        self._socket.connect(DOORS + "/control.sock")

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive_job(self) -> Job:
        self._socket.settimeout(None)
        line = bytearray()
        while not line.endswith(b"\n"):
            piece = self._socket.recv(1 << 16)
            if not piece:
                os._exit(HOST_GONE)
            line += piece
            if len(line) > JOB_LIMIT:
                raise Fault(f"the job is larger than {JOB_LIMIT} bytes")
        self._socket.settimeout(SEND_SECONDS)
        return read_job(bytes(line))

    def send(self, **event: object) -> None:
        try:
            self._socket.sendall(json.dumps(event).encode() + b"\n")
        except OSError:
            os._exit(HOST_GONE)

    def end_if_gone(self) -> None:
        """Called when the connection is readable: the host never speaks twice, so it is gone."""
        with suppress(OSError):
            if self._socket.recv(1 << 16):
                return
        os._exit(HOST_GONE)


# --- the walls -----------------------------------------------------------------------------------


def try_the_walls() -> list[str]:
    """Tries what must fail; the names of the walls that held. Raises Broken at the first gap."""
    walls: list[tuple[str, Callable[[], str | None]]] = [
        ("privileges", _gap_in_privileges),
        ("read-only root", _gap_in_read_only_root),
        ("doors", _gap_in_doors),
        ("interfaces", _gap_in_interfaces),
        ("addresses", _gap_in_addresses),
        ("names", _gap_in_names),
        ("socket families", _gap_in_socket_families),
        ("docker socket", _gap_at_docker_socket),
    ]
    for name, find_gap in walls:
        gap = find_gap()
        if gap:
            raise Broken(name + ": " + gap)
    return [name for name, _ in walls]


def _gap_in_privileges() -> str | None:
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        facts = dict(line.rstrip("\n").split(":\t", 1) for line in status if ":\t" in line)
    if facts.get("NoNewPrivs") != "1":
        return "a setuid program could raise privileges"
    if facts.get("Seccomp") != "2":
        return "no seccomp filter is in force"
    if any(int(facts.get(name, "1"), 16) for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")):
        return "capabilities are left"
    if os.getuid() == 0 or os.geteuid() == 0:
        return "the user is root"
    return None


def _gap_in_read_only_root() -> str | None:
    return None if os.statvfs("/").f_flag & os.ST_RDONLY else "the root file system is writable"


def _gap_in_doors() -> str | None:
    if not os.statvfs(DOORS).f_flag & os.ST_RDONLY:
        return "the guest could replace the sockets"
    try:
        os.close(os.open(DOORS + "/canary", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:
        return None
    return "the guest can write beside the sockets"


def _gap_in_interfaces() -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("16sH14x", name.encode()[:15], 0)
            answer = fcntl.ioctl(probe.fileno(), 0x8913, request)  # SIOCGIFFLAGS
            up = struct.unpack("16sH14x", answer)[1] & 1
            if up and name != "lo":
                return f"interface {name} is up"
    return None


_FORBIDDEN = (
    "172.17.0.1",  # Docker's default gateway
    "169.254.169.254",  # link-local: cloud metadata
    "10.0.0.1",
    "192.168.0.1",
    "1.1.1.1",
    "2606:4700:4700::1111",
    "fd00:ec2::254",
)


def _gap_in_addresses() -> str | None:
    for address in _FORBIDDEN:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            probe = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            continue  # no IPv6 here at all
        with probe:
            probe.setblocking(False)
            # Without a route the kernel refuses at once; anything else means that there is one.
            if probe.connect_ex((address, 80)) not in (
                errno.ENETUNREACH,
                errno.EHOSTUNREACH,
                errno.EADDRNOTAVAIL,
                errno.EACCES,
            ):
                return address + " can be reached"
    return None


def _gap_in_names() -> str | None:
    try:
        socket.getaddrinfo("example.com", 80)
    except OSError:
        return None
    return "a name was resolved"


def _gap_in_socket_families() -> str | None:
    for what, family, kind, protocol in (
        ("AF_VSOCK", 40, socket.SOCK_STREAM, 0),
        ("AF_PACKET", 17, socket.SOCK_RAW, 0),
        ("AF_ALG", 38, socket.SOCK_SEQPACKET, 0),
        ("a raw IP", int(socket.AF_INET), socket.SOCK_RAW, socket.IPPROTO_ICMP),
    ):
        try:
            socket.socket(family, kind, protocol).close()
        except OSError:
            continue
        return what + " socket can be opened"
    return None


def _gap_at_docker_socket() -> str | None:
    for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock"):
        if os.access(path, os.F_OK):
            return path + " is mounted"
    return None


def _protect_init() -> None:
    """Not dumpable: the agent has the same uid and must not trace init or take its sockets."""
    if ctypes.CDLL(None, use_errno=True).prctl(4, 0, 0, 0, 0) != 0:  # PR_SET_DUMPABLE
        _say_on_stderr("init could not be protected from the agent")
        os._exit(BROKEN)
    # From inside, a signal reaches PID 1 only where it has a handler: Python's own is taken off.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _say_on_stderr(text: str) -> None:
    sys.stderr.write("forklift init: " + text + "\n")
    sys.stderr.flush()


# --- what the agent finds ------------------------------------------------------------------------

_PROXY = "http://127.0.0.1:3128"
_LOOPBACK = "localhost,127.0.0.1,::1"


def make_environment(job: Job) -> dict[str, str]:
    environment = dict(os.environ)
    environment.update(
        HOME=HOME,
        GIT_AUTHOR_NAME="Forklift",
        GIT_AUTHOR_EMAIL="forklift@localhost",
        GIT_COMMITTER_NAME="Forklift",
        GIT_COMMITTER_EMAIL="forklift@localhost",
        GIT_TERMINAL_PROMPT="0",
        GIT_EDITOR="true",  # nobody sits here: `git merge --continue` would wait for ever
        GIT_PAGER="cat",
        PAGER="cat",
    )
    if job.egress:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            environment[name] = environment[name.lower()] = _PROXY
        environment["NODE_USE_ENV_PROXY"] = "1"
        environment["JAVA_TOOL_OPTIONS"] = " ".join(
            f"-D{scheme}.proxyHost=127.0.0.1 -D{scheme}.proxyPort=3128"
            for scheme in ("http", "https")
        )
    environment["NO_PROXY"] = environment["no_proxy"] = _LOOPBACK
    environment.update(job.environment)
    return environment


def write_files(files: dict[str, str], home: str = HOME) -> None:
    """Below the home, through no link that an earlier agent may have left there."""
    with suppress(FileExistsError):
        os.mkdir(home, 0o700)  # noqa: PTH102  pathlib costs a third of init's start
    for path, text in files.items():
        *folders, name = [part for part in path.split("/") if part]
        if ".." in folders or name == "..":
            raise Fault("a file would lie outside the home: " + path)
        folder = os.open(home, os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            for part in folders:
                below = _open_folder(folder, part)
                os.close(folder)
                folder = below
            _unlink(name, folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with os.fdopen(os.open(name, flags, 0o600, dir_fd=folder), "w") as file:
                file.write(text)
        finally:
            os.close(folder)


def _open_folder(parent: int, name: str) -> int:
    flags = os.O_DIRECTORY | os.O_NOFOLLOW
    try:
        return os.open(name, flags, dir_fd=parent)
    except FileNotFoundError:
        pass
    except OSError:  # a link or a file stands in the way
        _unlink(name, parent)
    os.mkdir(name, 0o700, dir_fd=parent)
    return os.open(name, flags, dir_fd=parent)


def _unlink(name: str, folder: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


# --- the work ------------------------------------------------------------------------------------


class Shift:
    """Setup commands, then the agent; everything that was started ends with it."""

    def __init__(self, control: Control, job: Job, environment: dict[str, str]) -> None:
        self._control = control
        self._job = job
        self._environment = environment
        self._hard = time.monotonic() + job.seconds
        self._soft = self._hard - min(GRACE_SECONDS, job.seconds / 10)
        self._warned = False
        self._awaited = 0
        self._code: int | None = None
        self._pumps: list[threading.Thread] = []
        self._wake, wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _wake_up)

    def work(self) -> int:
        log = Sink(_open_fresh("setup.log"), LOG_LIMIT)
        for index, command in enumerate(self._job.setup):
            code = self._run(["bash", "-lc", command], [log], [log], "")
            self._control.send(event="setup", index=index, code=code)
            if code:
                self.end_everything()
                return SETUP_FAILED
        code = self._run_agent()
        self.end_everything()
        self._control.send(event="exit", code=code)
        return code

    def _run_agent(self) -> int:
        name = self._job.transcript
        echo = Sink(1, ECHO_LIMIT)
        errors = [Sink(_open_fresh("agent.stderr.log"), LOG_LIMIT)]
        if name is None:
            return self._run(self._job.argv, [echo], [*errors, echo], self._job.stdin)
        transcript = Sink(_open_fresh(name), self._job.transcript_cap)
        return self._run(self._job.argv, [transcript, echo], errors, self._job.stdin)

    def end_everything(self) -> None:
        """Kills every process but this one, then takes what still lies in the pipes."""
        until = time.monotonic() + DRAIN_SECONDS
        while time.monotonic() < until:
            try:
                os.kill(-1, signal.SIGKILL)
            except ProcessLookupError:
                break  # only zombies, if anything
            self._reap()
            time.sleep(0.002)
        self._reap()
        for pump in self._pumps:
            pump.join(max(0.0, until - time.monotonic()))

    def _run(self, argv: list[str], out: list[Sink], err: list[Sink], stdin: str) -> int:
        try:
            child = subprocess.Popen(
                argv,
                cwd=self._job.cwd,
                env=self._environment,
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise Fault(f"{argv[0]} cannot be started: {error}") from error
        if child.stdout:
            self._start(pump, child.stdout, out)
        if child.stderr:
            self._start(pump, child.stderr, err)
        if child.stdin:
            self._start(feed, child.stdin, stdin.encode())
        code = self._wait(child.pid)
        child.returncode = code  # reaped here: Popen must not wait for it as well
        return code

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        thread.start()
        self._pumps.append(thread)

    def _wait(self, pid: int) -> int:
        self._awaited, self._code = pid, None
        self._reap()  # it may have ended before anybody waited
        while self._code is None:
            now = time.monotonic()
            if now >= self._hard:
                raise DeadlinePassed
            if now >= self._soft and not self._warned:
                self._warned = True
                _signal_all(signal.SIGTERM)
            until = self._hard if self._warned else self._soft
            ready, _, _ = select.select([self._wake, self._control], [], [], max(0.0, until - now))
            if self._control in ready:
                self._control.end_if_gone()
            if self._wake in ready:
                os.read(self._wake, 1 << 16)
            self._reap()
        if self._warned:
            raise DeadlinePassed
        return self._code

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid == self._awaited:
                signalled = os.WIFSIGNALED(status)
                self._code = 128 + os.WTERMSIG(status) if signalled else os.WEXITSTATUS(status)


def _wake_up(_number: int, _frame: FrameType | None) -> None:
    """Nothing to do: the wake-up descriptor has already ended the select."""


def _signal_all(number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(-1, number)


class Sink:
    """A place for output that takes so much and no more; full or broken, it swallows."""

    def __init__(self, descriptor: int, limit: int) -> None:
        self._descriptor = descriptor
        self._left = limit if descriptor >= 0 else 0
        self._lock = threading.Lock()

    def write(self, data: memoryview) -> None:
        with self._lock:
            data = data[: self._left]
            try:
                while data:
                    written = os.write(self._descriptor, data)
                    self._left -= written
                    data = data[written:]
            except OSError:  # disk full, file-size limit, nobody reads
                self._left = 0


def pump(source: IO[bytes], sinks: list[Sink]) -> None:
    """Drains to the end even when no sink takes more: a full pipe would stop the agent."""
    buffer = bytearray(CHUNK)
    view = memoryview(buffer)
    while True:
        count = os.readv(source.fileno(), [buffer])
        if not count:
            return
        for sink in sinks:
            sink.write(view[:count])


def feed(target: IO[bytes], text: bytes) -> None:
    with suppress(OSError):  # the agent need not hear all of it
        target.write(text)
        target.close()


def _open_fresh(name: str) -> int:
    """A new file in the state folder whatever an earlier agent left under that name, or -1."""
    if "/" in name:
        return -1
    path = STATE + "/" + name
    try:
        with suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except OSError:
        return -1


# --- the doors -----------------------------------------------------------------------------------


class Relay:
    """Carries TCP connections at a loopback port to a door's Unix socket."""

    def __init__(self, port: int, door: str) -> None:
        self._door = door
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1", port))
        self._listener.listen(1024)
        self.port: int = self._listener.getsockname()[1]
        self._free = threading.BoundedSemaphore(CONNECTIONS)

    def start(self) -> None:
        threading.stack_size(256 << 10)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            self._free.acquire()
            try:
                near, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()
            except (OSError, RuntimeError):  # out of descriptors or threads: the next may do
                self._free.release()
                time.sleep(0.05)

    def _serve(self, near: socket.socket) -> None:
        far = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            far.connect(self._door)
            back = threading.Thread(target=carry, args=(far, near), daemon=True)
            back.start()
            carry(near, far)
            back.join()
        except (OSError, RuntimeError):
            pass
        finally:
            near.close()
            far.close()
            self._free.release()


def carry(source: socket.socket, target: socket.socket) -> None:
    """One direction to its end, which is passed on alone: the other direction may go on."""
    buffer = bytearray(CHUNK)
    view = memoryview(buffer)
    try:
        while True:
            count = source.recv_into(buffer)
            if not count:
                target.shutdown(socket.SHUT_WR)
                return
            target.sendall(view[:count])
    except OSError:
        for end in (source, target):  # broken, not finished: let neither side wait
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    main()
