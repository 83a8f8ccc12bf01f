"""What the agent is told. Pure; written to `instructions.txt` word for word."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from forklift.core.text import harmless


@dataclass(frozen=True, slots=True)
class Brief:
    branch: str
    upstream: str
    """The ref to merge, as the workspace knows it: `upstream/main`."""
    limit: timedelta
    conflicts: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    failing: str = ""
    """What the tests printed, where Git's own clean merge failed them."""
    fork_notes: str = ""
    extra: tuple[str, ...] = ()


def instructions(brief: Brief) -> str:
    parts = [
        _task(brief),
        _forecast(brief),
        _section("What the fork's owner says (FORK.md)", brief.fork_notes.strip()),
        _section("Further instructions", "\n".join(f"- {harmless(x)}" for x in brief.extra)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _task(brief: Brief) -> str:
    minutes = brief.limit.total_seconds() / 60
    tests = (
        "Prove the result with: " + "; ".join(brief.tests)
        if brief.tests
        else "Run any tests you can find."
    )
    return f"""\
You are in /workspace, a Git repository: a fork on branch {brief.branch}. Bring it up to date.

- Merge {brief.upstream} into {brief.branch}, and leave the result committed on {brief.branch}.
- Merge; do not rebase, squash or reset: every commit of both sides must stay reachable.
- Keep what the fork changed on purpose, and take what upstream brings. Where both changed the
  same thing, keep the fork's intention on upstream's new code.
- Change nothing that the merge does not need.
- {tests}
- Write meaningful commit messages: they tell the reviewer how each conflict was settled.
- There is no remote and nobody to ask. Packages can be downloaded over HTTP and HTTPS.
- If you cannot finish with confidence, write STUCK.md in /workspace: what the problem is, what you
  tried, what you need to know. Do not commit it.
- You have {minutes:g} minutes. End with a short summary of what you decided and why."""


def _forecast(brief: Brief) -> str:
    if brief.failing:
        return (
            "Git merges this without a conflict, but the tests then fail where they passed before."
            f" What they printed last:\n\n{_indented(brief.failing)}"
        )
    if not brief.conflicts:
        return ""
    files = "\n".join(f"- {harmless(path)}" for path in brief.conflicts)
    return f"Git alone stops with conflicts in:\n{files}"


def _section(heading: str, text: str) -> str:
    return f"{heading}:\n\n{text}" if text else ""


def _indented(text: str) -> str:
    return "\n".join("    " + line for line in harmless(text).splitlines())


def shell_words(commands: Sequence[str]) -> str:
    """Several commands as one, stopping at the first that fails."""
    return " && ".join(f"({command}\n)" for command in commands)
