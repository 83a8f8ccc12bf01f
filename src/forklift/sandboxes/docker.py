"""Sandboxes as Docker containers, driven through the docker program."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping
from datetime import datetime
from importlib import resources
from pathlib import Path

from forklift.errors import SandboxUnavailable
from forklift.sandboxes.docker_arguments import (
    DEADLINE_LABEL,
    OWNER_LABEL,
    Engine,
    client_environment,
    read_owner_label,
    run_detached,
)
from forklift.sandboxes.docker_capture import capture
from forklift.sandboxes.docker_client import DockerClient
from forklift.sandboxes.docker_errors import missing_image, refused
from forklift.sandboxes.docker_sandbox import DockerSandbox, remove
from forklift.sandboxes.port import Exit, Image, Owner, Sandbox, SandboxSpec

DEFAULT_IMAGE = "forklift/kitchen-sink:latest"
HARNESS_LABEL = "forklift.harness"


class DockerSandboxes:
    """The backend `docker`. `program` may be `podman`."""

    def __init__(self, program: str = "docker", environ: Mapping[str, str] | None = None) -> None:
        self._client = DockerClient(program, environ)
        self._engine = Engine(
            seccomp=Path(str(resources.files("forklift.sandboxes") / "seccomp.json")),
            cpus=os.cpu_count() or 1,
            podman=self._client.program == "podman",
        )

    async def probe(self) -> str:
        side = "Client" if self._engine.podman else "Server"
        question = ["version", "--format", f"{{{{.{side}.Version}}}}"]
        answer = await self._client.must(question, self._client.patience.question)
        return f"{self._client.program} {answer.text}"

    async def find_image(self, name: str) -> Image:
        template = f'{{{{.Id}}}}\t{{{{with .Config.Labels}}}}{{{{index . "{HARNESS_LABEL}"}}}}'
        question = ["image", "inspect", "--format", template + "{{end}}", "--", name]
        answer = await self._client.call(question, self._client.patience.question)
        if answer.code and "No such image" in answer.said:
            raise missing_image(name, DEFAULT_IMAGE)
        if answer.code:
            raise refused(self._client.program, "image inspect", answer.said)
        digest, _, harness = answer.text.partition("\t")
        return Image(name, digest, harness or None)

    async def start(self, spec: SandboxSpec) -> Sandbox:
        starting = asyncio.ensure_future(self._run(spec))
        try:
            identifier = await asyncio.shield(starting)
        except asyncio.CancelledError:
            # Ending the program here could leave a container whose id nobody has read.
            with contextlib.suppress(SandboxUnavailable):
                await remove(self._client, await starting)
            raise
        return DockerSandbox(spec, identifier, self._client)

    async def resume(self, spec: SandboxSpec) -> Sandbox:
        await self.destroy(spec.name)
        return await self.start(spec)

    async def capture(self, spec: SandboxSpec, into: Path, limit: int) -> Exit:
        return await capture(self._client, self._engine, spec, into, limit)

    async def destroy(self, name: str) -> None:
        await remove(self._client, name)

    async def reap(self, is_dead: Callable[[Owner], bool], now: datetime) -> list[str]:
        labels = f'{{{{.Label "{OWNER_LABEL}"}}}}\t{{{{.Label "{DEADLINE_LABEL}"}}}}'
        question = ["ps", "--all", "--no-trunc", "--filter", f"label={OWNER_LABEL}"]
        question += ["--format", f"{{{{.Names}}}}\t{labels}"]
        answer = await self._client.must(question, self._client.patience.question)
        lines = [line.split("\t") for line in answer.text.splitlines()]
        left = [fields[0] for fields in lines if _is_left_over(fields[1:], is_dead, now)]
        for name in left:
            await remove(self._client, name)
        return left

    async def _run(self, spec: SandboxSpec) -> str:
        answer = await self._client.call(
            run_detached(spec, self._engine), self._client.patience.start, client_environment(spec)
        )
        if answer.code:
            if answer.text:  # made, but it could not be started
                await remove(self._client, answer.text)
            raise refused(self._client.program, "run", answer.said)
        return answer.text


def _is_left_over(labels: list[str], is_dead: Callable[[Owner], bool], now: datetime) -> bool:
    owner, deadline = read_owner_label(labels[0]), labels[-1]
    if owner is None or not deadline.isdecimal():
        return False  # not as Forklift writes it: nothing of ours
    return is_dead(owner) or now.timestamp() > int(deadline)
