"""`forklift` and `forklift sync`: bring forks up to date."""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from forklift.bootstrap import make_kit
from forklift.cli.exit_codes import exit_code, worst
from forklift.cli.options import Parser
from forklift.cli.render import Terminal, as_json, complain, end_lines, error_line
from forklift.core.model_access import Budget
from forklift.core.outcome import End, Interrupted, Signal
from forklift.errors import ForkliftError, SetupError
from forklift.settings import (
    ForkSettings,
    Settings,
    egress_policy,
    load,
    model_choice,
    override,
    read_forks,
    read_opencode_env,
)
from forklift.usecases.publish import Wishes
from forklift.usecases.sync_fork import SyncOrder, sync_fork

_ALWAYS = "always"
_SIGNALS: tuple[Signal, ...] = ("SIGINT", "SIGTERM", "SIGHUP")
_DEFAULT_LIMIT = timedelta(seconds=480)
_DEFAULT_USD = 10.0
_MOST_TOKENS = 50_000_000
"""Stops a run whose model has no known price, and so no known cost."""


def run(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    settings = load(os.environ)
    terminal = Terminal(sys.stderr, quiet=options.quiet or options.json)
    for warning in settings.warnings:
        terminal.warn(warning)
    codes: list[int] = []
    jobs = _jobs(options, settings)
    for job in jobs:
        codes.append(_one(job, settings, terminal, options, many=len(jobs) > 1))
        if codes[-1] > 128:
            break  # stopped by a signal: the rest was meant too
    return worst(codes)


@dataclass(frozen=True, slots=True)
class _Job:
    """One fork, with the command line's word over the file's."""

    path: Path
    wanted: ForkSettings


def _jobs(options: argparse.Namespace, settings: Settings) -> list[_Job]:
    if options.all:
        if options.paths:
            raise SetupError("--all and paths exclude each other; give one of them")
        listed = settings.config_root / "forks.toml"
        forks = read_forks(listed)
        if not forks:
            raise SetupError(f'{listed} names no fork; add one: [[fork]] path = "~/my-fork"')
        return [_Job(fork.path, fork) for fork in forks]
    paths: list[str] = options.paths or ["."]
    return [_Job(Path(path).absolute(), ForkSettings(Path(path))) for path in paths]


def _one(
    job: _Job, settings: Settings, terminal: Terminal, options: argparse.Namespace, *, many: bool
) -> int:
    """One fork to its end: one result, one exit code. The next fork is not its business."""
    name = str(job.path)
    try:
        end = _synced(job, settings, terminal, options, os.environ)
    except ForkliftError as error:
        code = exit_code(error)
        if options.json:
            print(as_json(name, error, code), flush=True)
        else:
            complain(error_line(error) if not many else f"{name}: {error_line(error)}")
        if options.debug:
            complain(error.detail)
            sys.excepthook(type(error), error, error.__traceback__)
        return code
    except _Stopped as stopped:
        # Told on standard error besides: who pressed Ctrl-C looks there.
        complain(f"forklift: {stopped.end.headline}")
        end = stopped.end
    code = exit_code(end)
    if options.json:
        print(as_json(name, end, code), flush=True)
        return code
    first, *rest = end_lines(end)
    print("\n".join([f"{name}: {first}" if many else first, *rest]), flush=True)
    return code


def _synced(
    job: _Job, settings: Settings, terminal: Terminal, options: argparse.Namespace,
    environ: Mapping[str, str],
) -> End:  # fmt: skip
    wanted = job.wanted
    env_file = options.opencode_env or wanted.opencode_env or settings.opencode_env
    agents: list[str] = [agent for agent in options.agent if agent != _ALWAYS]
    env = override(
        read_opencode_env(env_file),
        model=options.model or wanted.model,
        variant=options.variant or wanted.variant,
        agent=agents[-1] if agents else wanted.agent,
    )
    order = SyncOrder(
        path=job.path,
        choice=model_choice(env),
        agent=env.agent,
        branch=options.branch or wanted.branch,
        target=options.target or wanted.target or "tip",
        limit=options.timeout or wanted.timeout or _DEFAULT_LIMIT,
        budget=_budget(options.budget if options.budget is not None else wanted.budget),
        instructions=(*wanted.instruction, *options.instruction),
        agent_always=_ALWAYS in options.agent,
        dry_run=options.dry_run,
        wishes=Wishes(
            no_pr=options.no_pr or wanted.no_pr,
            draft=options.draft or wanted.draft,
            labels=(*wanted.label, *options.label),
            assignees=(*wanted.assignee, *options.assignee),
            reviewers=(*wanted.reviewer, *options.reviewer),
        ),
    )
    kit = make_kit(
        settings,
        environ,
        image=options.image or wanted.image,
        extra_ca=options.extra_ca or wanted.extra_ca,
        secrets=(env.key,),
        egress=egress_policy(
            options.egress or wanted.egress or "open",
            (*wanted.allow_private, *options.allow_private),
        ),
        no_forge=order.wishes.no_pr or order.dry_run,
    )
    return asyncio.run(_until_stopped(sync_fork(order, kit, terminal)))


class _Stopped(Exception):
    def __init__(self, name: Signal) -> None:
        super().__init__(name)
        self.end = Interrupted(f"stopped by {name}; the container is gone, run again", name)


async def _until_stopped(work: Coroutine[object, object, End]) -> End:
    """Run; the first SIGINT, SIGTERM or SIGHUP cancels, and is what the run says it was."""
    task = asyncio.create_task(work)
    with _signals_cancel(task) as caught:
        try:
            return await task
        except (asyncio.CancelledError, ForkliftError):
            # Being stopped outranks what else went wrong on the way out.
            if caught:
                raise _Stopped(caught[0]) from None
            raise


@contextlib.contextmanager
def _signals_cancel(task: asyncio.Task[End]) -> Generator[list[Signal]]:
    loop = asyncio.get_running_loop()
    caught: list[Signal] = []

    def stop(name: Signal) -> None:
        # Once: an impatient second Ctrl-C must not cut the cleaning up short.
        if not caught:
            caught.append(name)
            task.cancel(name)

    # What the caller had us ignore stays ignored: `nohup forklift` outlives its terminal.
    ignored = signal.SIG_IGN
    heeded: list[Signal] = [
        name for name in _SIGNALS if signal.getsignal(signal.Signals[name]) != ignored
    ]
    for name in heeded:
        loop.add_signal_handler(signal.Signals[name], stop, name)
    try:
        yield caught
    finally:
        for name in heeded:
            loop.remove_signal_handler(signal.Signals[name])


def parser() -> Parser:
    made = Parser(prog="forklift sync", description="Bring forks up to date with their upstream.")
    made.add_argument("paths", nargs="*", metavar="PATH", help="checkouts; default: this one")
    made.add_argument("--all", action="store_true", help="every fork in forks.toml")
    made.add_argument("--branch", metavar="NAME", help="default: the remote's default branch")
    made.add_argument(
        "--target", choices=("tip", "latest-release"), help="what of upstream to merge"
    )
    made.add_argument("--strategy", choices=("merge",), default="merge")
    made.add_argument(
        "--timeout", type=_seconds, metavar="SECONDS", help="the agent's limit; default 480"
    )
    made.add_argument(
        "--agent",
        action="append",
        default=[],
        metavar="NAME",
        help="OpenCode's agent; `always` starts it even where Git alone could merge",
    )
    made.add_argument("--model", help="PROVIDER/MODEL, over opencode.env")
    made.add_argument("--variant", help="over opencode.env")
    made.add_argument("--opencode-env", type=Path, metavar="FILE")
    made.add_argument("--image", help="another image that carries the harness")
    made.add_argument("--extra-ca", type=Path, metavar="FILE", help="a CA bundle to trust too")
    made.add_argument(
        "--egress", metavar="WHERE", help="downloads: open (default), none, or HOST,HOST,*.HOST"
    )
    made.add_argument(
        "--allow-private",
        action="append",
        default=[],
        metavar="ADDRESS:PORT",
        help="a private address that downloads may come from too, such as a company's mirror",
    )
    made.add_argument(
        "--budget",
        type=_dollars,
        metavar="USD",
        help="what a run may cost; default 10; 0: no limit",
    )
    made.add_argument(
        "--instruction", action="append", default=[], metavar="TEXT", help="one more for the agent"
    )
    made.add_argument("--dry-run", action="store_true", help="forecast only, change nothing")
    made.add_argument("--no-pr", action="store_true", help="push the branch, open no pull request")
    made.add_argument("--draft", action="store_true", help="open the pull request as a draft")
    for name in ("label", "assignee", "reviewer"):
        made.add_argument(f"--{name}", action="append", default=[], metavar="NAME")
    made.add_argument("--quiet", action="store_true", help="no progress")
    made.common()
    return made


def _budget(usd: float | None) -> Budget:
    return Budget(usd=_DEFAULT_USD if usd is None else usd, tokens=_MOST_TOKENS if usd != 0 else 0)


def _dollars(text: str) -> float:
    try:
        usd = float(text)
    except ValueError:
        usd = -1.0
    if not 0 <= usd <= 10_000:
        raise argparse.ArgumentTypeError(f"'{text[:40]}' is no sum of dollars from 0 to 10000")
    return usd


def _seconds(text: str) -> timedelta:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 1 <= seconds <= 24 * 3600:
        raise argparse.ArgumentTypeError(
            f"'{text[:40]}' is not a number of seconds from 1 to 86400"
        )
    return timedelta(seconds=seconds)
