"""`make demo`: a fork that conflicts with its upstream is brought up to date, for real.

Real Git, the real OpenCode in the real container, the real command. Only the model's answers are
scripted, and labelled so, unless a key is configured: then the real model is asked.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from forklift.settings import load
from forklift.testing.repositories import Fork, new_fork
from forklift.testing.scripted_model import Run, Say, ScriptedModel

_BASE = {
    "README.md": "# Greeter\n\nSays hello.\n",
    "greet.py": 'def greet(name):\n    return "Hello, " + name\n',
    "test_greet.py": 'from greet import greet\n\nassert greet("Ada").endswith("Ada!")\n',
    "version.txt": "1\n",
}
_FORK_MD = """\
---
test: python3 test_greet.py
---
This fork greets people the northern way: with "Moin". Keep that, whatever upstream says.
"""
_RESOLVE = """\
git merge upstream/main
printf 'def greet(name):\\n    return "Moin, " + name + "!"\\n' > greet.py
python3 test_greet.py && git add greet.py &&
git commit -m 'Merge upstream: keep our greeting, take their exclamation mark'
"""
_SUMMARY = (
    "Both sides changed the greeting. I kept the fork's word (FORK.md asks for it) and took"
    " upstream's exclamation mark, which its new test wants."
)


def main() -> int:
    root = Path(tempfile.mkdtemp(prefix="forklift-demo-"))
    os.environ["XDG_STATE_HOME"] = str(root / "state")
    say(f"A demonstration in {root}; nothing outside it is touched.")
    fork = make_fork(root)
    configured = load(os.environ).opencode_env
    if configured.exists():
        say(f"The model is the real one that {configured} names.")
        return tell(fork, root)
    say("No model key is configured: the model's answers are SCRIPTED. All else is real.")
    with ScriptedModel([Run(_RESOLVE), Say(_SUMMARY)]) as server:
        os.environ["FORKLIFT_OPENCODE_ENV"] = str(write_env(root, server))
        return tell(fork, root)


def make_fork(root: Path) -> Fork:
    fork = new_fork(root, base={**_BASE, "test_greet.py": "from greet import greet\n"})
    fork.fork_commits(
        "Greet the northern way",
        {"greet.py": 'def greet(name):\n    return "Moin, " + name\n', "FORK.md": _FORK_MD},
    )
    fork.upstream_commits(
        "Greet with an exclamation mark",
        {
            "greet.py": 'def greet(name):\n    return "Hello, " + name + "!"\n',
            "test_greet.py": _BASE["test_greet.py"],
            "version.txt": "2\n",
        },
    )
    return fork


def tell(fork: Fork, root: Path) -> int:
    say("1. Upstream and the fork changed the same line. Git alone stops; the agent goes to work.")
    if run(fork) != 0:
        return explain(root)
    say("   What a person gets to read before merging:")
    body = max((root / "state/forklift/runs").glob("*/pull-request.md"))
    print(indented(body.read_text()))
    say("2. The same again. The result waits for a person, so there is nothing to do.")
    if run(fork) != 0:
        return explain(root)
    say("   A person looks at the branch and merges it.")
    branch = next(name for name in fork.origin.branches() if name.startswith("forklift/"))
    fork.person_merges(branch)
    say("3. Upstream moves on, without a conflict. Git merges alone, no model is asked.")
    fork.upstream_commits("Third version", {"version.txt": "3\n"})
    if run(fork) != 0:
        return explain(root)
    say("4. All runs:")
    run(fork, "status")
    say(f"Look around: {root}/state/forklift/runs, or with XDG_STATE_HOME={root}/state")
    print("   forklift show, forklift logs, git -C", fork.checkout.path, "log --graph --all")
    return 0


def run(fork: Fork, *arguments: str) -> int:
    print(f"\n   $ forklift {' '.join(arguments)}".rstrip(), flush=True)
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "forklift.cli.app", *arguments], cwd=fork.checkout.path, check=False
    )
    print(f"   (exit {done.returncode}, {time.monotonic() - began:.1f} s)", flush=True)
    return done.returncode


def explain(root: Path) -> int:
    say(f"The demonstration stopped here; what happened lies in {root}/state/forklift/runs.")
    return 1


def write_env(root: Path, server: ScriptedModel) -> Path:
    path = root / "opencode.env"
    path.touch(mode=0o600)
    path.write_text(
        f"OPENCODE_API_KEY={server.key}\nOPENCODE_MODEL=scripted/scripted-model\n"
        f"OPENCODE_VARIANT=default\nOPENCODE_AGENT=build\nOPENCODE_BASE_URL={server.base_url}\n"
    )
    return path


def say(text: str) -> None:
    print(f"\n{text}", flush=True)


def indented(text: str) -> str:
    return "\n".join(f"   | {line}".rstrip() for line in text.splitlines())


if __name__ == "__main__":
    sys.exit(main())
