"""Results of runs, as Python callers get them: an evolution, an evaluation of one system, a comparison of several."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from pathlib import Path
from statistics import fmean

from selfwire.core.team import Team
from selfwire.core.text import split_sentences
from selfwire.core.usage import Objective, Usage
from selfwire.core.values import format_count
from selfwire.evals.statistics import IntervalEstimate, compute_score_interval
from selfwire.evals.table import ResultTable, SystemSummary, TaskRow, compute_difference, format_difference
from selfwire.evolvers.trajectory_text import shorten
from selfwire.graphs.pruning import list_model_changes
from selfwire.store.library import Version

FAULT = 160
"""Most characters of an error in a line; `selfwire show RUN` and the results have the whole error."""
SEED_TEAM, EVOLVED = "seed team", "evolved team"
SINGLE, SEED_VOTES = "single agent with votes", "seed team with votes"
"""Names of the systems that an evolution tests."""


@dataclass(frozen=True, repr=False)
class RunResult:
    """The result of a run.

    Attributes:
        run: its name; a call with this `run_name` goes on with it.
        folder: with everything that was said and paid for.
        cost: of the whole run: calls, tokens, dollars.
        notices: what the user should know, such as guessed fields of tasks.
        table: its systems in a line each.
    """

    run: str
    folder: Path
    cost: Usage
    notices: tuple[str, ...]
    table: ResultTable

    @property
    def title(self) -> str:
        """The result in a line."""
        return f"run {self.run}"

    def summary(self) -> str:
        """Make a text of the result: title, cost, table and notices, in Markdown."""
        cost = f"cost: {self.cost}; run {self.run}"
        notes = (*self.table.notes, *self.notices)
        listed = "\n".join(f"- {note}" for note in notes)
        return "\n\n".join(filter(None, (self.title, self.table.markdown, cost, listed)))

    def __str__(self) -> str:
        return self.title

    def __repr__(self) -> str:
        return f"<{self.title}>"

    def _repr_markdown_(self) -> str:
        """Make the text of the result, for IPython."""
        return self.summary()

    def __rich__(self) -> str:
        """Make the text of the result, for rich."""
        return self.summary()


@dataclass(frozen=True, repr=False)
class Evolution(RunResult):
    """The result of an evolution.

    Attributes:
        name: that the team is saved under.
        team: the kept one.
        seed: the team that the evolution began with.
        versions: that this run has saved under the name, oldest first.
        systems: `seed` and `team` on the test tasks, after the baselines if these were run; empty without test tasks.
        critic: (agreed, judged): how often the team's own opinion, where it was asked for, was the environment's.
        pruning: what a pruning has taken out, in a sentence; "" without one.
    """

    name: str
    team: Team
    seed: Team
    versions: tuple[Version, ...]
    systems: tuple[SystemSummary, ...] = ()
    critic: tuple[int, int] = (0, 0)
    pruning: str = ""

    @property
    def before(self) -> SystemSummary | None:
        """The seed on the test tasks; None without any."""
        return self._find(SEED_TEAM)

    @property
    def after(self) -> SystemSummary | None:
        """The team on the test tasks; None without any."""
        return self._find(EVOLVED)

    @property
    def single(self) -> SystemSummary | None:
        """A single agent with votes on the test tasks; None if it was not run."""
        return self._find(SINGLE)

    def _find(self, name: str) -> SystemSummary | None:
        return next((line for line in self.systems if line.name == name), None)

    @property
    def seed_votes(self) -> SystemSummary | None:
        """The seed, asked as often as the team's calls allow, with votes; None if it was not run or not twice."""
        return self._find(SEED_VOTES)

    @property
    def worth(self) -> str:
        """Whether the team is worth its calls, in a sentence; "" where no baseline was run.

        It is if it is shown to beat what does best with as many calls: a single agent or the seed, with votes.
        """
        return describe_worth(self.after, [line for line in (self.single, self.seed_votes, self.before) if line])

    @property
    def score(self) -> IntervalEstimate | None:
        """The mean score of the team on the test tasks with its 95 % interval; None without any."""
        return None if self.after is None else self.after.interval

    @property
    def gain(self) -> IntervalEstimate | None:
        """The mean gain over the seed, paired by test task, with its 95 % interval; None for less than two tasks."""
        return compute_difference(self.after, self.before) if self.before and self.after else None

    @property
    def over_single(self) -> IntervalEstimate | None:
        """The mean gain over a single agent with votes, as `gain`; None if that was not run."""
        return compute_difference(self.after, self.single) if self.single and self.after else None

    @property
    def title(self) -> str:
        """The result in a line."""
        changed = "unchanged" if self.team.fingerprint == self.seed.fingerprint else f"{len(self.versions)} versions"
        score = f"score {self.score}, gain {format_difference(self.gain)}" if self.score else "not tested"
        worth = f", {self.worth}" if self.worth else ""
        pruning = f", {self.pruning}" if self.pruning else ""
        return f"Evolution of {self.name!r} ({self.team.method}): {changed}, {score}{worth}{pruning}"


def describe_worth(evolved: SystemSummary | None, others: Sequence[SystemSummary]) -> str:
    """Say whether an evolved team beats the best of those that may make as many calls; "" if no baseline was run.

    Of equal ones the one with the fewest calls counts as the best. Where only the evolved team ends as an error, it
    counts as wrong.

    Args:
        others: the seed, and what was asked as often as the evolved team's calls allow.
    """
    measured = (line for line in others if line.graded)
    best = max(measured, key=lambda line: (fmean(line.graded), -line.calls_per_task), default=None)
    if evolved is None or not evolved.graded or best is None or len(others) < 2:
        return ""
    gain = compute_difference(evolved, best, is_proof=True)
    if gain is None:
        return ""
    lost = sum(score is None and best.scores.get(task) is not None for task, score in evolved.scores.items())
    said = "worth it" if gain.low > 0 else "not shown to be worth it"
    calls = f"at {evolved.calls_per_task:.1f} calls per task against {best.calls_per_task:.1f}"
    errors = f", {format_count(lost, 'error')} counted as wrong" if lost else ""
    return f"{said}: {format_difference(gain)} over the {best.name}, {calls}{errors}"


def describe_payback(found: Evolution, objective: Objective) -> str:
    """Say after how many questions the evolved team has earned what the whole run has cost; "" if nothing tells.

    Where the scores are not told apart and it costs fewer dollars than the seed, or makes fewer calls, that is by these
    alone; else by the objective: what an answer gains on the seed's, the price of its further calls taken off.
    """
    before, after, gain = found.before, found.after, found.gain
    if before is None or after is None or gain is None:
        return ""
    cost, saved = format_count(found.cost.calls, "call"), before.calls_per_task - after.calls_per_task
    if gain.low <= 0 <= gain.high:
        paid, old, new = (used.dollars for used in (found.cost, before.spend, after.spend))
        if paid and old and new is not None and (less := old / before.tasks - new / after.tasks) > 0:
            return _describe_saving(f"${less:.2g}", f"${paid:,.2f}", paid / less, gain)
        if saved > 0:
            return _describe_saving(f"{saved:.1f} calls", cost, found.cost.calls / saved, gain)
    price = objective.compute_price(before.spend, after.spend) / before.tasks
    if not objective.prices or (price == 0 and gain.value == 0):
        return ""
    spent = objective.compute_price(Usage(), found.cost)
    net = [end - price for end in (gain.value, gain.high, gain.low)]
    soonest, latest = ("never" if end <= 0 else f"{ceil(spent / end):,}" for end in net[1:])
    pays = "it does not pay"
    if net[0] > 0:
        pays = f"it pays after {format_count(ceil(spent / net[0]), 'question')} ({soonest} to {latest} by its interval)"
    return (
        f"by the objective's price the {cost} of this run count as {spent:.1f} of score, and an answer is worth "
        f"{net[0]:+.2f} on the seed team's: {pays}"
    )


def _describe_saving(less: str, paid: str, questions: float, gain: IntervalEstimate) -> str:
    after = format_count(ceil(questions), "question")
    score = f"its score differs from the seed team's by {format_difference(gain)}, which may be chance"
    return f"the team saves {less} a question, and {score}: it has saved the {paid} of this run after {after}"


def describe_pruning(before: Team, after: Team, calls: Sequence[float], dollars: Sequence[float] = ()) -> str:
    """Describe what a pruning has taken out, and which agents ask cheaper models.

    Args:
        calls: per gate task, before and after; empty if nothing has gone, the first alone after an edit by hand.
        dollars: as calls, where prices are known.
    """
    if not calls:
        return "pruning took nothing out"
    agents = f"{len(before.agents)} -> {format_count(len(after.agents), 'agent')}"
    edges = f"{len(before.topology.edges)} -> {format_count(len(after.topology.edges), 'edge')}"
    old = {agent.id: split_sentences(agent.prompt) for agent in before.agents}
    gone = sum(len(old[a.id]) - len(split_sentences(a.prompt)) for a in after.agents if a.id in old)
    said = f"{format_count(gone, 'sentence')} out of prompts, " if gone > 0 else ""
    saved = f"{calls[0]:.1f} calls per gate task before, those after an edit by hand are not measured"
    if len(calls) > 1:
        saved = f"{calls[0]:.1f} -> {calls[1]:.1f} calls per gate task"
    pruned = f"pruning: {agents}, {edges}, {said}{saved}"
    if not (models := list_model_changes(before, after)):
        return pruned
    price = f", ${dollars[0]:.2g} -> ${dollars[1]:.2g} per gate task" if len(calls) > 1 else ""
    return f"{pruned}; {', '.join(models)}{price}"


@dataclass(frozen=True, repr=False)
class Evaluation(RunResult):
    """The result of an evaluation.

    Attributes:
        name: of the system.
        rows: one per task and repetition.
    """

    name: str
    rows: tuple[TaskRow, ...]

    @cached_property
    def scores(self) -> Mapping[str, float]:
        """Scores by task, means over repetitions; tasks that ended as errors are left out."""
        found: dict[str, list[float]] = {}
        for row in self.rows:
            if row.score is not None:
                found.setdefault(row.task, []).append(row.score)
        return {task: fmean(scores) for task, scores in found.items()}

    @property
    def score(self) -> IntervalEstimate | None:
        """The mean score with its 95 % interval; None if nothing was graded."""
        return compute_score_interval(tuple(self.scores.values())) if self.scores else None

    @property
    def errors(self) -> tuple[TaskRow, ...]:
        """Rows of tasks that ended as errors; these do not count as 0."""
        return tuple(row for row in self.rows if row.score is None)

    @property
    def title(self) -> str:
        """The result in a line."""
        errors = ""
        if self.errors:
            fault = shorten(self.errors[0].error or "", FAULT)
            errors = f", {format_count(len(self.errors), 'error')}, such as {fault}"
        tasks = format_count(len(self.scores), "task")
        return f"Evaluation of {self.name}: score {self.score or '-'} on {tasks}{errors}"


@dataclass(frozen=True, repr=False)
class Comparison(RunResult):
    """The result of a comparison.

    Attributes:
        systems: by name, in the order given, after the benchmark's trivial baseline.
        against: name of the system that the others are compared with.
    """

    systems: Mapping[str, SystemSummary]
    against: str

    @property
    def scores(self) -> Mapping[str, IntervalEstimate | None]:
        """Mean scores with 95 % intervals, by system."""
        return {name: system.interval for name, system in self.systems.items()}

    @property
    def differences(self) -> Mapping[str, IntervalEstimate | None]:
        """Mean differences from the system `against`, paired by task, with 95 % intervals, by system."""
        base = self.systems[self.against]
        return {name: compute_difference(line, base) for name, line in self.systems.items() if name != self.against}

    @property
    def title(self) -> str:
        """The result in a line."""
        return "Comparison: " + ", ".join(f"{name} {score or '-'}" for name, score in self.scores.items())
