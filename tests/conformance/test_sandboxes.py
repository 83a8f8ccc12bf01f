"""Every backend keeps the whole contract: Docker, and the one that tests use in its place."""

import os
from collections.abc import AsyncIterator

import pytest

from forklift.sandboxes.docker import DockerSandboxes
from forklift.sandboxes.port import Image
from forklift.testing.sandbox_conformance import (
    SandboxConformance,
    World,
    guest_program,
    memory_argv,
    shell_argv,
)
from forklift.testing.sandbox_memory import MemorySandboxes

IMAGE = "forklift/kitchen-sink:latest"


class TestMemory(SandboxConformance):
    @pytest.fixture
    async def world(self) -> AsyncIterator[World]:
        sandboxes = MemorySandboxes({"guest": guest_program}, (Image(IMAGE, "sha256:1", "1"),))
        world = World(sandboxes, memory_argv, IMAGE, "sha256:1")
        yield world
        await world.tidy()


@pytest.mark.docker
class TestDocker(SandboxConformance):
    @pytest.fixture
    async def world(self) -> AsyncIterator[World]:
        environ = {name: os.environ[name] for name in ("PATH", "DOCKER_HOST") if name in os.environ}
        sandboxes = DockerSandboxes(os.environ.get("FORKLIFT_DOCKER", "docker"), environ)
        image = await sandboxes.find_image(IMAGE)
        world = World(sandboxes, shell_argv, IMAGE, image.digest)
        yield world
        await world.tidy()
