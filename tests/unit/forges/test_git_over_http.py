"""The forges in this process take real pushes."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from forklift.core.secret import Secret
from forklift.testing.forge_github import GitHubServer
from forklift.testing.forge_server import ForgeServer
from forklift.testing.forge_state import HostedRepository


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ForgeServer]:
    with GitHubServer(tmp_path / "forge") as server:
        yield server


@pytest.fixture
def repository(server: ForgeServer) -> HostedRepository:
    return server.create_repository("owner", "name")


@pytest.fixture
def checkout(server: ForgeServer, repository: HostedRepository, tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    git(tmp_path, "clone", "-q", server.git_url(repository), str(folder))
    return folder


def test_a_pushed_branch_is_in_the_repository(
    server: ForgeServer, repository: HostedRepository, checkout: Path
) -> None:
    write(checkout, "new.txt", "new\n")

    done = push(server, repository, checkout, server.token_for("owner"), "HEAD:forklift/up")

    assert done.returncode == 0
    head = git(checkout, "rev-parse", "HEAD").stdout.strip()
    assert repository.branches()["forklift/up"] == head


def test_a_push_of_many_megabytes_arrives_whole(
    server: ForgeServer, repository: HostedRepository, checkout: Path
) -> None:
    # Above http.postBuffer Git sends chunks of unknown number.
    write(checkout, "large.txt", os.urandom(1_100_000).hex())

    done = push(server, repository, checkout, server.token_for("owner"), "HEAD:large")

    assert done.returncode == 0
    assert "large" in repository.branches()
    assert any(sent.headers.get("transfer-encoding") == "chunked" for sent in server.requests)


def test_nobody_pushes_without_a_token_that_may(
    server: ForgeServer, repository: HostedRepository, checkout: Path
) -> None:
    write(checkout, "new.txt", "new\n")

    for token, words in (
        (Secret("wrong"), "Authentication failed"),
        (server.token_for("owner", expired=True), "Authentication failed"),
        (server.token_for("reader"), "403"),
    ):
        done = push(server, repository, checkout, token, "HEAD:forklift/up")
        assert done.returncode != 0
        assert words in done.stderr

    assert list(repository.branches()) == ["main"]


def test_a_protected_branch_is_refused_in_the_forges_words(
    server: ForgeServer, repository: HostedRepository, checkout: Path
) -> None:
    repository.protect("main")
    write(checkout, "new.txt", "new\n")

    done = push(server, repository, checkout, server.token_for("owner"), "HEAD:main")

    assert done.returncode != 0
    assert "Not allowed to push to protected branch main" in done.stderr


def test_workflow_files_take_a_scope_of_their_own(
    server: ForgeServer, repository: HostedRepository, checkout: Path
) -> None:
    write(checkout, ".github/workflows/ci.yml", "on: push\n")
    without = server.token_for("owner", scopes=["repo"])

    refused = push(server, repository, checkout, without, "HEAD:forklift/up")
    taken = push(server, repository, checkout, server.token_for("owner"), "HEAD:forklift/up")

    assert refused.returncode != 0
    assert "without `workflow` scope" in refused.stderr
    assert taken.returncode == 0


def test_a_private_repository_is_fetched_with_a_token_only(
    server: ForgeServer, repository: HostedRepository, checkout: Path
) -> None:
    repository.private = True
    token = server.token_for("owner")

    refused = run(checkout, "-c", "core.askPass=false", "ls-remote", server.git_url(repository))
    taken = run(checkout, "ls-remote", with_token(server, repository, token))

    assert refused.returncode != 0
    assert taken.returncode == 0
    assert "refs/heads/main" in taken.stdout


def push(
    server: ForgeServer, repository: HostedRepository, checkout: Path, token: Secret, refs: str
) -> "subprocess.CompletedProcess[str]":
    return run(checkout, "push", with_token(server, repository, token), refs)


def with_token(server: ForgeServer, repository: HostedRepository, token: Secret) -> str:
    return server.git_url(repository).replace("://", f"://anybody:{token.reveal()}@")


def write(checkout: Path, name: str, text: str) -> None:
    path = checkout / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    git(checkout, "add", "-A")
    identity = ("-c", "user.name=Me", "-c", "user.email=me@example.invalid")
    git(checkout, *identity, "commit", "-q", "-m", f"Write {name}")


def git(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    done = run(folder, *arguments)
    assert done.returncode == 0, done.stderr
    return done


def run(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }
    return subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
