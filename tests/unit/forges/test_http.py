"""The client that all three adapters share, over a real connection."""

import asyncio
import ssl
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from forklift.core.secret import Secret
from forklift.errors import ForgeError
from forklift.forges.gitea import GiteaPullRequests
from forklift.forges.http import Patience
from forklift.forges.port import ForgeAddress, Repository
from forklift.testing.forge_gitea import GiteaServer
from forklift.testing.forge_stage import HASTE, ServerStage


@asynccontextmanager
async def closing(pulls: GiteaPullRequests) -> AsyncGenerator[GiteaPullRequests]:
    try:
        yield pulls
    finally:
        await pulls.aclose()


def address(url: str, token: str = "a" * 40) -> ForgeAddress:
    return ForgeAddress(url, Repository("git.example.org", "owner", "name"), Secret(token))


@dataclass(frozen=True)
class Authority:
    """A company's own certificate authority."""

    certificate: Path
    server: ssl.SSLContext


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    folder = tmp_path_factory.mktemp("authority")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    return Authority(certificate, server)


async def test_a_forge_behind_a_companys_own_ca_is_reached_with_the_extra_bundle(
    tmp_path: Path, authority: Authority
) -> None:
    with GiteaServer(tmp_path, tls=authority.server) as server:
        stage = ServerStage(server, GiteaPullRequests)
        where = server.address(stage.repository, stage.token)

        async with closing(GiteaPullRequests(where, patience=HASTE)) as without:
            with pytest.raises(ForgeError, match=r"(?i)certificate"):
                await without.probe()
        async with closing(
            GiteaPullRequests(where, extra_ca=authority.certificate, patience=HASTE)
        ) as trusting:
            assert await trusting.probe() == stage.owner


def test_an_extra_bundle_that_is_none_is_named(tmp_path: Path) -> None:
    nonsense = tmp_path / "ca.pem"
    nonsense.write_text("no certificate")

    for bundle in (nonsense, tmp_path / "missing.pem"):
        with pytest.raises(ForgeError, match=str(bundle)):
            GiteaPullRequests(address("https://git.example.org/api/v1"), extra_ca=bundle)


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "Authorization\r\nX: y", "é"])
def test_a_token_that_no_header_can_hold_is_refused_before_any_request(token: str) -> None:
    with pytest.raises(ForgeError, match=r"token for git\.example\.org"):
        GiteaPullRequests(address("https://git.example.org/api/v1", token))


@pytest.mark.parametrize("name", [".", ".."])
def test_a_name_that_would_climb_out_of_the_path_is_refused(name: str) -> None:
    where = replace(address("http://127.0.0.1:1"), repository=Repository("h", "owner", name))

    with pytest.raises(ForgeError, match="no name that a forge could know"):
        GiteaPullRequests(where)


async def test_a_forge_that_cannot_be_reached_is_told_after_some_tries() -> None:
    async with closing(GiteaPullRequests(address("http://127.0.0.1:1"), patience=HASTE)) as pulls:
        with pytest.raises(ForgeError, match=r"no usable answer.*check the network"):
            await pulls.probe()


async def test_the_environments_proxy_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with GiteaServer(tmp_path) as server:
        stage = ServerStage(server, GiteaPullRequests)
        monkeypatch.setenv("HTTP_PROXY", server.url)
        far = ForgeAddress(
            "http://git.example.invalid/api/v1",
            Repository("git.example.invalid", stage.owner, "project"),
            stage.token,
        )
        async with closing(GiteaPullRequests(far, patience=HASTE)) as pulls:
            assert await pulls.probe() == stage.owner


async def test_a_server_that_never_answers_is_given_up() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # until the client hangs up

    brief = Patience(read=timedelta(seconds=0.05), pauses=())
    async with (
        serving(silent) as url,
        closing(GiteaPullRequests(address(url), patience=brief)) as p,
    ):
        with pytest.raises(ForgeError, match="no answer in time"):
            await p.probe()


async def test_a_server_that_sends_a_byte_now_and_then_is_given_up() -> None:
    async def dripping(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while not writer.is_closing() and not reader.at_eof():
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.01)

    brief = Patience(whole=timedelta(seconds=0.1), pauses=())
    async with (
        serving(dripping) as url,
        closing(GiteaPullRequests(address(url), patience=brief)) as pulls,
    ):
        with pytest.raises(ForgeError, match="took too long"):
            await pulls.probe()


async def test_a_server_that_asks_for_patience_gets_a_little_of_it(tmp_path: Path) -> None:
    with GiteaServer(tmp_path) as server:
        stage = ServerStage(server, lambda where: GiteaPullRequests(where, patience=HASTE))
        async with closing(GiteaPullRequests(server.address(stage.repository, stage.token))) as p:
            server.fail("GET", ".", 503, headers={"Retry-After": "3600"}, times=9)
            with pytest.raises(ForgeError, match="failed with 503"):
                await p.probe()
            assert len(server.requests) == 1


Answering = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(answer: Answering) -> AsyncGenerator[str]:
    """A bare TCP server, for what no HTTP server would do."""
    under_way: set[asyncio.Task[object] | None] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        under_way.add(asyncio.current_task())
        try:
            await answer(reader, writer)
        except ConnectionError:
            pass  # the client hung up, as it should
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await asyncio.gather(*(task for task in under_way if task))
