"""`forklift clean --older-than 7d`: remove old runs, and nothing else."""

import argparse
import os
import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from forklift.cli.options import Parser
from forklift.cli.render import complain, print_json
from forklift.core.text import harmless
from forklift.sandboxes.owner import is_dead
from forklift.settings import load
from forklift.stores.clean import clean

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def run(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    done = clean(
        load(os.environ).state_root,
        options.older_than,
        datetime.now().astimezone(),
        is_dead,
        include_stuck=options.stuck,
        dry_run=options.dry_run,
    )
    if options.json:
        print_json({"removed": done.removed, "kept": done.kept, "undeleted": done.undeleted})
        return 1 if done.undeleted else 0
    verb = "would remove" if options.dry_run else "removed"
    for name in done.removed:
        print(f"{verb} {name}")
    for line in done.kept:
        print(f"kept {harmless(line)}")
    for line in done.undeleted:
        complain(f"forklift: could not delete {harmless(line)}")
    if not done.removed and not done.kept:
        print("nothing to remove")
    return 1 if done.undeleted else 0


def parser() -> Parser:
    made = Parser(prog="forklift clean", description="Remove runs that ended long ago.")
    made.add_argument(
        "--older-than", type=_age, required=True, metavar="AGE", help="such as 12h, 7d or 4w"
    )
    made.add_argument("--stuck", action="store_true", help="those that wait for a person too")
    made.add_argument("--dry-run", action="store_true", help="only tell what would go")
    made.common()
    return made


def _age(text: str) -> timedelta:
    found = re.fullmatch(r"(\d{1,6})([smhdw])", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"'{text[:40]}' is no age; write one such as 12h or 7d")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})
