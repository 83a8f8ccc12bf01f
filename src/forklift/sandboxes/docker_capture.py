"""A container whose stdout becomes a file of the host's, and never more of it than was asked."""

import asyncio
import os
from pathlib import Path

from forklift.errors import InternalError, SandboxUnavailable, SetupError, UnsafeOutput
from forklift.sandboxes.docker_arguments import Engine, client_environment, run_attached
from forklift.sandboxes.docker_client import DockerClient, seconds_left
from forklift.sandboxes.docker_errors import refused
from forklift.sandboxes.docker_sandbox import remove
from forklift.sandboxes.port import Exit, SandboxSpec

_CHUNK = 256 << 10
_CLIENTS_OWN_CODES = (125, 126, 127)
"""Not made, not executable, not found; a guest may end with these as well, but says nothing."""
_KILLED = 137


async def capture(
    client: DockerClient, engine: Engine, spec: SandboxSpec, into: Path, limit: int
) -> Exit:
    file = _new_file(into)
    try:
        code = await _run(client, engine, spec, file, limit)
    except BaseException:
        into.unlink(missing_ok=True)
        raise
    finally:
        os.close(file)
    # Nobody can be asked: the container is gone. Nobody but the kernel kills this one, either.
    return Exit(code, out_of_memory=code == _KILLED)


async def _run(
    client: DockerClient, engine: Engine, spec: SandboxSpec, file: int, limit: int
) -> int:
    arguments, environment = run_attached(spec, engine), client_environment(spec)
    async with client.running(arguments, environment) as process:
        if process.stdout is None or process.stderr is None:
            raise InternalError("docker was started without pipes")
        try:
            async with asyncio.timeout(seconds_left(spec.deadline, client.patience)):
                _, said = await asyncio.gather(
                    _pour(process.stdout, file, limit), process.stderr.read(_CHUNK)
                )
                code = await process.wait()
        except TimeoutError:
            await _end(client, process, spec.name)
            raise SandboxUnavailable(
                f"the sandbox {spec.name} was still busy at its deadline and was ended; "
                "run again with a longer --timeout"
            ) from None
        except BaseException:
            await _end(client, process, spec.name)
            raise
    if code in _CLIENTS_OWN_CODES and said:
        raise refused(client.program, "run", said.decode("utf-8", "replace").strip())
    return code


async def _pour(source: asyncio.StreamReader, file: int, limit: int) -> None:
    poured = 0
    while piece := await source.read(_CHUNK):
        poured += len(piece)
        if poured > limit:
            raise UnsafeOutput(f"the sandbox gave more than {limit} bytes; nothing of it was used")
        _write(file, piece)


def _write(file: int, piece: bytes) -> None:
    view = memoryview(piece)
    try:
        while view:
            view = view[os.write(file, view) :]
    except OSError as error:
        raise SetupError(
            f"cannot write what the sandbox gave: {error.strerror}; make room and run again"
        ) from error


async def _end(client: DockerClient, process: asyncio.subprocess.Process, name: str) -> None:
    """Remove the container until the program attached to it has ended."""
    # Meanwhile its output is thrown away: Docker removes nothing that still has something to say.
    draining = asyncio.ensure_future(_drain(process))
    try:
        async with asyncio.timeout(client.patience.removal):
            while not draining.done():
                await remove(client, name)  # not once: it may come before the container was made
                await asyncio.wait([draining], timeout=0.2)
    finally:
        draining.cancel()


async def _drain(process: asyncio.subprocess.Process) -> None:
    while process.stdout and await process.stdout.read(_CHUNK):
        pass
    await process.wait()


def _new_file(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except OSError as error:
        raise SetupError(f"cannot make {path}: {error.strerror}; check the run's folder") from error
