"""The ledger of worth beside exact leave-one-out, over teams that HiVA has grown and random edits have changed."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import sqrt
from statistics import fmean
from typing import Any, NamedTuple

from bench.measuring import Row, map_in_processes
from selfwire.core.scope import Scope
from selfwire.core.task import Task
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import format_count
from selfwire.evals.benchmarks.benchmark import Benchmark
from selfwire.evals.benchmarks.catalogue import load_benchmark
from selfwire.evals.instructions import paraphrases
from selfwire.evolvers.random_edits import edit_at_random
from selfwire.extras.offline.model import OfflineChat
from selfwire.graphs.hiva import Hiva
from selfwire.graphs.machine import Ctx
from selfwire.graphs.pruning import LOOK, Pruning, TeamPart, compute_part_worth, list_parts, make_pruned
from selfwire.graphs.rollouts import RolloutContext, grade_trajectory
from selfwire.models.budget import Ledger
from selfwire.models.embeddings import HashingEmbedder
from selfwire.models.metered_chat import MeteredModel
from selfwire.store.journal import Journal

TITLE = "worth: the ledger beside leave-one-out"
FAMILIES, VARIANTS, TASKS = 10, 5, 60
"""Grown teams, teams of each, and tasks of the exact worth."""
CALLS, RANKS = "calls, % of exact", "Spearman with exact"
WAYS = {
    "in full": "every run paid in full",
    "replayed": "equal calls replayed",
    "ledger": "replayed, needed agents left out no more",
}
"""Ways of leaving agents out; the last one is that of `selfwire prune`."""
GROWTH, BATCH, EDITS = 6, 10, (2, 4, 6)
"""Iterations of HiVA, train tasks of each, and random edits between the grown team and the others of its family."""


class MeasuredTeam(NamedTuple):
    """A team with and without each of its agents, task by task.

    Attributes:
        whole: T scores of the team.
        calls: T calls of these runs.
        without: T scores by the agent that is left out.
        sent: T calls by the agent, replayed ones apart; `full` with them.
    """

    whole: tuple[float, ...]
    calls: tuple[int, ...]
    without: Mapping[str, tuple[float, ...]]
    sent: Mapping[str, tuple[int, ...]]
    full: Mapping[str, tuple[int, ...]]


class Estimate(NamedTuple):
    """Worth by agent, and what it took.

    Attributes:
        tasks: that every agent was left out on.
        calls: that were sent.
    """

    worth: Mapping[str, float]
    tasks: int
    calls: int


def measure(families: Sequence[int] = range(FAMILIES)) -> list[Row]:
    """Rank correlation with the exact worth, and calls, by way of estimating it."""
    return summarise([team for family in map_in_processes(measure_family, families) for team in family])


def summarise(teams: Sequence[MeasuredTeam]) -> list[Row]:
    """The rows of measured teams, all agents together.

    The exact worth of an agent is its mean over all T tasks; an estimate at a tenth of the calls of these runs has the
    first tasks of them. How well the exact worth knows itself is the correlation of its halves, stepped up to all T
    tasks (Spearman and Brown); its root is what the true worth would reach.
    """
    tasks = len(teams[0].whole)
    exact = [estimate_worth(team, tasks) for team in teams]
    whole = sum(estimate.calls for estimate in exact)
    what = f"{format_count(len(teams), 'team')}, {format_count(sum(len(team.without) for team in teams), 'agent')}"
    rows = [Row(what=f"exact, {tasks} tasks, {what}", column=CALLS, value=100.0)]
    for share, way in ((0.1, "in full"), (0.1, "replayed"), (0.1, "ledger"), (1.0, "ledger")):
        found = [estimate_worth(team, count_affordable(team, share, way), way) for team in teams]
        name = f"{WAYS[way]}, {'at most ' if way == 'ledger' else ''}{fmean(e.tasks for e in found):.1f} tasks"
        rows.append(Row(what=name, column=CALLS, value=100 * sum(e.calls for e in found) / whole))
        rows.append(Row(what=name, column=RANKS, value=correlate(found, exact)))
        if share < 1:
            rest = [estimate_worth(t, tasks, first=e.tasks) for t, e in zip(teams, found, strict=True)]
            rows.append(Row(what=name, column="with exact on the other tasks", value=correlate(found, rest)))
    halves = correlate(*([estimate_worth(team, tasks, first=first, step=2) for team in teams] for first in (0, 1)))
    stepped = 2 * halves / (1 + halves)
    for name, value in {
        "exact, a half with the other": halves,
        "exact with itself, stepped up": stepped,
        "true worth, at most": sqrt(max(0.0, stepped)),
    }.items():
        rows.append(Row(what=name, column=RANKS, value=value))
    return rows


def estimate_worth(team: MeasuredTeam, tasks: int, way: str = "in full", *, first: int = 0, step: int = 1) -> Estimate:
    """Estimate the worth of a team's agents on some of the tasks, with its calls.

    Args:
        tasks: end of the tasks, from `first` on.
        way: one of `WAYS`.
    """
    used, worth = range(first, tasks, step), dict[str, float]()
    calls = sum(team.calls[task] for task in used)
    paid = team.full if way == "in full" else team.sent
    for name, scores in team.without.items():
        gains = list[float]()
        for task in used:
            gains.append(team.whole[task] - scores[task])
            calls += paid[name][task]
            if way == "ledger" and len(gains) % LOOK == 0 and compute_part_worth("agent", name, gains).needed:
                break
        worth[name] = fmean(gains)
    return Estimate(worth, len(used), calls)


def count_affordable(team: MeasuredTeam, share: float, way: str) -> int:
    """Count the first tasks that take at most a share of the calls of all runs in full, at least one."""
    budget = share * estimate_worth(team, len(team.whole)).calls
    fits = [tasks for tasks in range(1, len(team.whole) + 1) if estimate_worth(team, tasks, way).calls <= budget]
    return max(fits, default=1)


def correlate(some: Sequence[Estimate], others: Sequence[Estimate]) -> float:
    """Spearman's rank correlation over all agents of all teams."""
    from scipy.stats import spearmanr

    pairs = [(a.worth[name], b.worth[name]) for a, b in zip(some, others, strict=True) for name in a.worth]
    return float(spearmanr(*zip(*pairs, strict=True)).statistic)


class WorthRunner(NamedTuple):
    """Runs teams: the method, its context, the journal and the tasks."""

    method: Pruning
    ctx: Ctx[Any]
    journal: Journal
    tasks: Sequence[Task]

    @classmethod
    def make(cls, seed: int, tasks: Sequence[Task], bench: Benchmark) -> "WorthRunner":
        """Make one with a fresh journal."""
        journal, ledger, method = Journal.memory(), Ledger(), make_pruned(Hiva(nodes=8))
        model = MeteredModel(OfflineChat(), journal=journal, ledger=ledger)
        context = RolloutContext(bench.environment, journal, ledger, 8, 60, 0.5)
        by_id = {task.id: task for task in tasks}

        async def grade(done: Trajectory, at: Scope) -> Trajectory:
            return await grade_trajectory(context, by_id[done.question.id], done, at)

        ctx = method.make_ctx(model, bench.toolbox, HashingEmbedder(), scope=Scope(run="worth", seed=seed))
        return cls(method, replace(ctx, grade_run=grade), journal, tasks)

    async def run(self, team: Team, group: Sequence[TeamPart] = (), **at: int) -> list[Trajectory]:
        """Run a team without some parts on all tasks."""
        questions = [task.question for task in self.tasks]
        return await self.method.run_without(group, team, questions, self.ctx.where(self.ctx.scope.at(**at)))

    async def count_calls(self) -> tuple[int, ...]:
        """Count the calls that were sent, task by task."""
        return tuple([(await self.journal.spend_at(task=task.id)).calls for task in self.tasks])


def measure_family(seed: int) -> list[MeasuredTeam]:
    """Grow a team, and measure it and its changed copies, of 4 to 8 agents each."""
    return asyncio.run(_measure_family(seed))


async def _measure_family(seed: int) -> list[MeasuredTeam]:
    bench = load_benchmark("archive", seed=seed, size=4 * (TASKS + GROWTH * BATCH))
    splits = bench.splits(seed, train=GROWTH * BATCH, gate=TASKS, test=0)
    hiva, found = Hiva(nodes=8), list[MeasuredTeam]()
    team = hiva.seed(sorted(bench.toolbox))
    for iteration in range(GROWTH):
        runner = WorthRunner.make(seed, splits.train[iteration * BATCH : (iteration + 1) * BATCH], bench)
        runs = await runner.run(team, iteration=iteration)
        team = (await hiva.propose(team, runs, runner.ctx.where(iteration=iteration, phase="evolve"))).workflow
    texts = tuple(text for kind in paraphrases().values() for text in kind)
    for variant in range(20 * VARIANTS):  # some teams are too large or too small
        edits = EDITS[variant % len(EDITS)] if variant else 0
        changed, _ = edit_at_random(team, edits, texts, scope=Scope(seed=seed, iteration=variant))
        if 4 <= len(changed.agents) <= 8 and len(found) < VARIANTS:
            found.append(await measure_team(changed, WorthRunner.make(seed, splits.gate, bench)))
    return found


async def measure_team(team: Team, runner: WorthRunner) -> MeasuredTeam:
    """Run a team with and without each agent on all tasks."""
    whole, calls = _score(await runner.run(team)), await runner.count_calls()
    without = dict[str, tuple[float, ...]]()
    sent, full = dict[str, tuple[int, ...]](), dict[str, tuple[int, ...]]()
    before = calls
    for name, part in list_parts(team).items():
        if part.kind == "agent":
            runs = await runner.run(team, [part])
            now = await runner.count_calls()
            without[name], full[name] = _score(runs), tuple(run.usage.calls for run in runs)
            sent[name], before = tuple(b - a for a, b in zip(before, now, strict=True)), now
    return MeasuredTeam(whole, calls, without, sent, full)


def _score(runs: Sequence[Trajectory]) -> tuple[float, ...]:
    return tuple(run.feedback.score if run.feedback else 0.0 for run in runs)
