"""What a bad day looks like to the person who has it."""

import json
from collections.abc import Mapping
from pathlib import Path

from forklift.testing.repositories import Fork, Repo
from tests.support.desk import Desk, Done


def assert_refused(desk: Desk, done: Done, code: int, *said: str) -> None:
    """One line on standard error with all of `said`, nothing else, and no run begun."""
    assert done.code == code, done.out + done.err
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert line.startswith("forklift: ")
    for part in said:
        assert part in line
    assert desk.runs() == []


def pull_request_text(desk: Desk) -> str:
    return (desk.last / "pull-request.md").read_text()


def metadata(desk: Desk) -> Mapping[str, str]:
    return json.loads((desk.last / "metadata.json").read_text())


def host_in_sha256(root: Path) -> Fork:
    """A fork whose upstream, origin and checkout all name objects by SHA-256."""
    work = Repo(root / "work")
    work.path.mkdir(parents=True)
    work.git("init", "-q", "--object-format=sha256", "--initial-branch=main", "--template=")
    work.commit("Say hello", {"greet.py": "print('hello')\n"})
    for name in ("upstream", "origin"):
        Repo(root).git("clone", "-q", "--bare", str(work.path), str(root / f"{name}.git"))
    work.git("remote", "add", "origin", str(root / "upstream.git"))
    checkout = Repo(root / "greeter")
    Repo(root).git("clone", "-q", str(root / "origin.git"), str(checkout.path))
    checkout.git("remote", "add", "upstream", str(root / "upstream.git"))
    return Fork(root, Repo(root / "upstream.git"), Repo(root / "origin.git"), checkout, work)
