"""Results of a study as JSONL: one row per run, appended as it ends, so that a stopped study can continue."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pydantic import Field, ValidationError

from selfwire.core.errors import ConfigError, format_first_fault
from selfwire.core.trajectory import DecisionCount
from selfwire.core.values import FrozenModel


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
        if whole != text:
            os.truncate(path, len(whole.encode()))
    lines = enumerate(whole.splitlines(), start=1)
    return [_row(path, number, line, study, schema) for number, line in lines if not line.startswith(HEAD)]


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
