"""Starting git. Nothing else in Forklift does, and no function here takes an agent's workspace.

Two environments, and the difference is the point:

* `alone()`: no configuration but the repository's own, no hooks, no replacement objects, no lazy
  fetches. For every repository that Forklift made.
* `as_user()`: with the user's own configuration, for talking to remotes: credential helpers, ssh
  and proxies are the user's. Never a prompt, never a hook.
"""

import asyncio
import contextlib
import ctypes
import os
import re
import shutil
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from forklift.errors import InternalError, SetupError

QUICK = timedelta(minutes=5)
"""For work on local objects. Generous: a limit is there to end what hangs, not to hurry."""

_OLDEST: tuple[int, int] = (2, 38)
"""The first with `merge-tree --write-tree`."""

OUTPUT_LIMIT = 256 << 20
_ERROR_LIMIT = 64 << 10
_MEMORY = 4 << 30
_GRACE = 2.0
_KEPT = ("GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GIT_PROXY_COMMAND", "GIT_SSL_CAINFO",
         "GIT_SSL_NO_VERIFY", "GIT_SSL_CERT", "GIT_SSL_KEY", "GIT_CONFIG_GLOBAL",
         "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_HTTP_USER_AGENT")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finished:
    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode(errors="surrogateescape").strip()


class GitFailed(Exception):
    """A git command failed. Translated by whoever knows what it was for; never shown as it is."""

    def __init__(self, args: Sequence[str], done: Finished) -> None:
        super().__init__(f"git {' '.join(args[:3])}: {done.err.strip() or f'exit {done.code}'}")
        self.done = done


class GitStalled(Exception):
    """A git command was ended at its time limit."""


class GitTooLoud(Exception):
    """A git command was ended because it printed more than its limit."""


def alone() -> dict[str, str]:
    """The environment in which nothing but the repository at hand configures git."""
    return {
        **_without_git(os.environ),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_AUTHOR_NAME": "Forklift",
        "GIT_AUTHOR_EMAIL": "forklift@localhost",
        "GIT_COMMITTER_NAME": "Forklift",
        "GIT_COMMITTER_EMAIL": "forklift@localhost",
        "GIT_CONFIG_COUNT": "3",
        "GIT_CONFIG_KEY_0": "core.hooksPath",
        "GIT_CONFIG_VALUE_0": os.devnull,
        "GIT_CONFIG_KEY_1": "core.fsmonitor",
        "GIT_CONFIG_VALUE_1": "false",
        "GIT_CONFIG_KEY_2": "gc.autoDetach",
        "GIT_CONFIG_VALUE_2": "false",
        **_NEVER_ASK,
    }


def as_user(config: Iterable[tuple[str, str]] = ()) -> dict[str, str]:
    """The user's own environment, plus `config`, without any way to ask a question.

    The configuration travels in the environment: values may be credentials, and an argument list
    is for everyone on the machine to read.
    """
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    pairs = [*_given_in_environment(), *config, *_FOR_REMOTES]
    numbered = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for index, (key, value) in enumerate(pairs):
        numbered[f"GIT_CONFIG_KEY_{index}"] = key
        numbered[f"GIT_CONFIG_VALUE_{index}"] = value
    return {**_without_git(os.environ), **kept, **numbered, **_batch_ssh(kept, pairs), **_NEVER_ASK}


_FOR_REMOTES = (
    ("core.hooksPath", os.devnull),
    ("core.fsmonitor", "false"),
    ("gc.autoDetach", "false"),
    ("credential.interactive", "false"),
    # A server that sends nothing for a minute is given up.
    ("http.lowSpeedLimit", "1"),
    ("http.lowSpeedTime", "60"),
)


def _given_in_environment() -> list[tuple[str, str]]:
    """What the caller configures through GIT_CONFIG_COUNT, as CI systems do for their logins."""
    count = os.environ.get("GIT_CONFIG_COUNT", "0")
    numbers = range(int(count)) if count.isdigit() and len(count) < 5 else range(0)
    names = [(f"GIT_CONFIG_KEY_{number}", f"GIT_CONFIG_VALUE_{number}") for number in numbers]
    return [(os.environ.get(key, ""), os.environ.get(value, "")) for key, value in names]


_NEVER_ASK: Mapping[str, str] = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "/bin/false",
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_EDITOR": ":",
    "LC_ALL": "C",
}


def _batch_ssh(kept: Mapping[str, str], config: Iterable[tuple[str, str]]) -> dict[str, str]:
    if "GIT_SSH" in kept or kept.get("GIT_SSH_VARIANT", "ssh") != "ssh":
        return {}  # plink and its like know no BatchMode; their users have their own means
    configured = {key.lower(): value for key, value in config}.get("core.sshcommand", "ssh")
    command = kept.get("GIT_SSH_COMMAND", configured)
    return {"GIT_SSH_COMMAND": f"{command} -o BatchMode=yes"}


def _without_git(environ: Mapping[str, str]) -> dict[str, str]:
    # A git hook that calls us would hand down GIT_DIR and GIT_INDEX_FILE: ours are never those.
    return {name: value for name, value in environ.items() if not name.startswith("GIT_")}


async def git(
    *args: str,
    at: Path,
    env: Mapping[str, str],
    limit: timedelta = QUICK,
    stdin: bytes = b"",
    ok: Iterable[int] = (0,),
    most: int = OUTPUT_LIMIT,
) -> Finished:
    """Run `git -C at …`. `GitFailed` unless it exits with one of `ok`, `GitStalled` at `limit`,
    `GitTooLoud` when it prints more than `most` bytes."""
    # Its own session: Ctrl-C reaches us alone, and a whole group can be ended together.
    try:
        process = await asyncio.create_subprocess_exec(
            *_program(env), "-C", str(at), *args,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, env=dict(env), start_new_session=True,
            preexec_fn=_end_with_us,
        )  # fmt: skip
    except FileNotFoundError as missing:
        if not at.is_dir():
            raise SetupError(f"no such directory: {at}") from missing
        raise SetupError("git is not installed; install it with: apt-get install git") from missing
    try:
        done = await asyncio.wait_for(_finish(process, stdin, most), limit.total_seconds())
    except TimeoutError as late:
        raise GitStalled(
            f"git {args[0]} did not end within {limit.total_seconds():.0f} s"
        ) from late
    finally:
        await _end(process)
    if done.code not in tuple(ok):
        raise GitFailed(args, done)
    return done


def _program(env: Mapping[str, str]) -> tuple[str, ...]:
    """git; where it works alone, with a bound on its memory.

    A hostile tree can make it ask for more than the machine has: then it fails instead. A fetch is
    not bound: a very large upstream may need more, and it is the user's.
    """
    if env.get("GIT_CONFIG_GLOBAL") != os.devnull or shutil.which("git") is None:
        return ("git",)
    return ("/bin/sh", "-c", f'ulimit -d {_MEMORY >> 10} 2>/dev/null; exec git "$@"', "git")


async def require_version() -> str:
    """The installed git's version; `SetupError` for one that cannot forecast merges."""
    said = (await git("version", at=Path("/"), env=alone())).text
    found = re.search(r"(\d+)\.(\d+)", said)
    if found is None or (int(found[1]), int(found[2])) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise SetupError(f"{said} is too old: {oldest} or newer is needed; upgrade git")
    return said


async def _finish(process: asyncio.subprocess.Process, stdin: bytes, most: int) -> Finished:
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise InternalError("git was started without pipes")
    feeding = asyncio.create_task(_feed(process.stdin, stdin))
    out, err = await asyncio.gather(
        _read(process.stdout, most), _read(process.stderr, _ERROR_LIMIT, drain=True)
    )
    await feeding
    return Finished(await process.wait(), out, err.decode(errors="replace"))


async def _feed(pipe: asyncio.StreamWriter, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        pipe.write(data)
        await pipe.drain()
    pipe.close()


async def _read(pipe: asyncio.StreamReader, limit: int, *, drain: bool = False) -> bytes:
    kept = bytearray()
    while chunk := await pipe.read(1 << 16):
        if len(kept) + len(chunk) <= limit:
            kept += chunk
        elif not drain:
            raise GitTooLoud(f"git printed more than {limit} bytes")
    return bytes(kept)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Politely first: killed outright, git leaves lock files that stop the next run."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        await asyncio.wait([asyncio.ensure_future(process.wait())], timeout=_GRACE)


_PRCTL = ctypes.CDLL(None).prctl
_PR_SET_PDEATHSIG = 1


def _end_with_us() -> None:
    """In the child: were this process killed, nobody would be left to end a git that works on."""
    _PRCTL(_PR_SET_PDEATHSIG, signal.SIGTERM)
