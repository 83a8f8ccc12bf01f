"""Starting the docker program: bounded in time and memory, and talking to one engine only."""

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from forklift.errors import SandboxUnavailable
from forklift.sandboxes.docker_errors import missing_program, no_answer, refused

NO_CONFIG = "/nonexistent/forklift"
"""Instead of the user's own: from that, proxy passwords would be copied into every sandbox."""

_ANSWER_LIMIT = 4 << 20
_CHUNK = 256 << 10


@dataclass(frozen=True, slots=True)
class Patience:
    """How long, in seconds, Docker may take for what. All of this adapter's limits are here."""

    question: float = 20.0
    start: float = 60.0
    removal: float = 60.0
    logs: float = 60.0
    after_deadline: float = 30.0
    """How long past its deadline a sandbox is still waited for."""


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    out: bytes
    said: str
    """What the program wrote to stderr."""

    @property
    def text(self) -> str:
        return self.out.decode("utf-8", "replace").strip()


class DockerClient:
    def __init__(self, program: str, environ: Mapping[str, str] | None) -> None:
        self.program = Path(program).name
        """What messages call it."""
        self._given = program
        self._environ = dict(os.environ if environ is None else environ)
        self._address: dict[str, str] | None = None
        self.patience = Patience()

    async def call(
        self,
        arguments: Sequence[str],
        seconds: float,
        environment: Mapping[str, str] | None = None,
        *,
        tail: int | None = None,
    ) -> Answer:
        """Run to the end. With `tail`, both streams' last so many bytes are the answer's."""
        try:
            async with (
                asyncio.timeout(seconds),
                self.running(arguments, environment, merge=tail is not None) as process,
            ):
                out, said = await asyncio.gather(
                    _keep(process.stdout, _ANSWER_LIMIT if tail is None else tail),
                    _keep(process.stderr, _ANSWER_LIMIT),
                )
                code = await process.wait()
        except TimeoutError:
            raise no_answer(self.program, arguments[0], seconds) from None
        return Answer(code, out, said.decode("utf-8", "replace").strip())

    async def must(
        self,
        arguments: Sequence[str],
        seconds: float,
        environment: Mapping[str, str] | None = None,
    ) -> Answer:
        """As `call`, but anything other than success raises."""
        answer = await self.call(arguments, seconds, environment)
        if answer.code:
            raise refused(self.program, arguments[0], answer.said or answer.text)
        return answer

    @contextlib.asynccontextmanager
    async def running(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        merge: bool = False,
    ) -> AsyncGenerator[asyncio.subprocess.Process]:
        """The running program, which does not outlive the context."""
        if self._address is None:
            self._address = await self._find_engine()
        own = {**(environment or {}), **self._own_environment(), **self._address}
        own["DOCKER_CONFIG"] = NO_CONFIG
        async with self._started(arguments, own, merge=merge) as process:
            yield process

    @contextlib.asynccontextmanager
    async def _started(
        self, arguments: Sequence[str], environment: Mapping[str, str], *, merge: bool = False
    ) -> AsyncGenerator[asyncio.subprocess.Process]:
        program = shutil.which(self._given, path=self._environ.get("PATH"))
        if program is None:
            raise missing_program(self.program)
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            program,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=pipe,
            stderr=asyncio.subprocess.STDOUT if merge else pipe,
            env=environment,
            limit=_CHUNK,
            start_new_session=True,  # Ctrl-C is for Forklift, which then ends its sandboxes itself
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
            await process.wait()

    def _own_environment(self) -> dict[str, str]:
        names = ("HOME", "PATH", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR")
        return {name: self._environ[name] for name in names if name in self._environ}

    async def _find_engine(self) -> dict[str, str]:
        """The engine that the user's own `docker` would talk to, as variables of the client."""
        environ = self._environ
        config = Path(environ.get("DOCKER_CONFIG") or Path(environ.get("HOME", "/")) / ".docker")
        if host := environ.get("DOCKER_HOST"):
            names = ("DOCKER_TLS", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH")
            tls = {name: environ[name] for name in names if environ.get(name)}
            return {"DOCKER_HOST": host, "DOCKER_CERT_PATH": str(config), **tls}
        if not (environ.get("DOCKER_CONTEXT") or _names_a_context(config / "config.json")):
            return {}
        return await self._read_context(config)

    async def _read_context(self, config: Path) -> dict[str, str]:
        engine = ".Endpoints.docker"
        template = f"{{{{{engine}.Host}}}}\t{{{{{engine}.SkipTLSVerify}}}}\t"
        template += "{{len .TLSMaterial}}\t{{.Storage.TLSPath}}"
        own = {**self._own_environment(), "DOCKER_CONFIG": str(config)}
        if chosen := self._environ.get("DOCKER_CONTEXT"):
            own["DOCKER_CONTEXT"] = chosen
        question = ["context", "inspect", "--format", template]
        async with asyncio.timeout(self.patience.question), self._started(question, own) as process:
            out, said = await process.communicate()
        fields = out.decode("utf-8", "replace").strip().split("\t")
        if process.returncode or len(fields) != 4:
            reason = said.decode("utf-8", "replace").strip()
            raise SandboxUnavailable(
                "the docker context in use cannot be read; choose another with: docker context use",
                detail=reason,
            )
        host, skip_check, certificates, folder = fields
        if certificates == "0":
            return {"DOCKER_HOST": host}
        check = "DOCKER_TLS" if skip_check == "true" else "DOCKER_TLS_VERIFY"
        return {"DOCKER_HOST": host, "DOCKER_CERT_PATH": f"{folder}/docker", check: "1"}


def seconds_left(deadline: datetime, patience: Patience) -> float:
    left = (deadline - datetime.now(UTC)).total_seconds()
    return max(left, 0.0) + patience.after_deadline


def _names_a_context(config: Path) -> bool:
    try:
        return '"currentContext"' in config.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


async def _keep(stream: asyncio.StreamReader | None, limit: int) -> bytes:
    """The stream's last `limit` bytes, in memory for twice as many at most."""
    kept = bytearray()
    while stream is not None and (piece := await stream.read(_CHUNK)):
        kept += piece
        if len(kept) > 2 * limit + _CHUNK:
            del kept[:-limit]
    return bytes(kept[-limit:]) if limit else b""
