"""`forklift logs RUN`: what the agent and its container printed, or the journal."""

import os
from collections.abc import Sequence

from forklift.cli.options import Parser
from forklift.errors import SetupError, UnsafeOutput
from forklift.settings import load
from forklift.stores.run_directory import Run, find
from forklift.stores.untrusted import read_text

_LONGEST = 16 << 20
_FILES = {
    "transcript": "harness-state/transcript.jsonl",
    "container": "container.log",
    "stderr": "harness-state/agent.stderr.log",
    "setup": "harness-state/setup.log",
    "instructions": "harness-state/instructions.txt",
    "tests": "check-result/harness-state/output.txt",
    "tests-before": "check-before/harness-state/output.txt",
    "journal": "journal.jsonl",
}


def run(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    chosen = find(load(os.environ).state_root, options.run)
    if options.only:
        text = _read(chosen, _FILES[options.only])
        if text is None:
            raise SetupError(f"run {chosen.id} has no {options.only} log")
        print(text, end="" if text.endswith("\n") else "\n")
        return 0
    texts = {name: _read(chosen, file) for name, file in _FILES.items()}
    if texts["transcript"]:
        del texts["container"]  # the same again, as the container printed it
    for name, text in texts.items():
        if text:
            print(f"--- {name} ({chosen.path / _FILES[name]}) ---\n{text.rstrip()}\n")
    return 0


def parser() -> Parser:
    made = Parser(prog="forklift logs", description="Print a run's logs, made harmless.")
    made.add_argument("run", nargs="?", default="latest", help="id, its beginning, or `latest`")
    made.add_argument(
        "--only", choices=tuple(_FILES), help="one of them; default: all that there are"
    )
    made.common(json=False)
    return made


def _read(chosen: Run, file: str) -> str | None:
    try:
        return read_text(chosen.path / file, _LONGEST, root=chosen.path)
    except UnsafeOutput as unsafe:
        return f"(cannot be shown: {unsafe.message})"
