"""Files of studies: what was compared, and a row per run; a run that is stopped leaves a file that can be read."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from selfwire.core.errors import ConfigError
from selfwire.evals.table import write_lines
from selfwire.extras.lab.ablation.plan import Study, StudyHead, Subject
from selfwire.extras.lab.ablation.rows import EvaluationRow, EvolutionRow, VariantRow, append_row


def begin_study(study: Subject, out: Path) -> None:
    """Write what it is about, if the file is new.

    Raises:
        ConfigError: it cannot be written.
    """
    if not out.exists():
        append_row(out, StudyHead(head=study))


def keep_study(study: Study, rows: Sequence[VariantRow], out: Path) -> None:
    """Write a study and its rows.

    Raises:
        ConfigError: they cannot be written.
    """
    write_lines((line.model_dump_json() for line in (StudyHead(head=study), *rows)), out, "rows")


def read_study(path: Path) -> tuple[Study, list[VariantRow]]:
    """The comparison of a study, and its rows.

    Raises:
        ConfigError: the file is no ablation's.
    """
    head, rows = read_subject(path)
    try:
        if isinstance(head, Study):
            return head, parse_study_rows(head, rows)
        why = "it is of a world"
    except ValueError as error:
        why = str(error)
    raise ConfigError(f"{path} holds no variants of a method: {why}; `selfwire ablate --keep` writes such files")


def parse_study_rows(study: Study, rows: Iterable[object]) -> list[VariantRow]:
    """The rows of a method's variants; raises ValueError for others."""
    schema: type[VariantRow] = EvolutionRow if study.evolves else EvaluationRow
    return [schema.model_validate(row) for row in rows]


def read_subject(path: Path) -> tuple[Subject, list[object]]:
    """The subject of a study, and its rows as JSON.

    Raises:
        ConfigError: the file is no study's.
    """
    try:
        first, *rest = path.read_text(encoding="utf-8").splitlines()
        return StudyHead.model_validate_json(first).head, [json.loads(line) for line in rest]
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} holds no study: {error}; `selfwire ablate --out` writes such files") from None
