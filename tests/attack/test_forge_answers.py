"""A forge that was taken over, or a proxy in its place, answers whatever it likes."""

import base64
import gzip
import json
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from forklift.core.text import harmless
from forklift.errors import ForgeError
from forklift.forges.gitea import GiteaPullRequests
from forklift.forges.github import GitHubPullRequests
from forklift.forges.gitlab import GitLabPullRequests
from forklift.forges.port import ForgeAddress, PullRequests
from forklift.testing.forge_conformance import proposal
from forklift.testing.forge_gitea import GiteaServer
from forklift.testing.forge_github import GitHubServer
from forklift.testing.forge_gitlab import GitLabServer
from forklift.testing.forge_server import ForgeServer
from forklift.testing.forge_stage import HASTE, ServerStage

Adapter = Callable[[ForgeAddress], PullRequests]

FORGES: dict[str, tuple[type[ForgeServer], Adapter]] = {
    "gitea": (GiteaServer, lambda where: GiteaPullRequests(where, patience=HASTE)),
    "github": (GitHubServer, lambda where: GitHubPullRequests(where, patience=HASTE)),
    "gitlab": (GitLabServer, lambda where: GitLabPullRequests(where, patience=HASTE)),
}


@pytest.fixture(params=sorted(FORGES))
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerStage]:
    kind, adapter = FORGES[str(request.param)]
    with kind(tmp_path) as server:
        stage = ServerStage(server, adapter)
        stage.add_branch("forklift/upstream-1")
        yield stage


@pytest.fixture
async def pulls(stage: ServerStage) -> AsyncIterator[PullRequests]:
    pulls = stage.adapter()
    yield pulls
    await pulls.aclose()


NONSENSE: dict[str, bytes] = {
    "nothing": b"",
    "null": b"null",
    "a number": b"7",
    "text": b'"text"',
    "an object": b"{}",
    "numbers": b"[1, 2]",
    "empty objects": b"[{}]",
    "not a number": b"[NaN]",
    "invalid UTF-8": b'[{"title": "\xff\xfe"}]',
    "deeply nested": b"[" * 200_000,
    "deeply nested and closed": b"[" * 100_000 + b"]" * 100_000,
    "a number of many digits": b"[" + b"9" * 100_000 + b"]",
    "a page": b"<!doctype html><script>alert(1)</script>",
}


@pytest.mark.parametrize("nonsense", sorted(NONSENSE))
@pytest.mark.parametrize("status", [200, 422])
async def test_no_answer_is_too_odd_to_become_one_plain_line(
    stage: ServerStage, pulls: PullRequests, nonsense: str, status: int
) -> None:
    stage.server.fail("GET", ".", status, content=NONSENSE[nonsense], times=9)

    with pytest.raises(ForgeError) as refused:
        await pulls.find_open("forklift/", "main")

    assert "\n" not in refused.value.message
    assert len(refused.value.message) < 600


async def test_an_answer_that_would_fill_the_memory_is_cut_off(
    stage: ServerStage, pulls: PullRequests
) -> None:
    stage.server.fail("GET", ".", 200, content=b" " * (33 << 20), times=9)

    with pytest.raises(ForgeError, match="larger than 32 MiB"):
        await pulls.find_open("forklift/", "main")


async def test_an_answer_that_would_unpack_for_ever_is_not_unpacked(
    stage: ServerStage, pulls: PullRequests
) -> None:
    bomb = gzip.compress(b" " * (64 << 20))
    stage.server.fail("GET", ".", 200, content=bomb, headers={"Content-Encoding": "gzip"}, times=9)

    with pytest.raises(ForgeError, match="compressed"):
        await pulls.find_open("forklift/", "main")


async def test_a_listing_without_an_end_ends(stage: ServerStage, pulls: PullRequests) -> None:
    for number in range(50):
        stage.repository.add_pull_request(f"forklift/{number}")
    page = _page(stage)
    headers = {"Link": f'<{stage.server.url}/next>; rel="next"'}
    stage.server.fail("GET", ".", 200, content=page, headers=headers, times=1_000)

    with pytest.raises(ForgeError, match="lists more than 10000 entries"):
        await pulls.find_open("forklift/", "main")


async def test_an_entry_that_is_listed_twice_counts_once(
    stage: ServerStage, pulls: PullRequests
) -> None:
    # Somebody opens one while the pages are read: the last of one page is the first of the next.
    for number in range(50):
        stage.repository.add_pull_request(f"forklift/{number}")
    headers = {"Link": '<http://127.0.0.1/next>; rel="next"'}
    stage.server.fail("GET", ".", 200, content=_page(stage), headers=headers, times=2)
    stage.server.fail("GET", ".", 200, content=[], times=1)

    assert len(await pulls.find_open("forklift/", "main")) == 50


async def test_the_address_of_the_next_page_is_not_taken_from_the_answer(
    stage: ServerStage, pulls: PullRequests, tmp_path: Path
) -> None:
    for number in range(60):
        stage.repository.add_pull_request(f"forklift/{number}")
    with GiteaServer(tmp_path / "elsewhere") as elsewhere:
        headers = {"Link": f'<{elsewhere.url}/page/2>; rel="next"'}
        stage.server.fail("GET", ".", 200, content=_page(stage), headers=headers)

        await pulls.find_open("forklift/", "main")

        assert elsewhere.requests == ()


@pytest.mark.parametrize(
    "location",
    [
        "",
        "http://user:password@elsewhere.example/x",
        "//elsewhere.example/x",
        "javascript:alert(1)",
        "http://[::1",
        "http://elsewhere.example/\x1b[31m\u202e" + "x" * 5_000,
    ],
)
@pytest.mark.parametrize("status", [301, 303, 307])
async def test_no_redirect_is_followed_whatever_it_says(
    stage: ServerStage, pulls: PullRequests, location: str, status: int
) -> None:
    headers = {"Location": urllib.parse.quote(location, safe="/:@[]()")}
    for method in ("GET", "POST", "PUT", "PATCH"):
        stage.server.fail(method, ".", status, headers=headers, times=9)

    for attempt in (pulls.create(proposal()), pulls.update(1, proposal()), pulls.probe()):
        with pytest.raises(ForgeError, match=r"redirects|no usable answer") as refused:
            await attempt
        assert "password" not in refused.value.message
        assert harmless(refused.value.message) == refused.value.message
        assert len(refused.value.message) < 600


async def test_a_token_that_the_answer_repeats_in_any_spelling_is_not_shown(
    stage: ServerStage, pulls: PullRequests
) -> None:
    token = stage.token.reveal()
    encoded = base64.b64encode(f"user:{token}".encode()).decode()
    said = {"message": f"{token} and {encoded}"}
    stage.server.fail("POST", r"/(pulls|merge_requests)$", 422, content=said, times=9)

    with pytest.raises(ForgeError) as refused:
        await pulls.create(proposal())

    shown = refused.value.message + refused.value.detail
    assert token not in shown
    assert encoded[8:40] not in shown


async def test_a_title_from_the_forge_cannot_steer_a_terminal(
    stage: ServerStage, pulls: PullRequests
) -> None:
    stage.repository.add_pull_request(
        "forklift/up", title="x\x1b]0;owned\x07\u202e\n\U000e0041 @all" + "y" * 5_000
    )

    found = await pulls.find_open("forklift/up", "main")

    assert harmless(found[0].title) == found[0].title
    assert "\n" not in found[0].title
    assert len(found[0].title) <= 200


async def test_a_page_address_that_would_run_a_script_is_dropped(
    stage: ServerStage, pulls: PullRequests
) -> None:
    stage.repository.add_pull_request("forklift/up")
    page = _page(stage)
    for entry in page:
        for name in ("html_url", "web_url"):
            if name in entry:
                entry[name] = "javascript:alert(document.cookie)"
    stage.server.fail("GET", ".", 200, content=page)

    found = await pulls.find_open("forklift/up", "main")

    assert [pull.url for pull in found] == [""]


@pytest.mark.parametrize("after", ["-1", "1e9", "99999999999999", "tomorrow", "", "\u0664"])
async def test_an_odd_time_to_wait_is_neither_waited_for_nor_a_crash(
    stage: ServerStage, pulls: PullRequests, after: str
) -> None:
    headers = {
        "Retry-After": urllib.parse.quote(after),
        "X-RateLimit-Reset": "999999999999",
        "RateLimit-Reset": "-5",
    }
    stage.server.fail("GET", ".", 429, headers=headers)

    with pytest.raises(ForgeError, match="rate limit is used up"):
        await pulls.probe()


def _page(stage: ServerStage) -> list[dict[str, object]]:
    """A listing as the forge itself gives it."""
    server = stage.server
    project = urllib.parse.quote(stage.repository.full_name, safe="")
    paths = {
        "gitea": f"/repos/{stage.repository.full_name}/pulls?limit=50",
        "github": f"/repos/{stage.repository.full_name}/pulls?per_page=50",
        "gitlab": f"/projects/{project}/merge_requests?per_page=50",
    }
    url = server.api_url + paths[server.kind]
    request = urllib.request.Request(
        url, headers={"Authorization": f"Bearer {stage.token.reveal()}"}
    )
    with urllib.request.urlopen(request) as answer:
        content: list[dict[str, object]] = json.load(answer)
    return content
