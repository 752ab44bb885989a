"""The rows of an evaluation, the scores kept of them, and their table.

It holds all that tables of scores and costs are computed from, and no answers.
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from errno import EINVAL, EISDIR
from functools import cached_property
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryFile
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic import AliasChoices, Field, ValidationError

from selfwire.core.errors import ConfigError, format_first_fault
from selfwire.core.task import Question
from selfwire.core.trajectory import CUT, DecisionCount, Trajectory, sum_decisions
from selfwire.core.usage import Usage, UsageAccumulator
from selfwire.core.values import FrozenJson, FrozenMap, FrozenModel, format_count
from selfwire.evals.statistics import (
    IntervalEstimate,
    are_equal,
    compute_cost_efficiency,
    compute_paired_interval,
    compute_score_interval,
    compute_student_interval,
    compute_wilson_interval,
)
from selfwire.evolvers.gate import pair_scores
from selfwire.store.files import refuse_existing

TRIVIAL = "trivial"
"""Name of the trivial baseline in rows and the journal."""
CAPPED = "capped"
"""Name of the trajectory's note that the cap of calls ended it."""


class TaskRow(FrozenModel):
    """The result of one system on one task.

    Args:
        score: in [0, 1]; None if the task ended as an error.
        solved: None if it ended as an error.
        error: why it could not be answered or graded; neither solved nor unsolved.
        capped: whether its calls were used up before it had an answer: unsolved, with score 0.
        cut: whether its cap of calls stopped it before it was done, with an answer or without.
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
    cut: bool = False
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

    @property
    def usage(self) -> Usage:
        """The cost."""
        return Usage(**{name: getattr(self, name) for name in Usage.model_fields})


class SystemInfo(FrozenModel):
    """A system in the header.

    Args:
        name, target, config: as in the request.
        workflow: fingerprint; "" for a rule that needs no team.
        version: of a saved team, `name@run.step`; "" for others.
        learned: whether the team was evolved on graded tasks of other splits.
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
    systems: tuple[SystemInfo, ...] = Field(
        validation_alias=AliasChoices("systems", "contestants"), serialization_alias="contestants"
    )
    oracle: bool
    stand_in: bool
    complete: bool


def make_task_row(target: str, question: Question, done: Trajectory, spent: Usage, body: str) -> TaskRow:
    """Make the row of a graded trajectory.

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
        cut=capped or bool(done.notes.get(CUT)),
        calls=spent.calls,
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        dollars=spent.dollars,
        seconds=spent.seconds,
        answer=done.answer,
        rounds=len(rounds) if isinstance(rounds, list | tuple) else None,
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
    judged = _get_figures(done).get("judged")
    return judged if isinstance(judged, bool) else None


def _get_figures(done: Trajectory) -> Mapping[str, Any]:
    """The figures that a method has noted; none where an author's method has a note of another kind."""
    figures = done.notes.get("figures")
    return figures if isinstance(figures, Mapping) else {}


def _get_ending(done: Trajectory) -> str:
    """Find why a method with rounds or stages ended; "" if it does not say."""
    notes = done.notes
    return str(_get_figures(done).get("stop") or notes.get("stopped") or notes.get("status") or "")


def _get_measures(done: Trajectory) -> dict[str, float]:
    found = done.notes.get("measures")
    named = found.items() if isinstance(found, Mapping) else ()
    return {name: float(value) for name, value in named if type(value) in (int, float)}


class ResultsFile:
    """A file of results that is written row by row to a temporary file and replaced as a whole.

    Args:
        path: where it goes.
        way_out: what the user can do if another file is there.

    Raises:
        ConfigError: it cannot be written there, or another file is there; so do all methods.
    """

    def __init__(self, path: Path, *, way_out: str = "") -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            refuse_existing(path, "results", way_out=way_out)
            if path.is_dir():
                raise IsADirectoryError(EISDIR, "it is a folder")
            if path.exists() and not path.is_file():
                raise OSError(EINVAL, "it is a device, a pipe or a socket")
            self._rows = TemporaryFile("w+", encoding="utf-8", dir=path.parent)
        except OSError as error:
            raise self._unwritable(error) from error

    def discard(self) -> None:
        """Drop the new rows; the file does not change."""
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
                file.write(header.model_dump_json(by_alias=True) + "\n")
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
    """Read the header and the rows of a file of results.

    Raises:
        ConfigError: the file cannot be read, or is no file of results.
    """
    with expect_rows(path, "results", "`selfwire eval` writes such files"):
        first, *rest = path.read_text(encoding="utf-8").splitlines()
        return Header.model_validate(json.loads(first)), tuple(TaskRow.model_validate_json(line) for line in rest)


@contextmanager
def expect_rows(path: Path, what: str, way_out: str) -> Iterator[None]:
    """Turn errors of a block that reads a file of rows into a ConfigError, which says what the file does not hold."""
    try:
        yield
    except (OSError, ValueError, TypeError, LookupError) as error:
        why = format_first_fault(error) if isinstance(error, ValidationError) else error
        why = repr(error) if isinstance(error, LookupError) else why
        why = "it is empty" if path.is_file() and not path.stat().st_size else why
        raise ConfigError(f"{path} holds no {what}: {why}; {way_out}") from None


@dataclass
class SystemSummary:
    """The sum of a system's rows over all tasks.

    Attributes:
        scores: by task, in the order of the rows; None for an error.
        capped: tasks whose calls were used up before there was an answer; they score 0.
        cut: tasks that the cap of calls stopped before the system was done, those of `capped` too.
        rounds: of all tasks together; None for a system without rounds.
        judged, agreed: graded tasks on which the system's own judge spoke, and where it was right.
        decisions: of the system's router in all runs; None where none learns.
        ends: why runs ended, with counts.
        fault: of the first task that ended as an error; "" if none did.
    """

    info: SystemInfo
    scores: dict[str, float | None] = field(default_factory=dict)
    solved: int = 0
    capped: int = 0
    cut: int = 0
    rounds: int | None = None
    judged: int = 0
    agreed: int = 0
    decisions: DecisionCount | None = None
    ends: Counter[str] = field(default_factory=Counter)
    fault: str = ""
    _spend: UsageAccumulator = field(default_factory=UsageAccumulator)
    _figures: dict[str, list[float]] = field(default_factory=dict)
    _measures: dict[str, list[float]] = field(default_factory=dict)

    def add(self, row: TaskRow) -> None:
        """Add a row."""
        self.scores[row.task] = row.score
        self.solved += bool(row.solved)
        self.capped += row.capped
        self.cut += row.cut
        self.fault = self.fault or row.error or ""
        self._spend.add(row.usage)
        if row.rounds is not None:
            self.rounds = (self.rounds or 0) + row.rounds
        for name, figure in row.details.items():
            if type(figure) in (int, float):
                self._figures.setdefault(name, []).append(figure)
        for name, measure in row.measures.items():
            self._measures.setdefault(name, []).append(measure)
        self.decisions = sum_decisions((self.decisions, row.decisions))
        if row.ended:
            self.ends[row.ended] += 1
        if row.judged is not None and row.solved is not None:
            self.judged += 1
            self.agreed += row.judged == row.solved

    @property
    def name(self) -> str:
        """The name in tables."""
        return name_system(self.info.name)

    @property
    def spend(self) -> Usage:
        """The cost of all tasks."""
        return self._spend.usage

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return len(self.scores)

    @property
    def calls_per_task(self) -> float:
        """Mean number of calls; 0 without tasks."""
        return self.spend.calls / max(self.tasks, 1)

    @property
    def figures(self) -> dict[str, float]:
        """Means of the environment's numeric details, over the tasks that have them."""
        return {name: fmean(found) for name, found in self._figures.items()}

    @property
    def measures(self) -> dict[str, tuple[float, float]]:
        """Mean and its standard error of each measure of a method's runs, over the runs that have it."""
        found = self._measures.items()
        return {name: (fmean(all_), stdev(all_) / sqrt(len(all_)) if len(all_) > 1 else 0.0) for name, all_ in found}

    @property
    def graded(self) -> tuple[float, ...]:
        """Scores of the tasks that did not end as errors."""
        return tuple(score for score in self.scores.values() if score is not None)

    @property
    def errors(self) -> int:
        """Number of tasks that ended as errors; these do not count as 0."""
        return len(self.scores) - len(self.graded)

    @property
    def interval(self) -> IntervalEstimate | None:
        """The mean score with its 95 % interval; None if nothing was graded."""
        return compute_score_interval(self.graded) if self.graded else None

    @property
    def score(self) -> float | None:
        """The mean score."""
        return sum(self.graded) / len(self.graded) if self.graded else None

    @property
    def share(self) -> IntervalEstimate | None:
        """The share of graded tasks that were solved, with Wilson's 95 % interval."""
        return compute_wilson_interval(self.solved, len(self.graded)) if self.graded else None

    def to_json(self) -> dict[str, Any]:
        """Make the figures as values for JSON."""
        return {
            "name": self.info.name,
            "score": self.score,
            "interval": self.interval,
            "solved": self.solved,
            "tasks": self.tasks,
            "errors": self.errors,
            "capped": self.capped,
            "cut": self.cut,
            "spend": self.spend,
            "fault": self.fault,
        }

    @property
    def efficiency(self) -> float | None:
        """S = 100 P / (C + 0.01), C in dollars per task; None at no dollars or an unknown price."""
        return None if self.score is None else compute_cost_efficiency(self.score, self.spend, len(self.scores))

    @property
    def per_hundred_calls(self) -> float | None:
        """Score that a hundred model calls buy; None without calls."""
        if self.score is None or not self.spend.calls:
            return None
        return 100 * self.score * len(self.scores) / self.spend.calls


def name_system(name: str) -> str:
    """Make the title of a system from its name in rows and the journal."""
    return "trivial baseline" if name == TRIVIAL else name


def summarise_trajectories(name: str, found: Iterable[Trajectory]) -> SystemSummary:
    """Sum up graded trajectories, one per task."""
    summary = SystemSummary(SystemInfo(name=name, target=name, method="", workflow=""))
    for done in found:
        summary.add(make_task_row(name, done.question, done, done.usage, ""))
    return summary


def compute_difference(
    line: SystemSummary, against: SystemSummary, *, is_proof: bool = False
) -> IntervalEstimate | None:
    """Compute the mean gain over another system on tasks that both finished, with an interval.

    None for under two tasks, and for a system beside itself. In a proof errors of the line alone count as wrong.
    """
    pairs = pair_scores(against.scores, line.scores, is_proof=is_proof).values()
    if line is against or len(pairs) < 2:
        return None
    return compute_paired_interval([there for there, _ in pairs], [here for _, here in pairs])


def choose_comparison(lines: Sequence[SystemSummary], against: str) -> SystemSummary:
    """Choose the line that others are compared with: the named one, else the first after the trivial baseline."""
    return next((line for line in lines if line.info.name == against), lines[1])


class ResultTable(NamedTuple):
    """A table.

    Attributes:
        notes: to read below it.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    @property
    def markdown(self) -> str:
        """Head and rows in Markdown."""
        lines = [self.head, ["---"] * len(self.head), *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


Row = TypeVar("Row")


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column of a table.

    Attributes:
        format: a row's cell.
        silent: a cell that says nothing; a column in which nothing else stands is left out.
    """

    name: str
    format: Callable[[Row], str]
    silent: str | None = None


def build_table(columns: Sequence[Column[Row]], rows: Sequence[Row], notes: Sequence[str] = ()) -> ResultTable:
    """Make a table of a row per value, with the columns that are not empty."""
    cells = [(column, tuple(column.format(row) for row in rows)) for column in columns]
    shown = [(column.name, found) for column, found in cells if column.silent is None or {*found} - {column.silent}]
    return ResultTable(
        tuple(name for name, _ in shown), tuple(zip(*(found for _, found in shown), strict=True)), tuple(notes)
    )


SOLVED = Column[SystemSummary]("solved [95 %]", lambda line: str(line.share or "-"))
MEAN_SCORE = Column[SystemSummary]("mean score", lambda line: "-" if line.score is None else f"{line.score:.2f}")
CALLS = Column[SystemSummary]("calls/task", lambda line: f"{line.calls_per_task:.1f}")
TOKENS = Column[SystemSummary]("tokens/task", lambda line: f"{line.spend.tokens / max(line.tasks, 1):,.0f}")
DECISIONS = Column[SystemSummary]("free decisions", lambda line: str(line.decisions or "-"), silent="-")
ERRORS = Column[SystemSummary]("errors", lambda line: str(line.errors))
CUT_SHORT = Column[SystemSummary]("cut", lambda line: str(line.cut), silent="0")
OVER_CAP = Column[SystemSummary]("over cap", lambda line: str(line.capped), silent="0")
PER_HUNDRED_CALLS = Column[SystemSummary](
    "score per 100 calls", lambda line: "-" if line.per_hundred_calls is None else f"{line.per_hundred_calls:.1f}"
)
EFFICIENCY = Column[SystemSummary](
    "S", lambda line: "n/a" if line.efficiency is None else f"{line.efficiency:.1f}", silent="n/a"
)


DOLLARS = Column[SystemSummary]("$/task", lambda line: format_dollars(line.spend.dollars, line.tasks))


def list_columns(against: SystemSummary) -> tuple[Column[SystemSummary], ...]:
    """List the columns of an evaluation.

    Args:
        against: the system that the others are compared with.
    """
    return (
        Column("system", lambda line: line.name),
        Column("score [95 %]", lambda line: str(line.interval or "-")),
        SOLVED,
        Column("difference [95 %]", lambda line: format_difference(compute_difference(line, against)), silent="-"),
        ERRORS,
        CUT_SHORT,
        OVER_CAP,
        CALLS,
        TOKENS,
        DOLLARS,
        DECISIONS,
        Column("s/task", lambda line: f"{line.spend.seconds / max(line.tasks, 1):.1f}"),
        PER_HUNDRED_CALLS,
        EFFICIENCY,
        Column("evolution", lambda line: _evolution(line.info), silent="none"),
    )


@dataclass(frozen=True)
class SeedSummary:
    """The results of a system over runs with several seeds, each with its own evolution and its own tasks.

    Attributes:
        lines: of the system, a seed each.
        others: of the system that it is compared with.
    """

    lines: tuple[SystemSummary, ...]
    others: tuple[SystemSummary, ...]

    @property
    def name(self) -> str:
        """The name in tables."""
        return self.lines[0].name

    @property
    def info(self) -> SystemInfo:
        """The system in the first run."""
        return self.lines[0].info

    @property
    def scores(self) -> tuple[float, ...]:
        """The mean score of each seed that has one."""
        return tuple(line.score for line in self.lines if line.score is not None)

    @property
    def differences(self) -> tuple[float, ...]:
        """The mean difference of each seed, paired by task."""
        pairs = [pair_scores(other.scores, line.scores) for line, other in zip(self.lines, self.others, strict=True)]
        return tuple(fmean(here - there for there, here in found.values()) for found in pairs if found)

    @property
    def score(self) -> IntervalEstimate | None:
        """The mean over seeds with Student's interval; None without a score.

        A seed is one observation, since its tasks are its own and share one evolution. A single seed, and seeds that
        are all equal, tell no spread; then the tasks of all of them do.
        """
        if are_equal(self.scores):
            return self.whole.interval
        return compute_student_interval(self.scores).clip(0, 1)

    @property
    def difference(self) -> IntervalEstimate | None:
        """The mean difference, paired by task, with an interval as of `score`; None for the same system."""
        if self.lines == self.others:
            return None
        if are_equal(self.differences):
            return compute_difference(self.whole, merge_lines(self.others))
        return compute_student_interval(self.differences).clip(-1, 1)

    @cached_property
    def whole(self) -> SystemSummary:
        """The tasks of all runs as those of one."""
        return merge_lines(self.lines)

    @property
    def evolutions(self) -> tuple[Usage, ...]:
        """Costs of the evolutions of all runs that know theirs."""
        return tuple(line.info.evolution for line in self.lines if line.info.evolution)

    def to_json(self) -> dict[str, Any]:
        """Make the figures as values for JSON."""
        return {
            "name": self.lines[0].info.name,
            "score": self.score,
            "difference": self.difference,
            "seeds": [line.to_json() for line in self.lines],
        }


def merge_lines(lines: Sequence[SystemSummary]) -> SystemSummary:
    """The scores and costs of a system in several runs as those of one; the tasks of each run are apart."""
    whole = SystemSummary(
        lines[0].info,
        scores={f"{place} {task}": score for place, line in enumerate(lines) for task, score in line.scores.items()},
        solved=sum(line.solved for line in lines),
        capped=sum(line.capped for line in lines),
        cut=sum(line.cut for line in lines),
        decisions=sum_decisions(line.decisions for line in lines),
    )
    for line in lines:
        whole._spend.add(line.spend)
    return whole


def summarise_seeds(runs: Sequence[Sequence[SystemSummary]], against: str) -> tuple[SeedSummary, ...]:
    """Sum up runs that differ in their seed: the results of each system over all of them.

    Args:
        runs: the lines of each run, the trivial baseline's first; of the same systems in the same order.
        against: the system that the others are compared with; the first if "".
    """
    others = tuple(choose_comparison(lines, against) for lines in runs)
    return tuple(SeedSummary(tuple(lines), others) for lines in zip(*runs, strict=True))


def list_seed_columns() -> tuple[Column[SeedSummary], ...]:
    """List the columns of a comparison over seeds; numbers per task are means over all runs."""

    def of_whole(column: Column[SystemSummary]) -> Column[SeedSummary]:
        return Column(column.name, lambda found: column.format(found.whole), column.silent)

    return (
        Column("system", lambda found: found.name),
        Column("score [95 %]", lambda found: str(found.score or "-")),
        Column("by seed", _format_scores, silent=""),
        Column("solved", _format_solved, silent=""),
        Column("difference [95 %]", lambda found: format_difference(found.difference), silent="-"),
        of_whole(ERRORS),
        of_whole(CUT_SHORT),
        of_whole(OVER_CAP),
        of_whole(CALLS),
        of_whole(TOKENS),
        Column("$/task", lambda found: DOLLARS.format(found.whole), silent="0.0000"),
        of_whole(DECISIONS),
        of_whole(PER_HUNDRED_CALLS),
        of_whole(EFFICIENCY),
        Column("evolution", _format_evolutions, silent="none"),
    )


def _format_scores(found: SeedSummary) -> str:
    return " ".join(f"{score:.2f}" for score in found.scores) if len(found.lines) > 1 else ""


def _format_solved(found: SeedSummary) -> str:
    share = found.whole.share
    return "" if share is None or share == found.whole.interval else f"{share.value:.2f}"


def _format_evolutions(found: SeedSummary) -> str:
    calls, dollars = ([getattr(usage, name) for usage in found.evolutions] for name in ("calls", "dollars"))
    mean = Usage(calls=round(fmean(calls)), dollars=None if None in dollars else fmean(dollars)) if calls else None
    return _evolution(found.info.replace(evolution=mean))


def format_dollars(dollars: float | None, tasks: int = 1) -> str:
    """Format the price of a task: four digits, or six of one under a tenth of a cent; "unknown" without a price."""
    if dollars is None:
        return "unknown"
    each = dollars / max(tasks, 1)
    return f"{each:.{6 if 0 < each < 0.001 else 4}f}"


def format_difference(estimate: IntervalEstimate | None, digits: int = 2, missing: str = "-") -> str:
    """Format a difference with sign and interval; "-" if there is none."""
    if estimate is None:
        return missing
    return f"{estimate.value:+.{digits}f} [{estimate.low:+.{digits}f}, {estimate.high:+.{digits}f}]"


def _evolution(info: SystemInfo) -> str:
    if not info.learned:
        return "none"
    if info.evolution is None:
        return "unknown"
    dollars, calls = info.evolution.dollars, format_count(info.evolution.calls, "call")
    return f"{calls}, $ unknown" if dollars is None else f"{calls}, ${dollars:,.2f}" if dollars else calls


class KeptHead(FrozenModel):
    """The head of a file: what was measured, and the ids of the tasks in the order of the systems' scores.

    Args:
        code: hash of the sources.
        commit: whose sources they are; "" where that is not known.
        kinds: of the tasks, in their order; none where that is not known.
    """

    benchmark: str
    model: str
    seed: int
    calls_per_task: int | None
    code: str
    commit: str = ""
    tasks: tuple[str, ...]
    kinds: tuple[str, ...] = ()


class KeptSystem(FrozenModel):
    """The scores of a system, None for an error; `solved`, `capped` and `cut` are places of tasks."""

    info: SystemInfo
    scores: tuple[float | None, ...]
    calls: tuple[int, ...]
    tokens: tuple[tuple[int, int], ...]
    solved: tuple[int, ...] = ()
    capped: tuple[int, ...] = ()
    cut: tuple[int, ...] = ()
    dollars: tuple[float | None, ...] = ()
    decisions: DecisionCount | None = None

    def summarise(self, head: KeptHead) -> SystemSummary:
        """The sum of the system's tasks."""
        summary = SystemSummary(self.info)
        for row in self._list_rows(head):
            summary.add(row)
        return summary

    def _list_rows(self, head: KeptHead) -> Iterator[TaskRow]:
        for at, (task, score, calls, (read, written)) in enumerate(
            zip(head.tasks, self.scores, self.calls, self.tokens, strict=True)
        ):
            yield TaskRow(
                target=self.info.name,
                task=task,
                score=score,
                solved=None if score is None else at in self.solved,
                error="an error" if score is None else None,
                capped=at in self.capped,
                cut=at in self.cut,
                calls=calls,
                input_tokens=read,
                output_tokens=written,
                dollars=self.dollars[at] if self.dollars else 0.0,
                seconds=0.0,
                decisions=self.decisions if at == 0 else None,
            )


def keep_scores(results: Iterable[Path], out: Path, commits: Mapping[str, str] = FrozenMap()) -> None:
    """Write the scores of files of results, one run after another.

    Args:
        commits: known ones by hash of the code.

    Raises:
        ConfigError: one is no file of results, one is not complete, or `out` cannot be written.
    """
    write_lines([line for run in results for line in list_kept_lines(run, commits)], out, "scores")


def list_kept_lines(results: Path, commits: Mapping[str, str] = FrozenMap()) -> list[str]:
    """List the lines that are kept of a file of results: a `KeptHead`, and a `KeptSystem` each.

    Args:
        commits: as for `keep_scores`.

    Raises:
        ConfigError: it is no file of results, or it is not complete.
    """
    header, rows = read_results(results)
    if not header.complete:
        raise ConfigError(f"{results} lacks tasks of some systems; resume the run {header.run}, then keep its scores")
    by_system = {info.name: [row for row in rows if row.target == info.name] for info in header.systems}
    head = KeptHead(
        benchmark=header.benchmark,
        model=str(header.models["agent"]),
        seed=header.seed,
        calls_per_task=header.calls_per_task,
        code=header.code,
        commit=commits.get(header.code, ""),
        tasks=tuple(row.task for row in next(iter(by_system.values()))),
        kinds=tuple(row.kind for row in next(iter(by_system.values()))),
    )
    lines: list[FrozenModel] = [head, *(_keep(info, by_system[info.name]) for info in header.systems)]
    return [line.model_dump_json(exclude_defaults=True) for line in lines]


def write_lines(lines: Iterable[str], out: Path, what: str) -> None:
    """Write texts as lines of a file.

    Raises:
        ConfigError: it cannot be written, or another file is there.
    """
    refuse_existing(out, what)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{what} cannot be written to {out}: {error.strerror}; name another file") from None


def _keep(info: SystemInfo, rows: Sequence[TaskRow]) -> KeptSystem:
    summary = SystemSummary(info)
    for row in rows:
        summary.add(row)
    free = all(row.dollars == 0 for row in rows)
    return KeptSystem(
        info=info,
        scores=tuple(None if row.score is None else round(row.score, 6) for row in rows),
        calls=tuple(row.calls for row in rows),
        tokens=tuple((row.input_tokens, row.output_tokens) for row in rows),
        solved=tuple(at for at, row in enumerate(rows) if row.solved),
        capped=tuple(at for at, row in enumerate(rows) if row.capped),
        cut=tuple(at for at, row in enumerate(rows) if row.cut),
        dollars=() if free else tuple(row.dollars for row in rows),
        decisions=summary.decisions,
    )


KeptRun = tuple[KeptHead, tuple[SystemSummary, ...]]
"""The head of a run whose scores are kept, and its systems."""


def parse_kept_lines(lines: Iterable[str]) -> list[KeptRun]:
    """Parse the kept lines of runs; raises ValueError or ValidationError for other lines."""
    runs = list[tuple[KeptHead, list[SystemSummary]]]()
    for line in lines:
        if runs and line.startswith('{"info"'):
            runs[-1][1].append(KeptSystem.model_validate_json(line).summarise(runs[-1][0]))
        else:
            runs.append((KeptHead.model_validate_json(line), []))
    return [(head, tuple(systems)) for head, systems in runs]


def read_kept_runs(path: Path) -> list[KeptRun]:
    """Read the runs of a file that `keep_scores` wrote, at least one.

    Raises:
        ConfigError: it is no such file.
    """
    with expect_rows(path, "scores", "`selfwire results --keep` writes such files"):
        if runs := parse_kept_lines(path.read_text(encoding="utf-8").splitlines()):
            return runs
        raise ValueError("it is empty")
