"""The pull request's words: what a reviewer must know, the agent's decisions first. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from forklift.core.merge_verdict import Decision
from forklift.core.model_access import Usage
from forklift.core.text import code, one_line, quoted

_MOST_ROWS = 50
_MOST_COMMITS = 20
_BODY_LIMIT = 60_000
"""Forges cap bodies (GitHub at 65,536 characters); a body over it is refused whole."""


@dataclass(frozen=True, slots=True)
class CheckRun:
    """One run of the fork's own test command."""

    command: str
    passed: bool
    note: str = ""
    decided: bool = True
    """False: they did not run to their end, which the note tells; neither passed nor failed."""


@dataclass(frozen=True, slots=True)
class Story:
    """Everything a pull request tells."""

    run_id: str
    upstream_name: str
    """Where upstream lies, as it may be shown."""
    upstream_ref: str
    base: str
    old_upstream: str
    new_upstream: str
    commit_count: int
    commits: tuple[str, ...]
    by_agent: bool
    doubts: tuple[str, ...] = ()
    decisions: tuple[Decision, ...] = ()
    conflicts: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    checks: tuple[CheckRun, ...] = ()
    remarks: tuple[str, ...] = ()
    said: str = ""
    model: str = ""
    usage: Usage | None = None


def title(story: Story) -> str:
    commits = f"{story.commit_count} commit{'' if story.commit_count == 1 else 's'}"
    name = one_line(story.upstream_ref, 80)
    return f"Merge upstream {name} ({commits}, to {story.new_upstream[:10]})"


def body(story: Story) -> str:
    sections = [
        _first(story),
        _decided(story),
        _bullets("Conflicts", [code(path) for path in story.conflicts]),
        _bullets("Protected paths that changed", [code(path) for path in story.protected]),
        _checks(story.checks),
        _bullets("Worth knowing", [one_line(remark, 400) for remark in story.remarks]),
        _upstream(story),
        f"**What the agent said** (its words, not checked)\n\n{quoted(story.said)}"
        if story.said
        else "",
        _footer(story),
    ]
    text = "\n\n".join(section for section in sections if section)
    return text if len(text) <= _BODY_LIMIT else text[:_BODY_LIMIT] + "\n\n…cut here."


def _first(story: Story) -> str:
    if not story.doubts:
        return ""
    lines = "\n".join(f"- {one_line(doubt, 600)}" for doubt in story.doubts)
    return f"**Draft, because:**\n\n{lines}"


def _decided(story: Story) -> str:
    if not story.by_agent:
        return (
            "Git merged this alone: no model was asked, no file differs from the automatic merge."
        )
    if not story.decisions:
        return "The result is what Git alone would have made; the agent changed nothing besides."
    rows = [f"- {code(each.path)}: {each.what}" for each in story.decisions]
    return "**Where the agent decided** (files that differ from the automatic merge)\n\n" + _cut(
        rows
    )


def _bullets(heading: str, rows: Sequence[str]) -> str:
    return f"**{heading}**\n\n" + _cut([f"- {row}" for row in rows]) if rows else ""


def _checks(checks: Sequence[CheckRun]) -> str:
    if not checks:
        return "**Tests**: none run (`FORK.md` names none)."
    return "**Tests**\n\n" + "\n".join(f"- {code(each.command)}: {_end(each)}" for each in checks)


def _end(check: CheckRun) -> str:
    if not check.decided:
        return one_line(check.note)
    note = f" ({one_line(check.note)})" if check.note else ""
    return ("passed" if check.passed else "failed") + note


def _upstream(story: Story) -> str:
    span = f"`{story.old_upstream[:12]}..{story.new_upstream[:12]}`"
    head = f"**Upstream** {code(story.upstream_name)} {code(story.upstream_ref)}: {span}"
    rows = [f"- {code(subject)}" for subject in story.commits[:_MOST_COMMITS]]
    if (more := story.commit_count - len(rows)) > 0:
        rows.append(f"- and {more} more")
    return head + "\n\n" + "\n".join(rows)


def _footer(story: Story) -> str:
    facts = [f"run {code(story.run_id)}"]
    if story.model and story.usage is not None:
        used = story.usage
        facts.append(f"model {code(story.model)}: {used.requests} requests")
        facts.append(f"{used.input_tokens + used.output_tokens} tokens")
        facts.append(f"${used.usd:.4f}" if used.usd is not None else "cost unknown")
    return "---\n" + ", ".join(facts) + ". Made by Forklift; nothing is merged without you."


def _cut(rows: Sequence[str]) -> str:
    more = len(rows) - _MOST_ROWS
    tail = [f"- and {more} more"] if more > 0 else []
    return "\n".join([*rows[:_MOST_ROWS], *tail])
