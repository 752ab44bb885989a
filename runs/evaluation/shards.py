"""A contestant's share of a run, in a journal of its own that the run's takes over when it is done."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from selfwire.runs.evaluation.run import ROWS
from selfwire.runs.evaluation.systems import TRIVIAL
from selfwire.runs.folders import JOURNAL, PARTS, runs_folder
from selfwire.runtime.journal_merge import take_over
from selfwire.runtime.lease import Lease


@dataclass(frozen=True)
class Part:
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
        return runs_folder(self.home) / self.run / JOURNAL

    @property
    def own(self) -> Path:
        """The journal of the part."""
        return self.whole.parent / PARTS / self.name / JOURNAL

    def begun(self) -> None:
        """Have its journal, which nobody has open, know what the run has of this contestant."""
        take_over(self.whole, self.own, runs=self._runs, notes=self._notes)

    def joined(self) -> None:
        """Have the run's journal take over what this part has done, and remove the part.

        Raises:
            JournalError: a process is at work on it.
        """
        if not self.own.exists():
            return
        lease = Lease(self.own)
        try:
            take_over(self.own, self.whole, runs=self._runs, notes=self._notes, bodies=True)
            shutil.rmtree(self.own.parent)
        finally:
            lease.release()

    @property
    def _runs(self) -> list[str]:
        return [f"{self.run}/{name}" for name in (self.name, TRIVIAL)]

    @property
    def _notes(self) -> list[str]:
        return [f"{ROWS}/{name}/" for name in (self.name, TRIVIAL)]


def gathered(run: str, home: Path | None) -> None:
    """Take over what processes of a run that was stopped have left, before its journal is opened.

    Raises:
        JournalError: one of them is at work.
    """
    for path in sorted((runs_folder(home) / run / PARTS).glob(f"*/{JOURNAL}")):
        Part(run, path.parent.name, home).joined()
