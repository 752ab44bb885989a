"""Studies among the runs of a home, so that lists name them and pages follow them while they go on."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

from selfwire.core.values import FrozenModel, fingerprint
from selfwire.extras.lab.ablation.plan import Study, Subject
from selfwire.models.sync import run_sync
from selfwire.runs.record import (
    ABLATION,
    JOURNAL,
    SUMMARY,
    WORLD,
    get_runs_folder,
    shorten_name,
    to_stop_status,
)
from selfwire.store.journal import Journal

STUDY = "study"
"""Name of the journal's note with a study's subject, and how many rows it will have."""
STUDY_ROWS = "study/rows/"

NoteRow = Callable[[str, FrozenModel], None]
"""Notes a row of a study by its name."""


class RecordedStudy(FrozenModel):
    """A study on record.

    Args:
        total: rows that it will have.
    """

    head: Subject
    total: int


Record = Callable[[RecordedStudy, str], AbstractContextManager[NoteRow]]
"""Puts a study on record by what its rows share, and notes its rows."""


@contextmanager
def record_study(home: Path | None, out: Path | None, study: RecordedStudy, key: str) -> Iterator[NoteRow]:
    """Put a study on record as a run, under one name as long as its file and what its rows share stay the same.

    Args:
        out: file of the rows.

    Raises:
        JournalError: another process is at work on the study, or the record cannot be written.
    """
    if isinstance(study.head, Study):
        asked, model = (ABLATION, study.head.benchmark), study.head.models.agent
    else:
        asked, model = (WORLD, study.head.world), ""
    labels = {"command": asked[0], "method": study.head.method, "benchmark": asked[1], "model": model}
    kind = labels["command"].partition(" ")[0]
    mark = fingerprint({"key": key, "out": str(out and out.resolve())})[:6]
    run = "-".join((kind, labels["method"], shorten_name(labels["benchmark"]), mark))
    path = get_runs_folder(home) / run / JOURNAL
    with closing(Journal.open(path) if path.exists() else Journal.create(path, run=run)) as journal:

        def note(name: str, value: Any) -> None:
            run_sync(journal.put_note(name, value))

        def note_status(status: str) -> None:
            note(SUMMARY, {**labels, "status": status})

        note_status("running")
        note(STUDY, study.model_dump(mode="json"))
        try:
            yield lambda name, row: note(f"{STUDY_ROWS}{name}", row.model_dump(mode="json"))
        except BaseException as error:
            note_status(to_stop_status(error))
            raise
        note_status("finished")
