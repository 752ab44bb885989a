"""A contestant's share of a run, in a journal of its own that the run's takes over when it is done."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from selfwire.runs.evaluation.run import ROWS
from selfwire.runs.evaluation.systems import TRIVIAL
from selfwire.runs.folders import JOURNAL, PARTS, get_runs_folder
from selfwire.runtime.journal_file import copy_rows
from selfwire.runtime.lease import Lease


@dataclass(frozen=True)
class Shard:
    """One contestant's share of a run.

    Attributes:
        run: its name.
        name: of the contestant.
        home: of runs and library.
    """

    run: str
    name: str
    home: Path | None

    @property
    def whole(self) -> Path:
        """The journal of the run."""
        return get_runs_folder(self.home) / self.run / JOURNAL

    @property
    def own(self) -> Path:
        """The journal of the part."""
        return self.whole.parent / PARTS / self.name / JOURNAL

    def copy_from_run(self) -> None:
        """Have its journal, which nobody has open, know what the run has of this contestant."""
        copy_rows(self.whole, self.own, runs=self._runs, notes=self._notes)

    def merge_into_run(self) -> None:
        """Have the run's journal take over what this part has done, and remove the part.

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
    """Take over what processes of a run that was stopped have left, before its journal is opened.

    Raises:
        JournalError: one of them is at work.
    """
    for path in sorted((get_runs_folder(home) / run / PARTS).glob(f"*/{JOURNAL}")):
        Shard(run, path.parent.name, home).merge_into_run()
