"""The results of systems: scores with intervals, differences paired by task, costs, and tables of them."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import sqrt
from statistics import fmean, stdev
from typing import Any, Generic, NamedTuple, TypeVar

from selfwire.core.trajectory import DecisionCount, Trajectory, sum_decisions
from selfwire.core.usage import Usage, UsageAccumulator
from selfwire.evals.evaluation.rows import TRIVIAL, SystemInfo, TaskRow, make_task_row
from selfwire.evals.statistics import (
    IntervalEstimate,
    compute_cost_efficiency,
    compute_paired_interval,
    compute_score_interval,
    compute_wilson_interval,
)


@dataclass
class SystemSummary:
    """One system over all tasks: the sum of its rows.

    Attributes:
        scores: by task, in the order of the rows; None for an error.
        capped: tasks whose calls were used up before there was an answer; they score 0.
        rounds: of all tasks together; None for a system without rounds.
        judged, agreed: graded tasks on which the system's own judge spoke, and where it was right.
        decisions: of the system's router in all runs; None where none learns.
        ends: why runs ended, with counts.
        fault: of the first task that ended as an error; "" if none did.
    """

    contestant: SystemInfo
    scores: dict[str, float | None] = field(default_factory=dict)
    solved: int = 0
    capped: int = 0
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
        self.fault = self.fault or row.error or ""
        self._spend.add(row)
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
        """Its name in tables."""
        return name_system(self.contestant.name)

    @property
    def spend(self) -> Usage:
        """The cost of all tasks."""
        return self._spend.usage

    @property
    def tasks(self) -> int:
        """How many tasks."""
        return len(self.scores)

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
        """Tasks that ended as errors; they are no zeros."""
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
        """Its figures as values for JSON."""
        return {
            "name": self.contestant.name,
            "score": self.score,
            "interval": self.interval,
            "solved": self.solved,
            "tasks": self.tasks,
            "errors": self.errors,
            "capped": self.capped,
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
    """A system's name for people, from that in rows and the journal."""
    return "trivial baseline" if name == TRIVIAL else name


def summarise_trajectories(name: str, found: Iterable[Trajectory]) -> SystemSummary:
    """The sum of graded trajectories, one per task."""
    summary = SystemSummary(SystemInfo(name=name, target=name, method="", workflow=""))
    for done in found:
        summary.add(make_task_row(name, done.question, done, done.usage, ""))
    return summary


def pair_scores(before: SystemSummary, after: SystemSummary) -> list[tuple[float, float]]:
    """The scores of two systems on the tasks that both finished."""
    return [
        (there, here)
        for task, here in after.scores.items()
        if here is not None and (there := before.scores.get(task)) is not None
    ]


def compute_difference(line: SystemSummary, against: SystemSummary) -> IntervalEstimate | None:
    """Mean gain of a system over another on the tasks that both finished, with an interval; None for less than two.

    Where all differences are equal Student's interval has no width, as if two tasks could tell everything. Then at
    most a share 1 - 0.05**(1/n) of all tasks differs otherwise, with 95 % confidence, and a difference lies in [-1, 1].
    """
    pairs = pair_scores(against, line)
    if len(pairs) < 2:
        return None
    found = compute_paired_interval([there for there, _ in pairs], [here for _, here in pairs]).clip(-1, 1)
    if found.low < found.high:
        return found
    unseen = 1 - 0.05 ** (1 / found.n)
    return found.replace(low=found.value - unseen * (1 + found.value), high=found.value + unseen * (1 - found.value))


def choose_comparison(lines: Sequence[SystemSummary], against: str) -> SystemSummary:
    """The line that others are compared with: the named one, else the first after the trivial baseline."""
    return next((line for line in lines if line.contestant.name == against), lines[1])


class Table(NamedTuple):
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


def build_table(columns: Sequence[Column[Row]], rows: Sequence[Row], notes: Sequence[str] = ()) -> Table:
    """A row per value, with the columns that say something."""
    cells = [(column, tuple(column.format(row) for row in rows)) for column in columns]
    shown = [(column.name, found) for column, found in cells if column.silent is None or {*found} - {column.silent}]
    return Table(
        tuple(name for name, _ in shown), tuple(zip(*(found for _, found in shown), strict=True)), tuple(notes)
    )


SOLVED = Column[SystemSummary]("solved [95 %]", lambda line: str(line.share or "-"))
CALLS = Column[SystemSummary]("calls/task", lambda line: f"{line.spend.calls / max(line.tasks, 1):.1f}")
TOKENS = Column[SystemSummary]("tokens/task", lambda line: f"{line.spend.tokens / max(line.tasks, 1):,.0f}")
DECISIONS = Column[SystemSummary]("free decisions", lambda line: str(line.decisions or "-"), silent="-")
ERRORS = Column[SystemSummary]("errors", lambda line: str(line.errors))


def _dollars(line: SystemSummary) -> str:
    return "unknown" if line.spend.dollars is None else f"{line.spend.dollars / max(line.tasks, 1):.4f}"


DOLLARS = Column[SystemSummary]("$/task", _dollars)


def list_columns(against: SystemSummary) -> tuple[Column[SystemSummary], ...]:
    """The columns of an evaluation.

    Args:
        against: the system that the others are compared with.
    """

    def difference(line: SystemSummary) -> str:
        return format_difference(compute_difference(line, against) if line is not against else None)

    return (
        Column("system", lambda line: line.name),
        Column("score [95 %]", lambda line: str(line.interval or "-")),
        SOLVED,
        Column("difference [95 %]", difference, silent="-"),
        ERRORS,
        Column("over cap", lambda line: str(line.capped), silent="0"),
        CALLS,
        TOKENS,
        DOLLARS,
        DECISIONS,
        Column("s/task", lambda line: f"{line.spend.seconds / max(line.tasks, 1):.1f}"),
        Column(
            "score per 100 calls",
            lambda line: "-" if line.per_hundred_calls is None else f"{line.per_hundred_calls:.1f}",
        ),
        Column("S", _efficiency, silent="n/a"),
        Column("evolution", lambda line: _evolution(line.contestant), silent="none"),
    )


def format_difference(estimate: IntervalEstimate | None, digits: int = 2, missing: str = "-") -> str:
    """A difference with its interval, signed; a dash where there is none."""
    if estimate is None:
        return missing
    return f"{estimate.value:+.{digits}f} [{estimate.low:+.{digits}f}, {estimate.high:+.{digits}f}]"


def _efficiency(line: SystemSummary) -> str:
    if line.efficiency is not None:
        return f"{line.efficiency:.1f}"
    return "unknown" if line.spend.dollars is None else "n/a"


def _evolution(contestant: SystemInfo) -> str:
    if not contestant.learned:
        return "none"
    if contestant.evolution is None:
        return "unknown"
    dollars, calls = contestant.evolution.dollars, f"{contestant.evolution.calls:,} calls"
    return f"{calls}, $ unknown" if dollars is None else f"{calls}, ${dollars:,.2f}" if dollars else calls
