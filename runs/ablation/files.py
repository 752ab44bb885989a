"""Files of studies: what was compared, and a row per run; a run that is stopped leaves a file that can be read."""

from collections.abc import Sequence
from pathlib import Path

from selfwire.core.errors import ConfigError
from selfwire.core.values import FrozenModel
from selfwire.runs.ablation.plan import Study
from selfwire.runs.ablation.rows import EvaluationRow, EvolutionRow, Row, append_row


class StudyHead(FrozenModel):
    """The first line of a study's rows: what was compared."""

    head: Study


def begin_study(study: Study, out: Path) -> None:
    """Write what is compared, if the file is new.

    Raises:
        ConfigError: it cannot be written.
    """
    if not out.exists():
        append_row(out, StudyHead(head=study))


def keep_study(study: Study, rows: Sequence[Row], out: Path) -> None:
    """Write a study and its rows.

    Raises:
        ConfigError: they cannot be written.
    """
    write_lines([StudyHead(head=study), *rows], out)


def read_study(path: Path) -> tuple[Study, list[Row]]:
    """What was compared, and the rows.

    Raises:
        ConfigError: the file is no study's.
    """
    try:
        first, *rest = path.read_text(encoding="utf-8").splitlines()
        study = StudyHead.model_validate_json(first).head
        schema: type[Row] = EvolutionRow if study.evolves else EvaluationRow
        return study, [schema.model_validate_json(line) for line in rest]
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} holds no study: {error}; `selfwire ablate --keep` writes such files") from None


def write_lines(lines: Sequence[FrozenModel], out: Path) -> None:
    """Write values as JSONL; raises as `keep_study`."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text("".join(f"{line.model_dump_json()}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"rows cannot be written to {out}: {error.strerror}; name another file") from None
