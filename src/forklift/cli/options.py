"""Options that all commands share, and errors that look like ours."""

import argparse
from typing import NoReturn

from forklift.core.text import one_line
from forklift.errors import SetupError


class Parser(argparse.ArgumentParser):
    """argparse, whose complaints are one line and exit code 1."""

    def __init__(self, *, prog: str, description: str) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False)

    def common(self, *, json: bool = True) -> None:
        if json:
            self.add_argument("--json", action="store_true", help="results as JSON")
        self.add_argument("--debug", action="store_true", help="show what lies behind an error")

    def error(self, message: str) -> NoReturn:
        raise SetupError(f"{one_line(message)}; see: {self.prog} --help")
