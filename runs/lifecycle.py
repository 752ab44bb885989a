"""The life of a run of any command: validated, started or resumed, executed, and noted in its journal as it goes.

A plan is a request whose parts can all be used; it opens a run, which is executed and then reported.
"""

import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from selfwire.core.errors import format_error
from selfwire.core.usage import Usage
from selfwire.runs.folders import JOURNAL, SUMMARY, get_runs_folder
from selfwire.runs.requests import Request
from selfwire.runs.run_record import REQUEST, shorten_name
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


OpenRun_co = TypeVar("OpenRun_co", bound=Run, covariant=True)


class ResumePlan(Protocol[OpenRun_co]):
    """A request that can be executed."""

    @property
    def request(self) -> Request:
        """What the run is asked to do."""

    @property
    def hashes(self) -> dict[str, str]:
        """What a resumed run must share with its start."""

    def open(self, journal: Journal) -> AbstractContextManager[OpenRun_co]:
        """The run on its journal."""


class StartPlan(ResumePlan[OpenRun_co], Protocol[OpenRun_co]):
    """A request that can be executed for the first time."""

    async def note_start(self, journal: Journal) -> None:
        """Note what a later start would find changed, such as saved workflows."""


def make_run_name(*parts: str, benchmark: str) -> str:
    """A new name for a run on a benchmark."""
    return "-".join([*parts, shorten_name(benchmark), secrets.token_hex(3)])


def create_journal(plan: StartPlan[Run], path: Path, run: str) -> Journal:
    """The journal of a new run, with the request and the notes of the start.

    Raises:
        JournalError: the file exists or cannot be made.
    """
    journal = Journal.create(path, run=run, facts=plan.hashes)
    try:
        run_sync(journal.put_note(REQUEST, plan.request.model_dump(mode="json")))
        run_sync(plan.note_start(journal))
    except BaseException:
        journal.close()
        raise
    return journal


@contextmanager
def start_run(plan: StartPlan[OpenRun_co], home: Path | None, run: str) -> Iterator[OpenRun_co]:
    """A new run in a folder of its name.

    Raises:
        JournalError: there is such a run already, or its journal cannot be made.
    """
    journal = create_journal(plan, get_runs_folder(home) / run / JOURNAL, run)
    with closing(journal), plan.open(journal) as opened:
        yield opened


@contextmanager
def resume_run(plan: ResumePlan[OpenRun_co], path: Path) -> Iterator[OpenRun_co]:
    """A run that stopped early, with everything that it has paid for; the request, whose limits may be new, is kept.

    Args:
        plan: what is executed.
        path: of the run's journal.

    Raises:
        JournalError: another process holds the run, or config, code or corpus have changed.
    """
    with closing(Journal.open(path, plan.hashes)) as journal, plan.open(journal) as opened:
        run_sync(journal.put_note(REQUEST, plan.request.model_dump(mode="json")))
        yield opened


async def note_status(run: Run, status: str, **more: Any) -> None:
    """Note the status of a run for lists of runs.

    Args:
        run: that is open.
        status: running, finished, or stopped and why.
        more: iteration, score; None is left out.
    """
    request = run.request
    summary = {"command": run.command, "benchmark": request.benchmark, "model": request.models.agent, "status": status}
    known = {name: value for name, value in more.items() if value is not None}
    await run.journal.put_note(SUMMARY, {**summary, **run.labels, **known})


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


def to_stop_status(error: BaseException) -> str:
    """The status of a run that an error has stopped."""
    why = format_error(error) if isinstance(error, Exception) else "interrupted"
    return f"stopped: {why}"[:120]
