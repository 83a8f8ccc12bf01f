"""Every bad day has its own line: what happened, to what, and what to do next."""

import shutil
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from forklift.testing.forge_gitea import GiteaServer
from forklift.testing.forge_state import HostedRepository
from forklift.testing.repositories import diverge
from tests.support.bad_days import assert_refused, host_in_sha256, metadata, pull_request_text
from tests.support.desk import Desk, DeskFor, write_opencode_env

pytestmark = pytest.mark.docker


# The repository and its remotes


def test_outside_a_repository_one_is_told_to_go_to_the_checkout(
    diverging: Desk, tmp_path: Path
) -> None:
    nowhere = tmp_path / "nowhere"
    nowhere.mkdir()
    done = diverging.run(at=nowhere)
    assert_refused(diverging, done, 1, str(nowhere), "not in a git repository", "go to your fork")


def test_a_path_that_is_not_there_is_named(diverging: Desk) -> None:
    assert_refused(diverging, diverging.run("sync", "missing"), 1, "missing")


def test_without_a_remote_upstream_the_command_that_adds_it_is_printed(diverging: Desk) -> None:
    diverging.fork.checkout.git("remote", "remove", "upstream")
    assert_refused(diverging, diverging.run(), 1, "'upstream'", "git remote add upstream")


def test_without_a_remote_origin_the_command_that_adds_it_is_printed(diverging: Desk) -> None:
    diverging.fork.checkout.git("remote", "remove", "origin")
    assert_refused(diverging, diverging.run(), 1, "'origin'", "git remote add origin")


def test_a_remote_that_is_gone_is_named_with_the_command_that_corrects_it(diverging: Desk) -> None:
    shutil.rmtree(diverging.fork.upstream.path)
    done = diverging.run()
    assert_refused(diverging, done, 1, str(diverging.fork.upstream.path), "git remote set-url")


@pytest.mark.parametrize("side", ["origin", "upstream"])
def test_a_branch_that_one_side_lacks_is_answered_with_those_it_has(
    diverging: Desk, side: str
) -> None:
    other = diverging.fork.upstream if side == "origin" else diverging.fork.origin
    other.git("branch", "next", "main")
    done = diverging.run("--branch", "next")
    assert_refused(diverging, done, 1, side, "no branch 'next'", "it has: main")


def test_a_release_is_wanted_and_upstream_has_none(diverging: Desk) -> None:
    done = diverging.run("--target", "latest-release")
    assert_refused(diverging, done, 1, "no release tag", "--target tip")


# A remote that wants a login


@pytest.fixture
def server(tmp_path: Path) -> Generator[GiteaServer]:
    with GiteaServer(tmp_path / "server") as running:
        yield running


@pytest.fixture
def private_upstream(diverging: Desk, server: GiteaServer) -> HostedRepository:
    """Upstream behind a login; the checkout knows its address and no password."""
    hosted = server.create_repository("maker", "greeter", private=True)
    main = "refs/heads/main"
    diverging.fork.upstream.git("push", "-q", "--force", str(hosted.git_dir), f"{main}:{main}")
    diverging.fork.checkout.git("remote", "set-url", "upstream", server.git_url(hosted))
    return hosted


def test_a_remote_that_asks_for_a_password_is_not_waited_for(
    diverging: Desk, server: GiteaServer, private_upstream: HostedRepository
) -> None:
    done = diverging.run("--dry-run")
    assert_refused(diverging, done, 1, server.git_url(private_upstream), "credential helper")


def test_a_wrong_password_is_refused_and_not_shown(
    diverging: Desk, server: GiteaServer, private_upstream: HostedRepository
) -> None:
    url = server.git_url(private_upstream).replace("://", "://maker:hunter2@")
    diverging.fork.checkout.git("remote", "set-url", "upstream", url)
    done = diverging.run("--dry-run")
    assert_refused(diverging, done, 1, server.git_url(private_upstream), "wants a login")
    assert "hunter2" not in done.err


def test_the_users_own_credential_helper_is_asked(
    diverging: Desk, server: GiteaServer, private_upstream: HostedRepository
) -> None:
    token = server.token_for("maker").reveal()
    helper = f'!f() {{ test "$1" != get || printf "username=maker\\npassword={token}\\n"; }}; f'
    diverging.fork.checkout.git("config", "credential.helper", helper)
    done = diverging.run("--dry-run")
    assert (done.code, done.word) == (0, "forecast"), done.err
    assert token not in done.out + done.err


def test_a_server_that_is_down_is_named(diverging: Desk) -> None:
    diverging.fork.checkout.git("remote", "set-url", "upstream", "http://127.0.0.1:9/x.git")
    done = diverging.run("--dry-run")
    assert_refused(diverging, done, 1, "upstream", "http://127.0.0.1:9/x.git", "does not answer")


# Histories


def _take_back(desk: Desk) -> None:
    """Upstream replaces its last commit by another."""
    work = desk.fork.upstream_work
    work.git("reset", "-q", "--hard", "HEAD^")
    work.commit("Another second version", {"elsewhere.txt": "x\n"})
    work.git("push", "-q", "--force", "origin", "HEAD")


def test_a_force_pushed_upstream_is_reported_and_what_the_fork_has_of_it_stays(
    diverging: Desk,
) -> None:
    assert diverging.run().word == "merged"
    diverging.fork.person_merges(diverging.pushed()[0])
    _take_back(diverging)
    done = diverging.run()
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    told = pull_request_text(diverging)
    assert "Upstream was force-pushed: 1 of its earlier commits are gone" in told
    assert "1 of them are in this fork already and stay" in told


def test_what_a_force_pushed_upstream_took_back_is_not_brought_into_the_fork(
    diverging: Desk,
) -> None:
    dropped = diverging.fork.upstream_work.head
    assert diverging.run().word == "merged"
    _take_back(diverging)
    done = diverging.run()
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    assert "Upstream was force-pushed" in pull_request_text(diverging)
    branch = diverging.state_of(diverging.last)["branch"]
    assert dropped not in diverging.fork.origin.git("rev-list", branch).split()


def test_the_latest_release_is_merged_and_not_the_tip(diverging: Desk) -> None:
    fork = diverging.fork
    fork.upstream_work.git("tag", "v1.10.0")
    fork.upstream_work.git("tag", "v1.9.0", "HEAD^")
    fork.upstream_work.git("push", "-q", "--tags", "origin")
    fork.upstream_commits("Unfinished", {"unfinished.txt": "x\n"})
    done = diverging.run("--target", "latest-release")
    assert (done.code, done.word) == (0, "merged"), done.err
    assert metadata(diverging)["upstream_ref"] == "v1.10.0"
    tree = fork.origin.git("ls-tree", "--name-only", diverging.pushed()[0]).split()
    assert "unfinished.txt" not in tree
    assert "docs" in tree


def test_a_tag_that_upstream_moves_harms_nothing(diverging: Desk) -> None:
    fork = diverging.fork
    fork.upstream_work.git("tag", "v1.0.0")
    fork.upstream_work.git("push", "-q", "--tags", "origin")
    fork.checkout.git("fetch", "-q", "--tags", "upstream")
    mine = fork.checkout.git("rev-parse", "v1.0.0")
    assert diverging.run("--target", "latest-release").word == "merged"
    fork.person_merges(diverging.pushed()[0])
    moved = fork.upstream_commits("Third version", {"version.txt": "3\n"})
    fork.upstream_work.git("tag", "--force", "v1.0.0")
    fork.upstream_work.git("push", "-q", "--force", "--tags", "origin")
    done = diverging.run("--target", "latest-release")
    assert (done.code, done.word) == (0, "merged"), done.err
    assert metadata(diverging)["upstream_commit"] == moved
    assert fork.checkout.git("rev-parse", "v1.0.0") == mine


# Odd checkouts


def _shallow(desk: Desk, at: Path) -> Path:
    url = desk.fork.origin.path.as_uri()
    desk.fork.checkout.git("clone", "-q", "--depth=1", url, str(at))
    return at


def _blobless(desk: Desk, at: Path) -> Path:
    desk.fork.origin.git("config", "uploadpack.allowFilter", "true")
    url = desk.fork.origin.path.as_uri()
    desk.fork.checkout.git("clone", "-q", "--filter=blob:none", "--no-checkout", url, str(at))
    return at


def _borrowing(desk: Desk, at: Path) -> Path:
    desk.fork.checkout.git("clone", "-q", "--shared", str(desk.fork.origin.path), str(at))
    return at


@pytest.mark.parametrize("clone", [_shallow, _blobless, _borrowing])
def test_a_checkout_without_all_of_the_objects_is_as_good_as_a_whole_one(
    diverging: Desk, tmp_path: Path, clone: Callable[[Desk, Path], Path]
) -> None:
    at = clone(diverging, tmp_path / "partial")
    diverging.fork.checkout.git(
        "-C", str(at), "remote", "add", "upstream", str(diverging.fork.upstream.path)
    )
    done = diverging.run(at=at)
    assert (done.code, done.word) == (0, "merged"), done.err
    assert diverging.fork.origin.file(diverging.pushed()[0], "version.txt") == "2"


def test_a_linked_worktree_and_a_directory_below_it_stand_for_the_fork(
    diverging: Desk, tmp_path: Path
) -> None:
    diverging.fork.checkout.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    below = tmp_path / "linked" / "a" / "b"
    below.mkdir(parents=True)
    done = diverging.run(at=below)
    assert (done.code, done.word) == (0, "merged"), done.err
    assert metadata(diverging)["project"] == diverging.fork.checkout.path.name


def test_remotes_may_be_relative_paths(diverging: Desk) -> None:
    checkout = diverging.fork.checkout
    checkout.git("remote", "set-url", "origin", "../origin.git")
    checkout.git("remote", "set-url", "upstream", "../upstream.git")
    below = checkout.path / "below"
    below.mkdir()
    done = diverging.run(at=below)
    assert (done.code, done.word) == (0, "merged"), done.err


def test_a_moved_submodule_is_told_in_the_pull_request(diverging: Desk) -> None:
    fork = diverging.fork
    link = f"160000,{fork.upstream_work.head},vendor"
    fork.upstream_work.git("update-index", "--add", "--cacheinfo", link)
    fork.upstream_work.git("commit", "-q", "-m", "Bring a library along")
    fork.upstream_work.git("push", "-q", "origin", "HEAD")
    done = diverging.run()
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    assert "Submodules moved: vendor" in pull_request_text(diverging)


def test_files_in_git_lfs_are_told_in_the_pull_request(diverging: Desk) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 1\n"
    diverging.fork.upstream_commits(
        "Add a picture", {".gitattributes": "*.png filter=lfs -text\n", "a.png": pointer}
    )
    done = diverging.run()
    assert (done.code, done.word) == (0, "merged"), done.out + done.err
    assert "git lfs push --all origin" in pull_request_text(diverging)


def test_repositories_that_name_objects_by_sha256_are_refused_in_words(
    desk_for: DeskFor, tmp_path: Path
) -> None:
    desk = desk_for(lambda _: diverge(host_in_sha256(tmp_path / "sha256")))
    assert_refused(desk, desk.run(), 1, "SHA-256")


# Docker


def test_without_docker_one_is_told_how_to_install_it(diverging: Desk, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("git", "sh"):
        (programs / name).symlink_to(shutil.which(name) or name)
    diverging.environ["PATH"] = str(programs)
    assert_refused(diverging, diverging.run(), 6, "docker is not installed", "apt-get install")


def test_when_docker_is_down_one_is_told_how_to_start_it(diverging: Desk) -> None:
    diverging.environ["DOCKER_HOST"] = "unix:///nonexistent.sock"
    assert_refused(diverging, diverging.run(), 6, "Docker does not answer", "systemctl start")


def test_a_missing_image_is_answered_with_the_command_that_builds_it(diverging: Desk) -> None:
    done = diverging.run("--image", "forklift-test/no-such-image:latest")
    assert_refused(diverging, done, 6, "no image forklift-test/no-such-image:latest")


def test_the_missing_usual_image_is_built_by_forklift_itself(diverging: Desk) -> None:
    # An engine that answers and has no image at all.
    program = diverging.home / "docker"
    program.write_text("#!/bin/sh\necho 'Error: No such image: x' >&2\nexit 1\n")
    program.chmod(0o755)
    del diverging.environ["FORKLIFT_IMAGE"]
    diverging.environ["FORKLIFT_DOCKER"] = str(program)
    assert_refused(diverging, diverging.run(), 6, "forklift image build")


# Configuration


def test_without_opencode_env_one_is_told_what_to_write_where(diverging: Desk) -> None:
    path = diverging.home / "config" / "forklift" / "opencode.env"
    path.unlink()
    done = diverging.run()
    assert_refused(diverging, done, 1, str(path), "0600", "OPENCODE_API_KEY=")


def test_an_opencode_env_that_others_can_read_is_refused(diverging: Desk) -> None:
    path = write_opencode_env(diverging.home)
    path.chmod(0o644)
    assert_refused(diverging, diverging.run(), 1, "mode 0644", f"chmod 600 {path}")


def test_a_missing_key_is_named_and_no_value_is_shown(diverging: Desk) -> None:
    path = write_opencode_env(diverging.home)
    kept = [line for line in path.read_text().splitlines() if "VARIANT" not in line]
    path.write_text("\n".join(kept) + "\n")
    done = diverging.run()
    assert_refused(diverging, done, 1, str(path), "missing", "OPENCODE_VARIANT=")
    assert "sk-the-real-key" not in done.err


def test_the_forbidden_command_is_warned_about_and_ignored(diverging: Desk) -> None:
    diverging.environ["FORKLIFT_DOCKER_COMMAND"] = "rm -rf /"
    done = diverging.run("--dry-run")
    assert (done.code, done.word) == (0, "forecast")
    (line,) = done.err.splitlines()
    assert "FORKLIFT_DOCKER_COMMAND is ignored" in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--dry-rum", "--dry-rum"),
        ("snyc", "there is no command 'snyc'"),
        ("./greeter", "a path goes after `sync`"),
        ("--timeout never", "'never' is not a number of seconds"),
        ("--model a;b", "letters, digits"),
        ("sync --all .", "--all and paths exclude each other"),
        ("sync --all", "forks.toml names no fork"),
    ],
)
def test_a_slip_on_the_command_line_is_one_line(diverging: Desk, arguments: str, said: str) -> None:
    assert_refused(diverging, diverging.run(*arguments.split()), 1, said)


# Several forks


def test_of_several_forks_each_has_its_line_and_the_worst_code_is_the_commands(
    diverging: Desk, tmp_path: Path
) -> None:
    fine, broken = diverging.fork.checkout.path, tmp_path / "broken"
    broken.mkdir()
    listed = diverging.home / "config" / "forklift" / "forks.toml"
    listed.write_text(f'[[fork]]\npath = "{broken}"\n[[fork]]\npath = "{fine}"\n')
    done = diverging.run("sync", "--all", at=tmp_path)
    assert done.code == 1
    (refused,) = done.err.splitlines()
    assert refused.startswith(f"{broken}: forklift: ")
    assert done.out.startswith(f"{fine}: merged: ")
    assert len(diverging.pushed()) == 1


def test_a_state_directory_that_cannot_be_made_is_named(diverging: Desk) -> None:
    (diverging.home / "state").write_text("a file\n")
    done = diverging.run()
    assert done.code == 1
    (line,) = done.err.splitlines()
    assert str(diverging.state) in line
    assert done.out == ""
