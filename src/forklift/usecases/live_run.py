"""The run at hand: its directory, its journal, and where it stands."""

from dataclasses import dataclass, field
from pathlib import Path

from forklift.core.journal import Event
from forklift.core.model_access import Usage
from forklift.core.outcome import End, Merged, Unpublished, error_word, word
from forklift.errors import ForkliftError
from forklift.stores.journal import Journal
from forklift.stores.run_directory import Run
from forklift.stores.run_state import RUNNING, RunState
from forklift.usecases.kit import Kit


@dataclass(slots=True)
class LiveRun:
    """Wraps the run's directory with what writing to it needs; closed when the run has ended."""

    kit: Kit
    directory: Run
    _journal: Journal = field(init=False)
    _usage: Usage = field(init=False, default_factory=Usage)

    def __post_init__(self) -> None:
        self._journal = self.directory.journal(self.kit.clock, self.kit.redact)
        self._write(RUNNING, "at work")

    @property
    def id(self) -> str:
        return self.directory.id

    @property
    def path(self) -> Path:
        return self.directory.path

    @property
    def workspace(self) -> Path:
        return self.directory.workspace

    @property
    def harness_state(self) -> Path:
        return self.directory.harness_state

    def record(self, event: Event) -> None:
        self._journal.append(event)

    def note_usage(self, usage: Usage) -> None:
        self._usage = usage

    @property
    def usage(self) -> Usage:
        return self._usage

    def finish(self, end: End) -> None:
        branch = end.branch if isinstance(end, Merged) else None
        url = end.url if isinstance(end, Merged) else None
        hint = f" ({end.command})" if isinstance(end, Unpublished) else ""
        self._close(word(end), end.headline + hint, branch, url)

    def finish_by(self, error: ForkliftError) -> None:
        self._close(error_word(error), error.message)

    def _close(
        self, how: str, headline: str, branch: str | None = None, url: str | None = None
    ) -> None:
        self._journal.append(
            Event("host", "run.ended", {"word": how, "headline": headline}), durable=True
        )
        self._write(how, headline, branch, url)
        self._journal.close()

    def _write(
        self, how: str, headline: str, branch: str | None = None, url: str | None = None
    ) -> None:
        link = self._journal.link
        state = RunState(
            word=how,
            headline=headline,
            updated=self.kit.clock(),
            owner=self.kit.owner,
            branch=branch,
            pr_url=url,
            usage=self._usage,
            journal_entries=link.number,
            journal_hash=link.digest,
        )
        self.directory.write_state(state, self.kit.redact)
