"""`forks.toml`: the checkouts that `forklift sync --all` keeps up to date."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from forklift.errors import SetupError
from forklift.settings.toml_file import Entry, read_entries

STRATEGIES = ("merge",)
TARGETS = ("tip", "latest-release")
KEYS = (
    "path", "branch", "timeout", "strategy", "target", "instruction", "no-pr", "draft", "label",
    "assignee", "reviewer", "model", "variant", "agent", "opencode-env", "image", "extra-ca",
    "egress", "allow-private", "budget",
)  # fmt: skip
"""The names of the command line's options, so that one table in the reference explains both."""

_DAY = 24 * 60 * 60


@dataclass(frozen=True, slots=True)
class ForkSettings:
    """What one fork wants otherwise than the defaults. None: not said here."""

    path: Path
    branch: str | None = None
    timeout: timedelta | None = None
    strategy: str | None = None
    target: str | None = None
    instruction: tuple[str, ...] = ()
    no_pr: bool = False
    draft: bool = False
    label: tuple[str, ...] = ()
    assignee: tuple[str, ...] = ()
    reviewer: tuple[str, ...] = ()
    model: str | None = None
    variant: str | None = None
    agent: str | None = None
    opencode_env: Path | None = None
    image: str | None = None
    extra_ca: Path | None = None
    egress: str | None = None
    allow_private: tuple[str, ...] = ()
    budget: int | None = None
    """Whole US dollars a run may cost."""


def read_forks(path: Path) -> tuple[ForkSettings, ...]:
    """The file's entries in order; none when there is no file."""
    forks = tuple(
        _fork(entry, path.parent) for entry in read_entries(path, "fork", KEYS, private=False)
    )
    seen: set[Path] = set()
    for fork in forks:
        if fork.path in seen:
            raise SetupError(f"{path}: {fork.path} has two [[fork]] entries; remove one")
        seen.add(fork.path)
    return forks


def _fork(entry: Entry, base: Path) -> ForkSettings:
    if not entry.needed("path").startswith(("/", "~")):
        # Relative to what? cron and a terminal would disagree.
        raise entry.fault("path", "must be absolute or begin with ~/")
    seconds = entry.whole_number("timeout", least=1, most=_DAY)
    return ForkSettings(
        path=entry.path("path", base) or base,
        branch=entry.text("branch"),
        timeout=None if seconds is None else timedelta(seconds=seconds),
        strategy=entry.one_of("strategy", STRATEGIES),
        target=entry.one_of("target", TARGETS),
        instruction=entry.texts("instruction"),
        no_pr=entry.flag("no-pr"),
        draft=entry.flag("draft"),
        label=entry.texts("label"),
        assignee=entry.texts("assignee"),
        reviewer=entry.texts("reviewer"),
        model=entry.text("model"),
        variant=entry.text("variant"),
        agent=entry.text("agent"),
        opencode_env=entry.path("opencode-env", base),
        image=entry.text("image"),
        extra_ca=entry.path("extra-ca", base),
        egress=entry.text("egress"),
        allow_private=entry.texts("allow-private"),
        budget=entry.whole_number("budget", least=0, most=10_000),
    )
