"""Some tasks of a run, in a journal of their own, which is merged into the run's when they are done."""

import shutil
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from platform import node

from selfwire.core.errors import ConfigError
from selfwire.core.usage import Usage
from selfwire.runs.folders import JOURNAL, PARTS, get_runs_folder
from selfwire.runtime.journal import Journal
from selfwire.runtime.journal_file import copy_rows, read_header
from selfwire.runtime.lease import Lease
from selfwire.runtime.structured_counts import INVALID_NOTE
from selfwire.runtime.structured_modes import MODE_NOTE

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
        return self._compute_spend()

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
            spent = self._compute_spend().subtract(before or Usage())
            copy_rows(self.own, self.whole, runs=self.scopes, notes=self.notes, bodies=True)
            if journal:
                journal.take_in(self.own, spent)
            shutil.rmtree(self.own.parent)
        finally:
            lease.release()
        return spent

    def _compute_spend(self) -> Usage:
        with closing(Journal.open_read_only(self.own)) as journal:
            return journal.spend()


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
    parts = sorted((folder / PARTS).glob("*"))
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
