"""One system of a run, in its own journal, which is merged into the run's when the system is done."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from selfwire.runs.evaluation.run import ROWS
from selfwire.runs.evaluation.systems import TRIVIAL
from selfwire.runs.folders import JOURNAL, PARTS, get_runs_folder
from selfwire.runtime.journal_file import copy_rows, read_header
from selfwire.runtime.lease import Lease


@dataclass(frozen=True)
class Shard:
    """One system of a run.

    Attributes:
        retry_failed: whether replies on record that were of no use are asked for again.
        budget_address: where the run's budget is shared; None if it has none.
    """

    run: str
    name: str
    home: Path | None
    retry_failed: bool = False
    budget_address: str | None = None

    @property
    def whole(self) -> Path:
        """The journal of the run."""
        return get_runs_folder(self.home) / self.run / JOURNAL

    @property
    def own(self) -> Path:
        """The journal of the shard."""
        return self.whole.parent / PARTS / self.name / JOURNAL

    def copy_from_run(self) -> None:
        """Copy the run's rows of this system into the shard's journal, which must not be open."""
        copy_rows(self.whole, self.own, runs=self._runs, notes=self._notes)

    def merge_into_run(self) -> None:
        """Copy the shard's rows into the run's journal, and remove the shard.

        Raises:
            JournalError: a process is at work on it.
        """
        if not self.own.exists():
            return
        lease = Lease(self.own)
        try:
            copy_rows(self.own, self.whole, runs=self._runs, notes=self._notes, bodies=True)
            shutil.rmtree(self.own.parent)
        finally:
            lease.release()

    @property
    def _runs(self) -> list[str]:
        return [f"{self.run}/{name}" for name in (self.name, TRIVIAL)]

    @property
    def _notes(self) -> list[str]:
        return [f"{ROWS}/{name}/" for name in (self.name, TRIVIAL)]


def merge_leftover_shards(run: str, home: Path | None) -> None:
    """Merge the shards that a stopped run has left, before its journal is opened.

    Raises:
        JournalError: the run or one of them is at work.
    """
    folder = get_runs_folder(home) / run
    left = [Shard(run, path.parent.name, home) for path in sorted((folder / PARTS).glob(f"*/{JOURNAL}"))]
    if not left:
        return
    whole = folder / JOURNAL
    lease = Lease(whole, holder=read_header(whole).holder)  # a run that is at work may be about to open them
    try:
        for shard in left:
            shard.merge_into_run()
    finally:
        lease.release()
