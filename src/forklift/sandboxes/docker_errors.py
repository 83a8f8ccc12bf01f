"""What Docker says, in words that tell a person what to do next."""

import re

from forklift.core.text import one_line
from forklift.errors import SandboxUnavailable

_FORBIDDEN = (
    "Docker refuses this user; add yourself to its group and log in again: "
    "sudo usermod -aG docker $USER"
)
_DOWN = "Docker does not answer; start it with: sudo systemctl start docker"

_FULL = (
    "the disk is full where Docker keeps its data; make room, for example with: docker system prune"
)
_ELSEWHERE = (
    "Docker cannot see this machine's folders; Forklift needs a Docker Engine on the same "
    "machine (check DOCKER_HOST and docker context)"
)

_MEANINGS = (
    ("permission denied while trying to connect", _FORBIDDEN),
    ("dial unix /var/run/docker.sock: connect: permission denied", _FORBIDDEN),
    ("annot connect to the Docker daemon", _DOWN),
    ("failed to connect to the docker API", _DOWN),
    ("error during connect", _DOWN),
    ("unexpected EOF", _DOWN),
    ("connection refused", _DOWN),
    ("connection reset by peer", _DOWN),
    (
        "is already in use by container",
        "a sandbox of that name exists already; another run may be using it",
    ),
    ("No such image", "the image is gone; build it again with: forklift image build"),
    ("Unable to find image", "the image is gone; build it again with: forklift image build"),
    ("no space left on device", _FULL),
    ("bind source path does not exist", _ELSEWHERE),
)

_NO_PROGRAM = re.compile(
    r'exec: "([^"]{1,200})".*(no such file or directory|not found|permission denied)'
)


def missing_program(program: str) -> SandboxUnavailable:
    return SandboxUnavailable(
        f"{program} is not installed; install it (Debian, Ubuntu: sudo apt-get install docker.io) "
        "or see https://docs.docker.com/engine/install/"
    )


def no_answer(program: str, doing: str, seconds: float) -> SandboxUnavailable:
    return SandboxUnavailable(
        f"{program} {doing} gave no answer within {seconds:g} s; "
        "restart it with: sudo systemctl restart docker"
    )


def missing_image(name: str, default: str) -> SandboxUnavailable:
    how = "forklift image build" if name == default else f"docker pull {name}"
    return SandboxUnavailable(f"no image {name} on this machine; get it with: {how}")


def refused(program: str, doing: str, said: str) -> SandboxUnavailable:
    for sign, meaning in _MEANINGS:
        if sign in said:
            return SandboxUnavailable(meaning, detail=said)
    if found := _NO_PROGRAM.search(said):
        return SandboxUnavailable(
            f"the image cannot start {found[1]}: {found[2]}; it needs Forklift's harness, "
            "see docs/reference/image.md",
            detail=said,
        )
    return SandboxUnavailable(
        f"{program} {doing} failed: {one_line(said) or 'it did not say why'}", detail=said
    )
