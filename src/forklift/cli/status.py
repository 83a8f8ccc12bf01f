"""`forklift status`: the runs and how they ended."""

import os
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta

from forklift.cli.options import Parser
from forklift.cli.render import print_json
from forklift.core.text import one_line
from forklift.sandboxes.owner import is_dead
from forklift.settings import load
from forklift.stores.run_directory import Run, all_runs
from forklift.stores.run_state import RunState


def run(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    state_root = load(os.environ).state_root
    rows = [(each, each.state(is_dead)) for each in all_runs(state_root)[: max(options.n, 0)]]
    if options.json:
        print_json([_facts(each, state) for each, state in rows])
    elif rows:
        print("\n".join(_line(each, state) for each, state in rows))
    else:
        print(f"no runs yet in {state_root}; start one in a fork's checkout: forklift")
    return 0


def parser() -> Parser:
    made = Parser(prog="forklift status", description="List the runs, newest first.")
    made.add_argument("-n", type=int, default=20, metavar="COUNT", help="how many; default 20")
    made.common()
    return made


def _line(each: Run, state: RunState) -> str:
    width = 100 if not sys.stdout.isatty() else max(40, os.get_terminal_size().columns - 50)
    told = state.pr_url or state.headline
    return f"{each.id:<32} {state.word:<12} {_age(state):>4}  {one_line(told, width)}"


def _age(state: RunState) -> str:
    age = datetime.now().astimezone() - state.updated
    for unit, length in (("d", timedelta(days=1)), ("h", timedelta(hours=1))):
        if age >= length:
            return f"{age // length}{unit}"
    return f"{max(age // timedelta(minutes=1), 0)}m"


def _facts(each: Run, state: RunState) -> dict[str, object]:
    return {"run": each.id, "path": str(each.path), **state.as_json()}
