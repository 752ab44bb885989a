"""What contestants came to: scores with intervals, differences paired by task, and what they cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from selfwire.core.task import Task
from selfwire.core.usage import Usage, UsageAccumulator
from selfwire.core.values import FrozenModel
from selfwire.evals.evaluation.rows import SystemInfo, TaskRow
from selfwire.evals.statistics import (
    IntervalEstimate,
    compute_cost_efficiency,
    compute_paired_interval,
    compute_score_interval,
    compute_wilson_interval,
)


class SystemSummary(FrozenModel):
    """One contestant over all tasks.

    Args:
        contestant: who.
        scores: by task; None for an error.
        solved: tasks that were solved.
        capped: tasks whose calls were used up before there was an answer; they score 0.
        spend: on all tasks.
        rounds: of all tasks together; None for a contestant without rounds.
        figures: means of the environment's numeric details, over the tasks for which it tells them.
        judged, agreed: graded tasks on which the contestant's own judge spoke, and where it was right.
        fault: of the first task that ended as an error; "" if none did.
    """

    contestant: SystemInfo
    scores: Mapping[str, float | None]
    solved: int
    capped: int
    spend: Usage
    rounds: int | None = None
    figures: Mapping[str, float] = {}
    judged: int = 0
    agreed: int = 0
    fault: str = ""

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


@dataclass
class Tally:
    """Adds up the rows of a contestant."""

    contestant: SystemInfo
    scores: dict[str, float | None] = field(default_factory=dict)
    solved: int = 0
    capped: int = 0
    spend: UsageAccumulator = field(default_factory=UsageAccumulator)
    rounds: int | None = None
    figures: dict[str, list[float]] = field(default_factory=dict)
    judged: int = 0
    agreed: int = 0
    fault: str = ""

    def add(self, row: TaskRow) -> None:
        """Take a row."""
        self.scores[row.task] = row.score
        self.solved += bool(row.solved)
        self.capped += row.capped
        self.fault = self.fault or row.error or ""
        self.spend.add(row)
        if row.rounds is not None:
            self.rounds = (self.rounds or 0) + row.rounds
        for name, figure in row.details.items():
            if type(figure) in (int, float):
                self.figures.setdefault(name, []).append(figure)
        if row.judged is not None and row.solved is not None:
            self.judged += 1
            self.agreed += row.judged == row.solved

    def line(self, tasks: Sequence[Task]) -> SystemSummary:
        """The sum, its scores in the order of the tasks."""
        scores = {task.id: self.scores[task.id] for task in tasks if task.id in self.scores}
        return SystemSummary(
            contestant=self.contestant,
            scores=scores,
            solved=self.solved,
            capped=self.capped,
            spend=self.spend.usage,
            rounds=self.rounds,
            figures={name: fmean(found) for name, found in self.figures.items()},
            judged=self.judged,
            agreed=self.agreed,
            fault=self.fault,
        )


def compute_difference(line: SystemSummary, against: SystemSummary) -> IntervalEstimate | None:
    """Mean of `line` - `against` over the tasks that both finished, with Student's interval over the pairs.

    Where all differences are equal that interval has no width, as if two tasks could tell everything. Then at most a
    share 1 - 0.05**(1/n) of all tasks differs otherwise, with 95 % confidence, and a difference lies in [-1, 1].
    """
    both = [
        (there, here)
        for task, here in line.scores.items()
        if here is not None and (there := against.scores.get(task)) is not None
    ]
    if len(both) < 2:
        return None
    found = compute_paired_interval([there for there, _ in both], [here for _, here in both])
    if found.low < found.high:
        return found
    unseen = 1 - 0.05 ** (1 / found.n)
    return found.replace(low=found.value - unseen * (1 + found.value), high=found.value + unseen * (1 - found.value))


def choose_comparison(lines: Sequence[SystemSummary], against: str) -> SystemSummary:
    """The line that others are compared with: the named one, else the first after the benchmark's own rule."""
    return next((line for line in lines if line.contestant.name == against), lines[1])


HEAD = (
    "contestant",
    "score [95 %]",
    "solved [95 %]",
    "difference [95 %]",
    "errors",
    "over cap",
    "calls/task",
    "tokens/task",
    "$/task",
    "s/task",
    "score per 100 calls",
    "S",
    "evolution",
)


def format_cells(line: SystemSummary, against: SystemSummary) -> tuple[str, ...]:
    """A line of the table, as `HEAD` names its columns."""
    cost, n = line.spend, max(len(line.scores), 1)
    versus = compute_difference(line, against) if line is not against else None
    return (
        line.contestant.target if not line.contestant.method else line.contestant.name,
        _told(line.interval),
        _told(line.share),
        "-" if versus is None else f"{versus.value:+.2f} [{versus.low:+.2f}, {versus.high:+.2f}]",
        str(line.errors),
        str(line.capped),
        f"{cost.calls / n:.1f}",
        f"{cost.tokens / n:,.0f}",
        "unknown" if cost.dollars is None else f"{cost.dollars / n:.4f}",
        f"{cost.seconds / n:.1f}",
        "-" if line.per_hundred_calls is None else f"{line.per_hundred_calls:.1f}",
        _efficiency(line),
        _evolution(line.contestant),
    )


def _told(estimate: IntervalEstimate | None) -> str:
    return "-" if estimate is None else str(estimate)


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
