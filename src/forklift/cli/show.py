"""`forklift show RUN`: what a run was made from, how it ended, what it proposed."""

import os
from collections.abc import Sequence

from forklift.cli.options import Parser
from forklift.cli.render import print_json
from forklift.core.journal import Link
from forklift.core.text import harmless, one_line
from forklift.errors import SetupError, UnsafeOutput
from forklift.sandboxes.owner import is_dead
from forklift.settings import load
from forklift.stores.journal import fault_in
from forklift.stores.run_directory import Run, find
from forklift.stores.run_state import RunState
from forklift.stores.untrusted import read_text

_LONGEST = 1 << 20


def run(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    chosen = find(load(os.environ).state_root, options.run)
    state, facts = chosen.state(is_dead), chosen.metadata()
    fault = fault_in(chosen.journal_path, _end(state))
    if options.json:
        print_json(
            {
                "run": chosen.id,
                "path": str(chosen.path),
                "state": state.as_json(),
                "metadata": facts,
                "journal_fault": fault,
            }
        )
        return 0
    print(f"run        {chosen.id}\nends in    {state.word}: {harmless(state.headline)}")
    for name in ("upstream", "upstream_ref", "upstream_commit", "origin", "origin_branch",
                 "origin_commit", "model", "agent", "image"):  # fmt: skip
        if (value := facts.get(name)) is not None:
            print(f"{name:<15} {one_line(str(value), 120)}")
    if state.usage and state.usage.requests:
        cost = "unknown" if state.usage.usd is None else f"${state.usage.usd:.4f}"
        tokens = state.usage.input_tokens + state.usage.output_tokens
        print(f"{'used':<15} {state.usage.requests} requests, {tokens} tokens, cost {cost}")
    print(f"{'journal':<15} {'whole and unchanged' if fault is None else fault}")
    print(f"{'files':<15} {chosen.path}")
    for title, text in (("STUCK.md", _stuck(chosen)), ("pull request", _proposal(chosen))):
        if text:
            print(f"\n--- {title} ---\n{text}")
    return 0


def parser() -> Parser:
    made = Parser(prog="forklift show", description="Show one run.")
    made.add_argument("run", nargs="?", default="latest", help="id, its beginning, or `latest`")
    made.common()
    return made


def _end(state: RunState) -> Link | None:
    if state.journal_entries is None or state.journal_hash is None:
        return None
    return Link(state.journal_entries, state.journal_hash)


def _stuck(chosen: Run) -> str | None:
    try:
        return read_text(chosen.workspace / "STUCK.md", _LONGEST, root=chosen.path)
    except UnsafeOutput as unsafe:
        return f"(cannot be shown: {unsafe.message})"


def _proposal(chosen: Run) -> str | None:
    """The host wrote it, and wrote it harmless: nothing in it needs another escape."""
    try:
        return (chosen.path / "pull-request.md").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SetupError(f"{error.filename}: {error.strerror}") from error
