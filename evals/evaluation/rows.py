"""Results as JSONL: a header, then a line per system and task."""

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from errno import EISDIR
from pathlib import Path
from tempfile import TemporaryFile

from pydantic import Field, ValidationError

from selfwire.core.errors import ConfigError
from selfwire.core.task import Question
from selfwire.core.trajectory import DecisionCount, Trajectory
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenJson, FrozenMap, FrozenModel

TRIVIAL = "trivial"
"""Name of the trivial baseline in rows and the journal."""
CAPPED = "capped"
"""Name of the trajectory's note that says that the cap of calls ended it."""


class TaskRow(FrozenModel):
    """The result of one system on one task.

    Args:
        score: in [0, 1]; None if the task ended as an error.
        solved: None if it ended as an error.
        error: why it could not be answered or graded; neither solved nor unsolved.
        capped: whether its calls were used up before it had an answer: unsolved, with score 0.
        dollars: None if a price is not known.
        seconds: its calls took together; they overlap.
        rounds: that a method with rounds took.
        judged: whether the system's own judge passed the answer; None without a judge or a verdict.
        ended: why the method ended its run; "" if it does not say.
        decisions: of the method's router, free and forced; None where none learns.
        measures: numbers by which a method describes its run.
        oracle: whether labels of this task were used to answer it.
        trajectory: hash of the trajectory in the run's journal.
    """

    target: str
    task: str
    kind: str = ""
    score: float | None = Field(ge=0, le=1)
    solved: bool | None
    error: str | None = None
    capped: bool = False
    calls: int = Field(ge=0)
    input_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)
    dollars: float | None = Field(ge=0)
    seconds: float = Field(ge=0)
    answer: str | None = None
    rounds: int | None = None
    judged: bool | None = None
    ended: str = ""
    decisions: DecisionCount | None = None
    measures: FrozenJson = Field(default_factory=FrozenMap)
    oracle: bool = False
    details: FrozenJson = Field(default_factory=FrozenMap)
    trajectory: str = ""


class SystemInfo(FrozenModel):
    """A system in the header.

    Args:
        name, target, config: as in the request.
        workflow: fingerprint; "" for a rule that needs no workflow.
        version: of a saved workflow, `name@run.step`; "" for others.
        learned: whether the workflow was evolved on graded tasks of other splits.
        evolution: the cost of its evolution; None without one, or where it is not known.
    """

    name: str
    target: str
    method: str
    workflow: str
    config: FrozenJson = Field(default_factory=FrozenMap)
    learned: bool = False
    evolution: Usage | None = None
    version: str = ""


class Header(FrozenModel):
    """The header of a file of results.

    Args:
        calls_per_task: the cap of calls; None for none.
        oracle: whether labels of the measured tasks were used to answer them.
        stand_in: whether the offline model took part.
        complete: whether every system has a line for every task.
    """

    selfwire: str
    code: str
    run: str
    benchmark: str
    grader: str
    split: str
    seed: int
    tasks: int
    models: FrozenJson
    embedder: str
    calls_per_task: int | None
    contestants: tuple[SystemInfo, ...]
    oracle: bool
    stand_in: bool
    complete: bool


def make_task_row(target: str, question: Question, done: Trajectory, spent: Usage, body: str) -> TaskRow:
    """The row of a graded trajectory.

    Args:
        spent: the cost, with the calls of a failed run.
        body: hash of the trajectory in the journal.
    """
    capped, feedback = bool(done.notes.get(CAPPED)), done.feedback
    rounds = done.notes.get("rounds")
    return TaskRow(
        target=target,
        task=question.id,
        kind=question.kind,
        score=0.0 if capped else feedback.score if feedback else None,
        solved=False if capped else feedback.solved if feedback else None,
        error=None if feedback or capped else done.error,
        capped=capped,
        calls=spent.calls,
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        dollars=spent.dollars,
        seconds=spent.seconds,
        answer=done.answer,
        rounds=None if rounds is None else len(rounds),
        judged=get_own_opinion(done),
        ended=_get_ending(done),
        decisions=done.decisions,
        measures=_get_measures(done),
        oracle=bool(done.notes.get("oracle")),
        details=feedback.details if feedback else {},
        trajectory=body,
    )


def get_own_opinion(done: Trajectory) -> bool | None:
    """Whether the team's own judge passed its answer; None without a judge or a verdict."""
    judged: bool | None = done.notes.get("figures", {}).get("judged")
    return judged


def _get_ending(done: Trajectory) -> str:
    """Why a method with rounds or stages ended; "" where it does not say."""
    notes = done.notes
    return str(notes.get("figures", {}).get("stop") or notes.get("stopped") or notes.get("status") or "")


def _get_measures(done: Trajectory) -> dict[str, float]:
    found = done.notes.get("measures")
    named = found.items() if isinstance(found, Mapping) else ()
    return {name: float(value) for name, value in named if type(value) in (int, float)}


class ResultsFile:
    """A file of results that is written row by row to a temporary file and replaced as a whole.

    Args:
        path: where it goes.

    Raises:
        ConfigError: it cannot be written there; so do all methods.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                raise IsADirectoryError(EISDIR, "it is a folder")
            self._rows = TemporaryFile("w+", encoding="utf-8", dir=path.parent)
        except OSError as error:
            raise self._unwritable(error) from error

    def discard(self) -> None:
        """Leave the file as it was."""
        self._rows.close()

    def add(self, rows: Iterable[str]) -> None:
        """Add JSON texts of rows; they are not held in memory."""
        try:
            self._rows.writelines(f"{row}\n" for row in rows)
        except OSError as error:
            raise self._unwritable(error) from error

    def finish(self, header: Header) -> None:
        """Replace the file by header and rows."""
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            self._rows.seek(0)
            with self._rows, draft.open("w", encoding="utf-8") as file:
                file.write(header.model_dump_json() + "\n")
                shutil.copyfileobj(self._rows, file)
            draft.replace(self.path)
        except OSError as error:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> ConfigError:
        return ConfigError(
            f"results cannot be written to {self.path}: {error.strerror}; start with another --out, or make room "
            "and resume the run, which keeps what was paid for"
        )


def read_results(path: Path) -> tuple[Header, tuple[TaskRow, ...]]:
    """Header and rows of a file of results.

    Raises:
        ConfigError: the file cannot be read, or is no file of results.
    """
    try:
        first, *rest = path.read_text(encoding="utf-8").splitlines()
        return Header.model_validate(json.loads(first)), tuple(TaskRow.model_validate_json(line) for line in rest)
    except (OSError, ValueError, ValidationError) as error:
        raise ConfigError(f"{path} is no file of results: {error}; `selfwire eval` writes such files") from None
