"""A state directory of one's own, and runs in it made by the real store."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from forklift.core.journal import Event
from forklift.core.model_access import Usage
from forklift.core.owner import Owner
from forklift.sandboxes.owner import current_owner
from forklift.stores import run_directory
from forklift.stores.run_directory import Run
from forklift.stores.run_state import RunState

START = datetime(2026, 11, 5, 14, 3, 9, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Told:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.out)

    @property
    def rows(self) -> list[dict[str, Any]]:
        return json.loads(self.out)


@dataclass
class User:
    """Somebody who types commands."""

    home: Path
    environ: dict[str, str]
    made: int = field(default=0)

    @property
    def state(self) -> Path:
        return self.home / "state/forklift"

    def types(self, *arguments: str, at: Path | None = None, **environ: str) -> Told:
        done = subprocess.run(
            [sys.executable, "-m", "forklift.cli.app", *arguments],
            env={**self.environ, **environ}, cwd=at or self.home, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        return Told(done.returncode, done.stdout, done.stderr)

    def run(
        self,
        word: str = "merged",
        headline: str = "pushed a branch",
        *,
        ago: timedelta = timedelta(),
        owner: Owner | None = None,
        metadata: Mapping[str, str] | None = None,
        pr_url: str | None = None,
        usage: Usage | None = None,
    ) -> Run:
        """A run as it lies on disk, each made a minute after the one before."""
        self.made += 1
        run = run_directory.create(self.state, "tool", START + timedelta(minutes=self.made))
        run.write_metadata(
            {"origin": "https://git.example.org/me/tool.git", **(metadata or {})}, str
        )
        journal = run.journal(lambda: START, str)
        journal.append(Event("host", "run.started", {"fork": "tool-0c1d9b2a77"}))
        journal.append(Event("host", "run.ended", {"word": word}))
        link = journal.link
        journal.close()
        at = datetime.now(UTC) - ago
        run.write_state(
            RunState(
                word,
                headline,
                at,
                owner,
                pr_url=pr_url,
                usage=usage,
                journal_entries=link.number,
                journal_hash=link.digest,
            ),
            str,
        )
        return run


@pytest.fixture
def user(tmp_path: Path) -> User:
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_RUNTIME_DIR": str(tmp_path),
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    tmp_path.chmod(0o700)
    return User(tmp_path, environ)


@pytest.fixture
def living() -> Owner:
    return current_owner()


@pytest.fixture
def dead() -> Owner:
    """A process that has ended, as this machine would have known it."""
    me = current_owner()
    return Owner(me.pid, me.started - 1, me.namespace)
