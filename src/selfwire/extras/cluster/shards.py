"""Some tasks of a run, in a journal of their own, which is merged into the run's when they are done."""

import math
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from platform import node

from selfwire.core.errors import ConfigError, JournalError
from selfwire.core.task import Task
from selfwire.core.usage import Usage
from selfwire.evals.table import TRIVIAL
from selfwire.models.metered_chat import INVALID_NOTE
from selfwire.models.structured import MODE_NOTE
from selfwire.runs.record import JOURNAL, PARTS, ROWS, get_runs_folder
from selfwire.store.journal import Journal
from selfwire.store.journal_file import Lease, copy_rows, read_header, read_spend

PATIENCE = 10.0
"""Seconds for which the end of a worker is waited for that has lost its parent or its node."""


@dataclass(frozen=True)
class Shard:
    """Some tasks of a run.

    Attributes:
        name: of what they are a part: a system, or a phase.
        number: counts the shards of that name.
    """

    run: str
    name: str
    number: int
    home: Path | None

    @property
    def job(self) -> str:
        """The name of the job that works on it."""
        return f"{self.name}/{self.number}"

    @property
    def whole(self) -> Path:
        """The journal of the run."""
        return get_runs_folder(self.home) / self.run / JOURNAL

    @property
    def own(self) -> Path:
        """The journal of the shard."""
        return self.whole.parent / PARTS / f"{self.number}-{self.name}" / JOURNAL

    @property
    def scopes(self) -> Sequence[str] | None:
        """Runs of the scopes of its calls; None for all."""
        return None

    @property
    def notes(self) -> Sequence[str]:
        """Beginnings of the names of its notes that the run gets."""
        return (INVALID_NOTE, MODE_NOTE)

    def copy_from_run(self, tasks: Sequence[str]) -> Usage:
        """Copy the calls that the run has made for these tasks into the shard's journal, which must not be open.

        Returns:
            Their cost.
        """
        copy_rows(self.whole, self.own, runs=self.scopes, tasks=tasks, notes=[MODE_NOTE])
        return read_spend(self.own)

    def merge_into_run(self, before: Usage | None = None, journal: Journal | None = None) -> Usage:
        """Copy the shard's rows into the run's journal, and remove the shard.

        Args:
            before: what `copy_from_run` has returned.
            journal: the run's, if it is open and has to know the calls at once.

        Returns:
            The cost of what the shard has done since then.

        Raises:
            JournalError: a process is at work on it.
        """
        lease = Lease(self.own, patience=PATIENCE)
        try:
            spent = read_spend(self.own).subtract(before or Usage())
            copy_rows(self.own, self.whole, runs=self.scopes, notes=self.notes, bodies=True)
            if journal:
                journal.merge(self.own, spent)
            shutil.rmtree(self.own.parent)
        finally:
            lease.release()
        return spent


class SystemShard(Shard):
    """Some tasks of one system of an evaluation; `name` is the system's."""

    @property
    def scopes(self) -> Sequence[str]:
        """The system, and the rule that is measured beside the first."""
        return [f"{self.run}/{name}" for name in (self.name, TRIVIAL)]

    @property
    def notes(self) -> Sequence[str]:
        """The rows of results, and what all shards have."""
        return (f"{ROWS}/", *super().notes)


@dataclass
class OpenShards:
    """Shards that jobs are at work on, by the name of the job.

    Args:
        settle: gets the cost of each shard that is merged.
        journal: the run's, if it is open and has to know the calls at once.
    """

    settle: Callable[[Usage], None]
    journal: Journal | None = None
    _open: dict[str, tuple[Shard, Sequence[Task], Usage]] = field(default_factory=dict)

    def __contains__(self, job: str) -> bool:
        return job in self._open

    def add(self, shard: Shard, tasks: Sequence[Task]) -> None:
        """Add a shard, with the calls that the run has made for its tasks."""
        self._open[shard.job] = shard, tasks, shard.copy_from_run([task.id for task in tasks])

    def merge(self, job: str) -> Sequence[Task]:
        """Merge a shard into the run; returns its tasks."""
        shard, tasks, before = self._open.pop(job)
        self.settle(shard.merge_into_run(before, self.journal))
        return tasks

    def merge_all(self) -> None:
        """Merge the work of jobs that did not end."""
        for job in [*self._open]:
            with suppress(JournalError):  # a worker that still ends; whoever resumes merges it
                self.merge(job)


def cut_tasks(tasks: Sequence[Task], parts: float) -> list[Sequence[Task]]:
    """Cut tasks into as many parts, or fewer where they are few."""
    size = max(1, math.ceil(len(tasks) / parts))
    return [tasks[start : start + size] for start in range(0, len(tasks), size)]


def refuse_missing_shard(path: Path) -> None:
    """Raise a ConfigError where a worker does not see a shard, as on a machine without the folder."""
    if not path.exists():
        raise ConfigError(f"{path} is not there on {node()}; name a folder with --home that all machines share")


def merge_leftover_shards(run: str, home: Path | None, kind: type[Shard] = Shard) -> None:
    """Merge the shards that a stopped run has left, before its journal is opened; remove those that are not begun.

    Args:
        kind: of the run's shards; whoever calls this knows which command has begun the run.

    Raises:
        JournalError: the run or one of them is at work.
    """
    folder = get_runs_folder(home) / run
    parts = sorted(part for part in (folder / PARTS).glob("[0-9]*-*") if part.name.partition("-")[0].isdecimal())
    if not parts:
        return
    whole = folder / JOURNAL
    lease = Lease(whole, holder=read_header(whole).holder)  # a run that is at work may be about to open them
    try:
        for part in parts:
            if not (part / JOURNAL).exists():  # the run was killed while it made it
                shutil.rmtree(part)
                continue
            number, _, name = part.name.partition("-")
            kind(run, name, int(number), home).merge_into_run()
    finally:
        lease.release()
