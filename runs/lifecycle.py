"""The life of a run of any command: a request is validated, which gives a plan; the plan is started or resumed."""

import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any, Generic, Protocol, TypeVar

from selfwire.core.errors import format_error
from selfwire.core.protocols import Embedder
from selfwire.core.usage import Usage
from selfwire.runs.folders import JOURNAL, SUMMARY, get_runs_folder
from selfwire.runs.requests import Request
from selfwire.runs.run_record import REQUEST, compute_run_hashes, shorten_name
from selfwire.runtime.journal import Journal
from selfwire.runtime.ledger import Ledger, enforce_deadline
from selfwire.runtime.sync import run_sync


class Run(Protocol):
    """A run that is open."""

    @property
    def command(self) -> str:
        """The command that starts and resumes such runs."""

    @property
    def request(self) -> Request:
        """What the run is asked to do."""

    @property
    def labels(self) -> Mapping[str, str]:
        """What lists of runs show beside the request: method, name."""

    @property
    def journal(self) -> Journal:
        """The run's journal."""

    @property
    def ledger(self) -> Ledger:
        """The run's budget and spend."""

    @property
    def spent(self) -> Usage:
        """The cost so far."""


AnyRun = TypeVar("AnyRun", bound=Run)


@dataclass(frozen=True)
class RunPlan(ABC, Generic[AnyRun]):
    """What a run executes: a request and what was loaded for it."""

    request: Request
    home: Path | None
    embedder: Embedder
    notices: tuple[str, ...]

    @property
    @abstractmethod
    def command(self) -> str:
        """The command that starts and resumes such runs."""

    @property
    @abstractmethod
    def corpus(self) -> object:
        """The tasks, as JSON."""

    @abstractmethod
    def open(self, journal: Journal) -> AbstractContextManager[AnyRun]:
        """The run on its journal."""

    async def note_start(self, journal: Journal) -> None:
        """Note what a later start would find changed, such as saved workflows."""

    def create_journal(self, path: Path, run: str) -> Journal:
        """The journal of a new run, with the request and the notes of the start.

        Raises:
            JournalError: the file exists or cannot be made.
        """

        def fill(journal: Journal) -> None:
            run_sync(self._note_request(journal))
            run_sync(self.note_start(journal))
            run_sync(journal.put_note(SUMMARY, make_summary(self.command, self.request, "running")))

        return Journal.create(path, run=run, facts=self._hashes, fill=fill)

    @contextmanager
    def start(self, run: str) -> Iterator[AnyRun]:
        """A new run in a folder of its name.

        Raises:
            JournalError: there is such a run already, or its journal cannot be made.
        """
        journal = self.create_journal(get_runs_folder(self.home) / run / JOURNAL, run)
        with closing(journal), self.open(journal) as opened:
            yield opened

    @contextmanager
    def resume(self, path: Path, *, retry_failed: bool = False) -> Iterator[AnyRun]:
        """A run that stopped early, with everything that it has paid for; keeps the request, whose limits may be new.

        Args:
            retry_failed: whether replies on record that were of no use are asked for again.

        Raises:
            JournalError: another process holds the run, or config, code or corpus have changed.
        """
        with closing(Journal.open(path, self._hashes)) as journal, self.open(journal) as opened:
            if retry_failed:
                journal.retry_failed()
            run_sync(self._note_request(journal))
            yield opened

    @property
    def _hashes(self) -> dict[str, str]:
        return compute_run_hashes(self.request, self.corpus, self.embedder.name)

    async def _note_request(self, journal: Journal) -> None:
        await journal.put_note(REQUEST, self.request.model_dump(mode="json"))


def make_run_name(*parts: str, benchmark: str) -> str:
    """A new name for a run on a benchmark."""
    return "-".join([*parts, shorten_name(benchmark), secrets.token_hex(3)])


async def note_status(run: Run, status: str, **more: Any) -> None:
    """Note the status of a run for lists of runs, beside what earlier phases have noted.

    Args:
        status: running, finished, or stopped and why.
        more: iteration, score; None is left out.
    """
    before = await run.journal.get_note(SUMMARY) or {}
    known = {name: value for name, value in more.items() if value is not None}
    summary = make_summary(run.command, run.request, status)
    await run.journal.put_note(SUMMARY, {**before, **summary, **run.labels, **known})


def make_summary(command: str, request: Request, status: str) -> dict[str, str]:
    """What lists of runs show of every run."""
    return {"command": command, "benchmark": request.benchmark, "model": request.models.agent, "status": status}


@asynccontextmanager
async def track_status(run: Run) -> AsyncIterator[None]:
    """Note that a run is running, and why it stops if it does; stop it at its deadline."""
    await note_status(run, "running")
    try:
        async with enforce_deadline(run.ledger):
            yield
    except BaseException as error:
        await note_status(run, to_stop_status(error))
        raise


STATUS = 400
"""Most characters of a status, which lists of runs show below their table."""


def to_stop_status(error: BaseException) -> str:
    """The status of a run that an error has stopped."""
    if isinstance(error, BrokenPipeError):
        why = "nobody reads what it prints"
    else:
        why = format_error(error) if isinstance(error, Exception) else "interrupted"
    return shorten(f"stopped: {why}", STATUS, placeholder="...")
