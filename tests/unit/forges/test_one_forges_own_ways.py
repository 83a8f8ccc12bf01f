"""What only one of the forges does."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from forklift.core.secret import Secret
from forklift.errors import ForgeError
from forklift.forges.gitea import GiteaPullRequests
from forklift.forges.github import GitHubPullRequests
from forklift.forges.gitlab import GitLabPullRequests
from forklift.forges.port import ForgeAddress, PullRequests, State
from forklift.testing.forge_conformance import proposal
from forklift.testing.forge_gitea import GiteaServer
from forklift.testing.forge_github import GitHubServer
from forklift.testing.forge_gitlab import GitLabServer
from forklift.testing.forge_stage import HASTE, ServerStage


def gitea(where: ForgeAddress) -> PullRequests:
    return GiteaPullRequests(where, patience=HASTE)


def github(where: ForgeAddress) -> PullRequests:
    return GitHubPullRequests(where, patience=HASTE)


def gitlab(where: ForgeAddress) -> PullRequests:
    return GitLabPullRequests(where, patience=HASTE)


class TestGitea:
    @pytest.fixture
    def server(self, tmp_path: Path) -> Iterator[GiteaServer]:
        with GiteaServer(tmp_path) as server:
            yield server

    async def test_an_organisations_label_is_as_good_as_the_repositorys(
        self, server: GiteaServer
    ) -> None:
        stage = ServerStage(server, gitea)
        server.add_organization_label(stage.owner, "from-above")
        stage.add_branch("forklift/upstream-1")

        async with opened(stage) as pulls:
            wanted = replace(proposal(), labels=("from-above", stage.label))
            pull = await pulls.create(wanted)

            assert stage.shown(pull.number).labels == {"from-above", stage.label}
            assert pull.notes == ()

    async def test_a_token_that_may_not_tell_its_user_is_good_enough(
        self, server: GiteaServer
    ) -> None:
        stage = ServerStage(server, gitea)
        token = server.token_for(stage.owner, scopes=["write:repository", "write:issue"])

        async with opened(stage, token) as pulls:
            assert await pulls.probe() == "the token"

    async def test_a_missing_label_scope_is_a_note_and_the_pull_request_is_open(
        self, server: GiteaServer
    ) -> None:
        stage = ServerStage(server, gitea)
        stage.add_branch("forklift/upstream-1")
        token = server.token_for(stage.owner, scopes=["write:repository"])

        async with opened(stage, token) as pulls:
            pull = await pulls.create(replace(proposal(), labels=(stage.label,)))

            assert stage.count() == 1
            assert "write:issue" in " ".join(pull.notes)

    async def test_pull_requests_that_are_switched_off_are_told_before_any_work(
        self, server: GiteaServer
    ) -> None:
        stage = ServerStage(server, gitea)
        stage.repository.has_pull_requests = False

        async with opened(stage) as pulls:
            with pytest.raises(ForgeError, match="switched off"):
                await pulls.probe()

    async def test_a_server_with_other_draft_marks_gets_a_note(self, tmp_path: Path) -> None:
        with GiteaServer(tmp_path, draft_marks=("ENTWURF:",)) as server:
            stage = ServerStage(server, gitea)
            stage.add_branch("forklift/upstream-1")

            async with opened(stage) as pulls:
                pull = await pulls.create(replace(proposal(), draft=True))

                assert not pull.draft
                assert "WIP:" in " ".join(pull.notes)


class TestGitHub:
    @pytest.fixture
    def server(self, tmp_path: Path) -> Iterator[GitHubServer]:
        with GitHubServer(tmp_path) as server:
            yield server

    @pytest.fixture
    def stage(self, server: GitHubServer) -> ServerStage:
        stage = ServerStage(server, github)
        stage.add_branch("forklift/upstream-1")
        return stage

    async def test_the_api_at_the_root_of_its_host_is_spoken_to_as_well(
        self, stage: ServerStage
    ) -> None:
        where = replace(
            stage.server.address(stage.repository, stage.token), api_url=stage.server.url
        )
        pulls = GitHubPullRequests(where, patience=HASTE)

        pull = await pulls.create(replace(proposal(), draft=True))
        ready = await pulls.update(pull.number, proposal())
        await pulls.aclose()

        assert (pull.draft, ready.draft, ready.notes) == (True, False, ())
        assert stage.server.requests[-1].path == "/graphql"

    async def test_where_drafts_cannot_be_had_it_is_opened_ready_with_a_note(
        self, tmp_path: Path
    ) -> None:
        with GitHubServer(tmp_path, has_drafts=False) as server:
            stage = ServerStage(server, github)
            stage.add_branch("forklift/upstream-1")

            async with opened(stage) as pulls:
                pull = await pulls.create(replace(proposal(), draft=True))

                assert stage.count() == 1
                assert not pull.draft
                assert "not supported" in " ".join(pull.notes)

    async def test_a_fine_grained_token_is_not_asked_for_scopes_it_does_not_tell(
        self, stage: ServerStage
    ) -> None:
        token = _of_kind(stage, scopes=None)

        async with opened(stage, token) as pulls:
            assert await pulls.probe() == stage.owner

    async def test_an_apps_token_has_no_user_and_is_good_enough(self, stage: ServerStage) -> None:
        token = _of_kind(stage, scopes=None, app=True)

        async with opened(stage, token) as pulls:
            assert await pulls.probe() == "the token"

    async def test_a_public_repository_needs_the_public_scope_only(
        self, stage: ServerStage
    ) -> None:
        token = stage.server.token_for(stage.owner, scopes=["public_repo"])

        async with opened(stage, token) as pulls:
            assert await pulls.probe() == stage.owner

    async def test_single_sign_on_is_told_as_that(self, stage: ServerStage) -> None:
        stage.server.fail("GET", ".", 403, headers={"X-GitHub-SSO": "required; url=https://x/y"})

        async with opened(stage) as pulls:
            with pytest.raises(ForgeError, match="single sign-on"):
                await pulls.probe()

    async def test_a_body_longer_than_github_takes_is_cut_and_says_so(
        self, stage: ServerStage
    ) -> None:
        async with opened(stage) as pulls:
            pull = await pulls.create(replace(proposal(), body="x" * 100_000))

            body = stage.shown(pull.number).body
            assert len(body) <= 65_536
            assert "cut here" in body

    async def test_it_is_opened_in_the_fork_and_not_in_its_parent(
        self, server: GitHubServer, stage: ServerStage
    ) -> None:
        stage.fork.add_branch("forklift/upstream-1")
        token = server.token_for("forker")
        pulls = stage.adapter_with(token, stage.fork)

        await pulls.create(proposal())
        await pulls.aclose()

        assert len(server.pull_requests(stage.fork)) == 1
        assert server.pull_requests(stage.repository) == ()

    async def test_nothing_to_merge_is_told_in_githubs_words(self, stage: ServerStage) -> None:
        async with opened(stage) as pulls:
            with pytest.raises(ForgeError, match="No commits between main and main"):
                await pulls.create(proposal("main"))


class TestGitLab:
    @pytest.fixture
    def stage(self, tmp_path: Path) -> Iterator[ServerStage]:
        with GitLabServer(tmp_path) as server:
            stage = ServerStage(server, gitlab)
            stage.add_branch("forklift/upstream-1")
            yield stage

    @pytest.mark.parametrize("command", ["/merge", " /merge", "/close\n", "x\n\n\t/merge now"])
    async def test_a_command_in_the_text_is_not_carried_out(
        self, stage: ServerStage, command: str
    ) -> None:
        async with opened(stage) as pulls:
            text = replace(proposal(), body=command)
            pull = await pulls.create(text)
            await pulls.update(pull.number, text)

            assert stage.find(pull.number).state is State.OPEN

    async def test_a_project_in_a_subgroup_is_found(self, stage: ServerStage) -> None:
        nested = stage.server.create_repository("group/sub", "project")
        token = stage.server.token_for("group/sub")
        pulls = stage.adapter_with(token, nested)

        assert await pulls.probe() == "group/sub"
        await pulls.aclose()


@asynccontextmanager
async def opened(stage: ServerStage, token: Secret | None = None) -> AsyncGenerator[PullRequests]:
    """The adapter, closed in the end."""
    pulls = stage.adapter_with(token or stage.token)
    try:
        yield pulls
    finally:
        await pulls.aclose()


def _of_kind(stage: ServerStage, *, scopes: frozenset[str] | None, app: bool = False) -> Secret:
    secret = stage.server.token_for(stage.owner)
    token = stage.server.token(secret.reveal())
    assert token is not None
    token.scopes, token.app = scopes, app
    return secret
