"""The command as a user runs it: a real process, real Git, real containers.

In the place of OpenCode stands a shell script of the test's own, which the run's instructions
carry into the sandbox.
"""

import base64
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forklift.testing.repositories import Fork

STAND_IN = "forklift-test/stand-in:latest"
_DOCKERFILE = """\
FROM {base}
USER root
COPY opencode /usr/local/bin/opencode
RUN chmod 0755 /usr/local/bin/opencode
"""
_OPENCODE = """\
#!/bin/bash
# Stands in for OpenCode: runs the script that the instructions carry.
script=$(grep -o 'RUN:[A-Za-z0-9+/=]*' | head -n 1 | cut -c5- | base64 -d)
exec /bin/bash -c "$script"
"""


def build_stand_in(base: str, context: Path) -> str:
    (context / "Dockerfile").write_text(_DOCKERFILE.format(base=base))
    (context / "opencode").write_text(_OPENCODE)
    subprocess.run(["docker", "build", "--quiet", "--tag", STAND_IN, str(context)], check=True,
                   capture_output=True)  # fmt: skip
    return STAND_IN


@dataclass(frozen=True, slots=True)
class Done:
    """What a run of the command left."""

    code: int
    out: str
    err: str

    @property
    def word(self) -> str:
        return self.out.partition(":")[0]


@dataclass
class Desk:
    """A user's desk: a fork, a configuration, a state directory, the command."""

    fork: Fork
    image: str
    home: Path
    environ: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def state(self) -> Path:
        return self.home / "state" / "forklift"

    def command(self, *arguments: str, agent: str | None = None) -> list[str]:
        script = ["--instruction", instruction(agent)] if agent is not None else []
        return [sys.executable, "-m", "forklift.cli.app", *arguments, *script]

    def run(
        self, *arguments: str, agent: str | None = None, at: Path | None = None, timeout: float = 90
    ) -> Done:
        done = subprocess.run(
            self.command(*arguments, agent=agent), cwd=at or self.fork.checkout.path,
            env=self.environ, capture_output=True, text=True, timeout=timeout, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, *arguments: str, agent: str | None = None) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self.command(*arguments, agent=agent), cwd=self.fork.checkout.path, env=self.environ,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def runs(self) -> list[Path]:
        return sorted((self.state / "runs").glob("*/")) if self.state.exists() else []

    @property
    def last(self) -> Path:
        return self.runs()[-1]

    def state_of(self, run: Path) -> Mapping[str, Any]:
        return json.loads((run / "state.json").read_text())

    def pushed(self) -> list[str]:
        return [name for name in self.fork.origin.branches() if name.startswith("forklift/")]

    def containers(self) -> list[str]:
        """What this desk's runs left running or lying about."""
        listed = subprocess.run(
            ["docker", "ps", "--all", "--format", "{{.Names}}"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        mine = {run.name for run in self.runs()}
        return [name for name in listed.stdout.split() if any(run in name for run in mine)]


def instruction(script: str) -> str:
    return "RUN:" + base64.b64encode(script.encode()).decode()


def write_opencode_env(home: Path, **changes: str) -> Path:
    values = {
        "OPENCODE_API_KEY": "sk-the-real-key-0123456789",
        "OPENCODE_MODEL": "local/scripted",
        "OPENCODE_VARIANT": "default",
        "OPENCODE_AGENT": "build",
        "OPENCODE_BASE_URL": "http://127.0.0.1:9/v1",
        **changes,
    }
    path = home / "config" / "forklift" / "opencode.env"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    path.chmod(0o600)
    return path


DeskFor = Callable[[Callable[[Fork], Fork]], Desk]

RESOLVE = """
git merge --quiet upstream/main
printf 'def greet(name):\\n    return "Moin, " + name + "!"\\n' > greet.py
git add greet.py && git commit --quiet -m 'Merge upstream, keeping our greeting'
"""
"""An agent that does its work well."""
