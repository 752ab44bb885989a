"""Folders of runs, each with a journal and checkpoints, and summaries of runs for lists."""

import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pydantic import Field

from selfwire.core.errors import ConfigError, JournalError
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenJson, FrozenMap, FrozenModel
from selfwire.runtime.journal import Journal
from selfwire.runtime.lease import Lease, is_held
from selfwire.runtime.storage import home_folder

JOURNAL = "journal.sqlite"
CHECKPOINTS = "checkpoints.sqlite"
PARTS = "parts"
"""Folder in a run's folder with a folder per job of a worker."""
SUMMARY = "summary"
"""Name of the journal's note with a run's command, method and status: a JSON object of short values."""

INTERRUPTED = "interrupted"
"""Status of a run whose process ended without a word, as after kill -9."""
ENDED = ("finished", "stopped")
"""First words of the statuses that a run notes at its end."""

ABLATION, WORLD, LEARNING = "ablate", "ablate --world", "train --family"
STUDIES = (ABLATION, WORLD, LEARNING)
"""Commands of studies, which go on when they are given again."""


class RunSummary(FrozenModel):
    """One run as a list shows it.

    Args:
        summary: its note: command, method, benchmark, model, status, iteration, score, ...; the status of a run whose
            process is gone is `INTERRUPTED`.
        spend: sum of its settled calls; None if its journal cannot be read.
        open_calls: calls without a recorded answer.
        open_tokens: the most tokens that those can have cost.
        trouble: why its journal cannot be read.
    """

    run: str
    summary: FrozenJson = Field(default_factory=FrozenMap)
    spend: Usage | None = None
    open_calls: int = 0
    open_tokens: int = 0
    trouble: str = ""


def get_runs_folder(home: str | Path | None) -> Path:
    """The folder that holds a folder per run.

    Raises:
        ConfigError: the home is an address and not a folder.
    """
    if "://" in str(home):
        raise ConfigError(f"runs lie in a folder, not at {str(home).partition('://')[0]}://; name one with --home")
    return home_folder(home) / "runs"


def get_run_folder(home: str | Path | None, run: str) -> Path:
    """The folder of a run that exists.

    Raises:
        ConfigError: there is no such run; the message lists the runs.
    """
    folder = get_runs_folder(home)
    names = list_run_names(home)
    if run not in names:
        known = f"runs are {', '.join(names[-12:])}" if names else "there are none"
        raise ConfigError(f"there is no run {run!r} in {folder}; {known}")
    return folder / run


def list_run_names(home: str | Path | None) -> tuple[str, ...]:
    """Names of the runs, sorted by the time of their start, the newest last."""
    journals = get_runs_folder(home).glob(f"*/{JOURNAL}")
    return tuple(
        path.parent.name for path in sorted(journals, key=lambda path: (get_start_time(path), path.parent.name))
    )


def has_ended(summary: Mapping[str, object]) -> bool:
    """Whether a run's summary says that the run has ended; one that has not may have been killed."""
    return str(summary.get("status", "stopped")).startswith(ENDED)


def get_start_time(journal: Path) -> float:
    """When a run was started, by the clock of its files; 0 if they are gone."""
    with suppress(OSError):
        return journal.with_name(f"{journal.name}.lease").stat().st_mtime  # never written after that
    with suppress(OSError):
        return journal.parent.stat().st_ctime
    return 0.0


async def summarise_run(home: str | Path | None, run: str) -> RunSummary:
    """The summary of a run; `trouble` says why a journal cannot be read."""
    path = get_run_folder(home, run) / JOURNAL
    held = is_held(path)  # a process that ends now notes so before the status is read
    try:
        journal = Journal.open_read_only(path)
    except JournalError as error:
        return RunSummary(run=run, trouble=str(error))
    try:
        calls, tokens = journal.unknown()
        summary = await journal.get_note(SUMMARY) or {}
        if not held and not has_ended(summary):
            summary["status"] = INTERRUPTED
        return RunSummary(run=run, summary=summary, spend=journal.spend(), open_calls=calls, open_tokens=tokens)
    finally:
        journal.close()


def remove_run(home: str | Path | None, run: str) -> None:
    """Delete a run's folder.

    Raises:
        ConfigError: there is no such run.
        JournalError: a process is at work on it.
    """
    folder = get_run_folder(home, run)
    lease = Lease(folder / JOURNAL)
    try:
        shutil.rmtree(folder)
    finally:
        lease.release()
