"""Files of studies: what was compared, and a row per run, appended as it ends, so that a stopped study can continue."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pydantic import Field, ValidationError

from selfwire.core.errors import ConfigError, format_first_fault
from selfwire.core.trajectory import DecisionCount
from selfwire.core.values import FrozenModel
from selfwire.evals.table import expect_rows, write_lines
from selfwire.extras.lab.ablation.plan import Study, StudyHead, Subject
from selfwire.extras.lab.code_version import find_code_version
from selfwire.store.files import refuse_existing


class StudyRow(FrozenModel):
    """A result of a study.

    Args:
        study: fingerprint of everything that the rows of a study share, the code among it.
    """

    study: str


class VariantRow(StudyRow):
    """The result of one run of a study.

    Args:
        after: mean score over the test tasks that count.
        compared: how many those are.
        errors: test runs that ended as infrastructure errors.
        calls, tokens: per test task.
        efficiency: S = 100 P / (C + 0.01), C in dollars per task; None at no dollars or an unknown price.
        decisions: of the variant's router in the whole run; None where none learns.
        paths: fingerprints of the steps of the teams, by phase.
    """

    variant: str
    seed: int = Field(ge=0)
    after: float = Field(ge=0, le=1)
    compared: int = Field(ge=1)
    errors: int = Field(ge=0)
    calls: float = Field(ge=0)
    tokens: float = Field(ge=0)
    efficiency: float | None = Field(ge=0)
    decisions: DecisionCount | None = None
    paths: dict[str, str]
    seconds: float = Field(ge=0)

    @property
    def key(self) -> tuple[str, int]:
        """Variant and seed."""
        return self.variant, self.seed

    @property
    def per_hundred_calls(self) -> float:
        """Score that a hundred model calls buy."""
        return 100 * self.after / max(self.calls, 1)


OUTCOMES = {"accepted": "accepted", "rejected": "rejected", "no change": "unchanged", "unusable reply": "unusable"}
"""Names of figures in `EvolutionRow`, by the outcome of an iteration that they count."""


class EvolutionRow(VariantRow):
    """The result of one evolution, over the tasks that seed and evolved team both finished.

    Args:
        before: mean score of the seed team.
        calls_before: model calls per test task of the seed team.
        evolution_calls, dollars: of the whole evolution, its tests apart; dollars None for an unknown price.
        edits: edits that were made or tried in each iteration, repairs left out.
        operations: their kinds.
        accepted, rejected, unchanged, unusable: iterations by their outcome; of rows without `unusable`, those are
            among the unchanged.
    """

    before: float = Field(ge=0, le=1)
    nodes: int = Field(ge=1)
    calls_before: float = Field(ge=0)
    evolution_calls: int = Field(ge=0)
    dollars: float | None = Field(ge=0)
    edits: tuple[int, ...]
    operations: tuple[tuple[str, ...], ...] = ()
    accepted: int = Field(ge=0)
    rejected: int = Field(ge=0)
    unchanged: int = Field(ge=0)
    unusable: int | None = Field(default=None, ge=0)
    workflow: str


class EvaluationRow(VariantRow):
    """The result of one evaluation.

    Args:
        rounds: per test task; None for a method without rounds.
    """

    rounds: float | None = Field(ge=0)


AnyRow = TypeVar("AnyRow", bound=StudyRow)
HEAD = '{"head":'
"""How the line begins that says what was compared; it is the first of a file, if it is there."""


def read_rows(path: Path, study: str, schema: type[AnyRow]) -> list[AnyRow]:
    """The rows of a study's file, none if there is no file.

    The rest of a line that a kill interrupted is cut off.

    Raises:
        ConfigError: the file cannot be used; or a line is not a row of this study.
    """
    with _usable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            return []
        text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    lines = enumerate(whole.splitlines(), start=1)
    rows = [_row(path, number, line, study, schema) for number, line in lines if not line.startswith(HEAD)]
    if whole != text:
        if not rows:
            refuse_existing(path, "rows")
        with _usable(path):
            os.truncate(path, len(whole.encode()))
    return rows


def append_row(path: Path, row: FrozenModel) -> None:
    """Add a row as one line."""
    with _usable(path), path.open("a", encoding="utf-8") as file:
        file.write(row.model_dump_json() + "\n")


@contextmanager
def _usable(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "what is there is no UTF-8 text"
        raise ConfigError(f"results cannot be kept in {path}: {why}; choose another --out") from None


def _row(path: Path, number: int, line: str, study: str, schema: type[AnyRow]) -> AnyRow:
    try:
        row = schema.model_validate_json(line)
    except ValidationError as error:
        fault = format_first_fault(error)
        raise ConfigError(f"line {number} of {path} is no result of a study: {fault}; choose another --out") from None
    if row.study != study:
        raise ConfigError(
            f"line {number} of {path} was made with other sizes, models or code ({row.study}, now {study}); "
            "rows of two studies cannot be compared, choose another --out"
        )
    return row


def make_head(study: Subject) -> StudyHead:
    """Make the first line of rows: what is studied, and the version of the code that runs now."""
    return StudyHead(head=study, **find_code_version().model_dump())


def begin_study(study: Subject, out: Path) -> None:
    """Write what it is about, if the file is new.

    Raises:
        ConfigError: it cannot be written.
    """
    if not out.exists():
        append_row(out, make_head(study))


def keep_study(study: Study, rows: Sequence[VariantRow], out: Path) -> None:
    """Write a study and its rows.

    Raises:
        ConfigError: they cannot be written.
    """
    write_lines((line.model_dump_json() for line in (make_head(study), *rows)), out, "rows")


def read_study(path: Path) -> tuple[Study, list[VariantRow]]:
    """The comparison of a study, and its rows.

    Raises:
        ConfigError: the file is no ablation's.
    """
    head, rows = read_subject(path)
    with expect_rows(path, "variants of a method", "`selfwire ablate --keep` writes such files"):
        if not isinstance(head, Study):
            raise ValueError("it is of a world")
        return head, parse_study_rows(head, rows)


def parse_study_rows(study: Study, rows: Iterable[object]) -> list[VariantRow]:
    """The rows of a method's variants; raises ValueError for others."""
    schema: type[VariantRow] = EvolutionRow if study.evolves else EvaluationRow
    return [schema.model_validate(row) for row in rows]


def read_subject(path: Path) -> tuple[Subject, list[object]]:
    """The subject of a study, and its rows as JSON.

    Raises:
        ConfigError: the file is no study's.
    """
    with expect_rows(path, "study", "`selfwire ablate --out` writes such files"):
        first, *rest = path.read_text(encoding="utf-8").splitlines()
        return StudyHead.model_validate_json(first).head, [json.loads(line) for line in rest]
