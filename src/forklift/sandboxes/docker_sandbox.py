"""One container, from its start until it is forgotten."""

import asyncio

from forklift.errors import SandboxUnavailable
from forklift.sandboxes.docker_client import Answer, DockerClient, seconds_left
from forklift.sandboxes.docker_errors import no_answer, refused
from forklift.sandboxes.port import Exit, SandboxSpec

_GONE = "No such container"
_NOT_RUNNING = "is not running"
_BEING_REMOVED = "is already in progress"


class DockerSandbox:
    def __init__(self, spec: SandboxSpec, identifier: str, client: DockerClient) -> None:
        self._spec = spec
        self._identifier = identifier
        self._client = client

    @property
    def spec(self) -> SandboxSpec:
        return self._spec

    async def wait(self) -> Exit:
        limit = seconds_left(self._spec.deadline, self._client.patience)
        answer = await self._client.call(["wait", self._identifier], limit)
        if answer.code or not answer.text.isdecimal():
            raise self._lost(answer)
        code = int(answer.text)
        return Exit(code, out_of_memory=bool(code) and await self._ran_out_of_memory())

    async def kill(self) -> None:
        question = ["kill", self._identifier]
        answer = await self._client.call(question, self._client.patience.removal)
        if answer.code and _GONE not in answer.said and _NOT_RUNNING not in answer.said:
            raise refused(self._client.program, "kill", answer.said)

    async def output(self, limit: int) -> bytes:
        question = ["logs", self._identifier]
        answer = await self._client.call(question, self._client.patience.logs, tail=limit)
        if answer.code:
            raise refused(self._client.program, "logs", answer.text)
        return answer.out

    async def freeze(self) -> None:
        await remove(self._client, self._identifier)

    async def _ran_out_of_memory(self) -> bool:
        question = ["inspect", "--format", "{{.State.OOMKilled}}", self._identifier]
        answer = await self._client.call(question, self._client.patience.question)
        return answer.text == "true"

    def _lost(self, answer: Answer) -> SandboxUnavailable:
        if _GONE in answer.said:
            return SandboxUnavailable(
                f"the sandbox {self._spec.name} was removed by somebody else; run again"
            )
        return refused(self._client.program, "wait", answer.said)


async def remove(client: DockerClient, name: str) -> None:
    """End the container and forget it. None there is no error."""
    try:
        async with asyncio.timeout(client.patience.removal):
            while not await _try_to_remove(client, name):  # noqa: ASYNC110  Docker tells no event
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise no_answer(client.program, "rm", client.patience.removal) from None


async def _try_to_remove(client: DockerClient, name: str) -> bool:
    question = ["rm", "--force", "--volumes", "--", name]
    answer = await client.call(question, client.patience.removal)
    if not answer.code or _GONE in answer.said:
        return True
    if _BEING_REMOVED in answer.said:
        return False  # somebody else is at it: its name is free only afterwards
    raise refused(client.program, "rm", answer.said)
