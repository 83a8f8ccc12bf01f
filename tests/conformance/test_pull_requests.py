"""Every forge's adapter against the same promises."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from forklift.forges.gitea import GiteaPullRequests
from forklift.forges.github import GitHubPullRequests
from forklift.forges.gitlab import GitLabPullRequests
from forklift.testing.forge_conformance import PullRequestsConformance
from forklift.testing.forge_faults import ForgeFaults
from forklift.testing.forge_gitea import GiteaServer
from forklift.testing.forge_github import GitHubServer
from forklift.testing.forge_gitlab import GitLabServer
from forklift.testing.forge_real_gitea import RealGiteaStage
from forklift.testing.forge_stage import HASTE, ServerStage, Stage


class TestGitea(PullRequestsConformance, ForgeFaults):
    @pytest.fixture
    def stage(self, tmp_path: Path) -> Iterator[ServerStage]:
        with GiteaServer(tmp_path) as server:
            yield ServerStage(server, lambda where: GiteaPullRequests(where, patience=HASTE))


if "FORKLIFT_TEST_GITEA_URL" in os.environ:

    class TestARealGitea(PullRequestsConformance):
        """An administrator's token; see `forge_real_gitea`."""

        @pytest.fixture
        def stage(self) -> Iterator[Stage]:
            url = os.environ["FORKLIFT_TEST_GITEA_URL"]
            token = os.environ["FORKLIFT_TEST_GITEA_TOKEN"]
            with RealGiteaStage(url, token, GiteaPullRequests) as stage:
                yield stage


class TestGiteaBeforeDrafts(PullRequestsConformance):
    """Before 1.20 the title was all that told a draft."""

    @pytest.fixture
    def stage(self, tmp_path: Path) -> Iterator[ServerStage]:
        with GiteaServer(tmp_path, tells_drafts=False) as server:
            yield ServerStage(server, lambda where: GiteaPullRequests(where, patience=HASTE))


class TestGitHub(PullRequestsConformance, ForgeFaults):
    @pytest.fixture
    def stage(self, tmp_path: Path) -> Iterator[ServerStage]:
        with GitHubServer(tmp_path) as server:
            yield ServerStage(server, lambda where: GitHubPullRequests(where, patience=HASTE))


class TestGitLab(PullRequestsConformance, ForgeFaults):
    @pytest.fixture
    def stage(self, tmp_path: Path) -> Iterator[ServerStage]:
        with GitLabServer(tmp_path) as server:
            yield ServerStage(server, lambda where: GitLabPullRequests(where, patience=HASTE))
