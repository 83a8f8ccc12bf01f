"""A desk whose fork lies on a forge in this process, over its real smart HTTP and its real API."""

import dataclasses
from dataclasses import dataclass

from forklift.core.secret import Secret
from forklift.testing.forge_server import ForgeServer
from forklift.testing.forge_state import HostedPullRequest, HostedRepository
from forklift.testing.repositories import Repo
from tests.support.desk import Desk

OWNER = "owner"
HELPER = "helper"
LABEL = "sync"


@dataclass
class ForgeDesk:
    """The user's desk, the forge that origin is on, and the token in the user's forges.toml."""

    desk: Desk
    server: ForgeServer
    hosted: HostedRepository
    token: Secret

    def pull_requests(self) -> list[HostedPullRequest]:
        return list(self.hosted.pull_requests)

    @property
    def pull_request(self) -> HostedPullRequest:
        """The only one: a second would be a broken promise."""
        (only,) = self.hosted.pull_requests
        return only

    def head_of(self, branch: str) -> str:
        return self.hosted.branches()[branch]

    def use(self, token: Secret) -> None:
        self.token = token
        write_forges(self.desk, self.server, token)

    def slow_down_pushes(self) -> None:
        """So that whoever looks at processes sees one that pushes."""
        hook = self.hosted.git_dir / "hooks" / "pre-receive"
        hook.write_text(hook.read_text().replace("\n", "\nsleep 1\n", 1))

    def refuse_pushes(self, words: str) -> None:
        """As the protection of all branches that this user may not write."""
        hook = self.hosted.git_dir / "hooks" / "pre-receive"
        hook.rename(hook.with_name("kept"))
        hook.write_text(f"#!/bin/sh\necho '{words}' >&2\nexit 1\n")
        hook.chmod(0o755)

    def allow_pushes(self) -> None:
        hook = self.hosted.git_dir / "hooks" / "pre-receive"
        hook.with_name("kept").replace(hook)


def put_on_forge(desk: Desk, server: ForgeServer) -> ForgeDesk:
    """Move the desk's origin there, with a label and a second person who may write."""
    hosted = server.create_repository(OWNER, "greeter")
    server.add_user(HELPER)
    hosted.writers.add(HELPER)
    hosted.labels[LABEL] = server.next_number()
    there = Repo(hosted.git_dir)
    there.git("fetch", "--quiet", str(desk.fork.origin.path), "+refs/heads/*:refs/heads/*")
    desk.fork.checkout.git("remote", "set-url", "origin", server.git_url(hosted))
    desk.fork = dataclasses.replace(desk.fork, origin=there)
    token = server.token_for(OWNER)
    write_forges(desk, server, token)
    return ForgeDesk(desk, server, hosted, token)


def write_forges(desk: Desk, server: ForgeServer, token: Secret) -> None:
    host = server.url.partition("://")[2]
    path = desk.home / "config" / "forklift" / "forges.toml"
    path.write_text(
        f'[[forge]]\nhost = "{host}"\nkind = "{server.kind}"\nurl = "{server.url}"\n'
        f'token = "{token.reveal()}"\n'
    )
    path.chmod(0o600)
