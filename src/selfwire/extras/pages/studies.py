"""Pages of studies, from the file of their rows or from their record among the runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from selfwire.core.errors import ConfigError
from selfwire.extras.lab.ablation.plan import Study, Subject
from selfwire.extras.lab.ablation.record import STUDY_ROWS, RecordedStudy
from selfwire.extras.lab.ablation.rows import parse_study_rows, read_subject
from selfwire.extras.lab.worlds.gains import WorldResult
from selfwire.extras.pages.ablation import describe_study
from selfwire.extras.pages.data import RunReport
from selfwire.extras.pages.worlds import describe_world


def read_study_file(rows: Path) -> RunReport:
    """Build the page of a study's file.

    Raises:
        ConfigError: the file is no study's.
    """
    head, found = read_subject(rows)
    try:
        return describe_rows(head, found, rows.name)
    except ValueError as error:
        raise ConfigError(f"{rows} holds no study: {error}; `selfwire ablate --out` writes such files") from None


def describe_recorded(notes: Mapping[str, Any], study: object, run: str) -> RunReport:
    """Build the page of a study that is on record as a run.

    Args:
        notes: of its journal, its rows among them.
        study: what it is about.
    """
    rows = [row for name, row in notes.items() if name.startswith(STUDY_ROWS)]
    return describe_rows(RecordedStudy.model_validate(study).head, rows, run)


def describe_rows(head: Subject, rows: Sequence[Any], name: str) -> RunReport:
    """Build the page of a study.

    Args:
        name: of its file or run.
    """
    if isinstance(head, Study):
        return describe_study(head, parse_study_rows(head, rows), name)
    results = [row.get("result", row) for row in rows]
    return describe_world(head, [WorldResult.model_validate(result) for result in results], name)
