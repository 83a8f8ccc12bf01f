"""A run on disk: a directory under `runs/` whose files are the record.

`.forklift-run` marks it as ours, `metadata.json` says what it was made from and never changes,
`state.json` says where it stands, `journal.jsonl` what was done. What the guest writes lies in
`workspace/` and `harness-state/` and nowhere else.
"""

import contextlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from forklift.core import ids
from forklift.core.owner import Owner
from forklift.core.text import one_line
from forklift.errors import InternalError, SetupError, UnsafeOutput
from forklift.stores.disk import no_space
from forklift.stores.files import make_private, replace_atomically, write_new
from forklift.stores.journal import Journal
from forklift.stores.redacted_json import Json, dump
from forklift.stores.run_state import RunState, parse_state, unreadable
from forklift.stores.untrusted import exists_safely, read_text

MARKER = ".forklift-run"
_LONGEST = 1 << 20
_STAMP = re.compile(r"_(\d{8}_\d{6})(?:-(\d+))?$")


@dataclass(frozen=True, slots=True)
class Run:
    """One run's directory."""

    path: Path

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def workspace(self) -> Path:
        return self.path / "workspace"

    @property
    def harness_state(self) -> Path:
        return self.path / "harness-state"

    def journal(self, clock: Callable[[], datetime], redact: Callable[[str], str]) -> Journal:
        return Journal(self.journal_path, clock, redact)

    @property
    def journal_path(self) -> Path:
        return self.path / "journal.jsonl"

    def write_metadata(self, facts: Mapping[str, Json], redact: Callable[[str], str]) -> None:
        """Once: what a run was made from does not change."""
        try:
            write_new(self.path / "metadata.json", dump(facts, redact))
        except FileExistsError as error:
            raise InternalError(
                f"the metadata of run {self.id} is written twice; please report this"
            ) from error

    def metadata(self) -> Mapping[str, Json]:
        """Empty when it is missing or cannot be read."""
        with contextlib.suppress(UnsafeOutput, ValueError, RecursionError):
            read: Json = json.loads(self._text("metadata.json") or "{}")
            if isinstance(read, dict):
                return read
        return {}

    def write_state(self, state: RunState, redact: Callable[[str], str]) -> None:
        """Replace the state; a reader sees the old one or the new one."""
        replace_atomically(self.path / "state.json", dump(state.as_json(), redact))

    def state(self, is_dead: Callable[[Owner], bool] = lambda _: False) -> RunState:
        """Where the run stands. One that says it is running while its owner is dead has `died`;
        one whose file is missing or corrupt is `unreadable`."""
        try:
            text = self._text("state.json")
            state = parse_state(text) if text is not None else None
        except UnsafeOutput:
            state = None
        if state is None:
            return unreadable(self._made())
        return state.died() if state.is_running and state.owner and is_dead(state.owner) else state

    def _text(self, name: str) -> str | None:
        return read_text(Path(name), _LONGEST, root=self.path)

    def _made(self) -> datetime:
        try:
            return datetime.fromtimestamp((self.path / MARKER).lstat().st_mtime).astimezone()
        except OSError:
            return datetime.now().astimezone()


def create(state_root: Path, project: str, at: datetime) -> Run:
    """Make a new run's directory, private to us, with `harness-state/` in it.

    The workspace is made by whoever fills it.
    """
    runs = state_root / "runs"
    try:
        make_private(state_root)
        make_private(runs)
        path = _claimed(runs, project, at)
    except OSError as error:
        raise no_space(error, runs) from error
    try:
        write_new(path / MARKER, at.isoformat() + "\n")
    except SetupError:
        path.rmdir()  # without its mark nothing would ever clean it up
        raise
    try:
        (path / "harness-state").mkdir(mode=0o700)
    except OSError as error:
        raise no_space(error, path) from error
    return Run(path)


def all_runs(state_root: Path) -> list[Run]:
    """Every directory that bears our mark, newest first."""
    try:
        paths = list((state_root / "runs").iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SetupError(
            f"cannot read {state_root / 'runs'}: {error.strerror}; make it yours again"
        ) from error
    return sorted((Run(path) for path in paths if _is_marked(path)), key=_age_key, reverse=True)


def find(state_root: Path, which: str) -> Run:
    """The run of that id, the only one whose id begins so, or the `latest`."""
    runs = all_runs(state_root)
    shown = one_line(which, 80)
    if which == "latest":
        found = runs[:1]
    else:
        exact = [run for run in runs if run.id == which]
        found = exact or [run for run in runs if which and run.id.startswith(which)]
    if not found:
        raise SetupError(f"there is no run '{shown}' in {state_root}; list them: forklift status")
    if len(found) > 1:
        options = ", ".join(run.id for run in found[:5])
        raise SetupError(f"'{shown}' begins {len(found)} runs; name one of: {options}")
    return found[0]


def _claimed(runs: Path, project: str, at: datetime) -> Path:
    while True:
        path = runs / ids.run_id(project, at, lambda name: (runs / name).exists())
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue  # another start in the same second was quicker: the next suffix is free
        return path


def _is_marked(path: Path) -> bool:
    try:
        return exists_safely(path, MARKER)
    except UnsafeOutput:
        return False


def _age_key(run: Run) -> tuple[str, int, str]:
    found = _STAMP.search(run.id)
    return (found[1], int(found[2] or 1), run.id) if found else ("", 0, run.id)
