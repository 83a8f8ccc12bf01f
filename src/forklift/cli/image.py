"""`forklift image build`: build the sandbox's image from the context that ships with Forklift."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import forklift
from forklift.cli.options import Parser
from forklift.errors import SetupError


def run(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    script = _context() / "build.sh"
    sys.stdout.flush()
    # Replaced by the build itself: its output, its signals and its exit code are the user's.
    os.execv("/bin/bash", ["bash", str(script), *options.options])  # noqa: S606 - our own script


def parser() -> Parser:
    made = Parser(prog="forklift image", description="Build the kitchen-sink image.")
    made.add_argument("what", choices=("build",))
    made.add_argument("options", nargs="*", metavar="-- OPTION", help="passed on to build.sh")
    made.common(json=False)
    return made


def _context() -> Path:
    package = Path(forklift.__file__).parent
    for place in (package / "kitchen_sink", package.parent.parent / "docker" / "kitchen-sink"):
        if (place / "build.sh").exists():
            return place
    raise SetupError(f"the image's build context is missing beside {package}; reinstall forklift")
