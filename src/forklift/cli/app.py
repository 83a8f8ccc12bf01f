"""The command `forklift`. Commands are imported only when called: `--version` must be instant."""

import importlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

from forklift import __version__
from forklift.errors import ForkliftError

if TYPE_CHECKING:
    import io

COMMANDS = {
    "sync": "bring forks up to date (what `forklift` alone does, here)",
    "status": "list the runs and how they ended",
    "show": "one run: what it was made from, how it ended, its pull request's text",
    "logs": "what the agent and its container printed, or the journal",
    "clean": "remove old runs",
    "doctor": "check this machine and this fork, and say what to repair",
    "image": "build the sandbox's image",
}
_DEFAULT = "sync"


class Command(Protocol):
    """What each module of a command has, besides a `parser()` that the reference is made from."""

    def run(self, arguments: Sequence[str]) -> int: ...


def main(argv: Sequence[str] | None = None) -> int:
    # Under cron's plain locale a name that is not ASCII must not end a run that has succeeded.
    cast("io.TextIOWrapper[BinaryIO]", sys.stdout).reconfigure(errors="backslashreplace")
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] in (["--version"], ["version"]):
        print(f"forklift {__version__}")
        return 0
    if arguments[:1] in (["--help"], ["-h"], ["help"]):
        print(_overview())
        return 0
    name = _DEFAULT
    if arguments and not arguments[0].startswith("-"):
        name = arguments.pop(0)
    if name not in COMMANDS:
        return _unknown(name)
    return _guarded(name, arguments)


def _guarded(name: str, arguments: Sequence[str]) -> int:
    """The process's edge: what is raised becomes one line and an exit code."""
    debug = "--debug" in arguments
    try:
        command = cast("Command", importlib.import_module(f"forklift.cli.{name}"))
        return command.run(arguments)
    except ForkliftError as error:
        from forklift.cli.exit_codes import exit_code  # noqa: PLC0415 - only when needed
        from forklift.cli.render import complain, error_line  # noqa: PLC0415

        complain(error_line(error))
        if debug:
            complain(error.detail)
            _print_traceback()
        return exit_code(error)
    except BrokenPipeError:
        # `forklift logs | head`: the reader has enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as bug:  # noqa: BLE001 - the process's edge
        print(f"forklift: internal error: {bug!r}; run again with --debug", file=sys.stderr)
        if debug:
            _print_traceback()
        return 70


def _print_traceback() -> None:
    import traceback  # noqa: PLC0415 - costs more than all else that --version imports

    traceback.print_exc()


def _overview() -> str:
    rows = "\n".join(f"  {name:<8}{what}" for name, what in COMMANDS.items())
    return (
        "usage: forklift [command] [options]\n\n"
        "Unattended coding agents for Git repositories, without trusting the worker.\n"
        "Run it in a fork's checkout (with remotes `origin` and `upstream`).\n\n"
        f"commands:\n{rows}\n\n"
        "`forklift COMMAND --help` tells the rest; `forklift --help` of sync: forklift sync --help"
    )


def _unknown(name: str) -> int:
    from forklift.core.suggest import did_you_mean  # noqa: PLC0415 - only when needed

    shown = name[:60]
    print(
        f"forklift: there is no command '{shown}'{did_you_mean(name, COMMANDS)};"
        f" there are: {', '.join(COMMANDS)} (a path goes after `sync`)",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
