"""The ledger of worth beside exact leave-one-out, over teams that HiVA has grown and random edits have changed."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple

from selfwire.core.scope import Scope
from selfwire.core.task import Task
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.evals.benchmarks.catalogue import load_benchmark
from selfwire.evals.instructions import paraphrases
from selfwire.evolvers.random_edits import edit_at_random
from selfwire.extras.offline.model import OfflineChat
from selfwire.graphs.hiva import Hiva
from selfwire.graphs.machine import Ctx
from selfwire.graphs.pruning import TeamPart, list_parts, make_pruned
from selfwire.graphs.rollouts import RolloutContext, grade_trajectory
from selfwire.models.budget import Ledger
from selfwire.models.embeddings import HashingEmbedder
from selfwire.models.metered_chat import MeteredModel
from selfwire.store.journal import Journal

TITLE = "worth: the ledger beside leave-one-out"
FAMILIES, VARIANTS, TASKS = 8, 5, 40
"""Grown teams, teams of each, and tasks of the exact worth."""
GROWTH, BATCH, EDITS = 6, 10, 3
"""Iterations of HiVA, train tasks of each, and random edits between a team and the next of its family."""


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


class Place(NamedTuple):
    """Where teams run: the method, its context, the journal and the tasks."""

    method: Any
    ctx: Ctx[Any]
    journal: Journal
    tasks: Sequence[Task]

    @classmethod
    def make(cls, seed: int, tasks: Sequence[Task], bench: Any) -> "Place":
        """Make a place with a fresh journal."""
        journal, ledger, method = Journal.memory(), Ledger(), make_pruned(Hiva(nodes=8))
        model = MeteredModel(OfflineChat(), journal=journal, ledger=ledger)
        context = RolloutContext(bench.environment, journal, ledger, 8, 60, 0.5)
        by_id = {task.id: task for task in tasks}

        async def grade(done: Trajectory, at: Scope) -> Trajectory:
            return await grade_trajectory(context, by_id[done.question.id], done, at)

        ctx = method.make_ctx(model, bench.toolbox, HashingEmbedder(), at=Scope(run="worth", seed=seed))
        return cls(method, replace(ctx, grade_run=grade), journal, tasks)

    async def run(self, team: Team, group: Sequence[TeamPart] = (), **at: int) -> list[Trajectory]:
        """Run a team without some parts on all tasks."""
        questions = [task.question for task in self.tasks]
        return await self.method.run_without(group, team, questions, self.ctx.where(**at))

    async def count_calls(self) -> tuple[int, ...]:
        """Count the calls that were sent, task by task."""
        return tuple([(await self.journal.spend_at(task=task.id)).calls for task in self.tasks])


def measure_family(seed: int) -> list[MeasuredTeam]:
    """Grow a team and measure it and its changed copies, of 3 to 8 agents each."""
    return asyncio.run(_measure_family(seed))


async def _measure_family(seed: int) -> list[MeasuredTeam]:
    bench = load_benchmark("archive", seed=seed, size=4 * (TASKS + GROWTH * BATCH))
    splits = bench.splits(seed, train=GROWTH * BATCH, gate=TASKS, test=0)
    hiva, found = Hiva(nodes=8), list[MeasuredTeam]()
    team = hiva.seed(sorted(bench.toolbox))
    for iteration in range(GROWTH):
        place = Place.make(seed, splits.train[iteration * BATCH : (iteration + 1) * BATCH], bench)
        runs = await place.run(team, iteration=iteration)
        team = (await hiva.propose(team, runs, place.ctx.where(iteration=iteration, phase="evolve"))).workflow
    texts = tuple(text for kind in paraphrases().values() for text in kind)
    for variant in count():
        if len(found) == VARIANTS:
            return found
        scope = Scope(seed=seed, iteration=variant)
        changed = edit_at_random(team, EDITS, texts, scope=scope)[0] if variant else team
        if 5 <= len(changed.agents) <= 8:
            found.append(await measure_team(changed, Place.make(seed, splits.gate, bench)))
    raise AssertionError("the loop ends by itself")


async def measure_team(team: Team, place: Place) -> MeasuredTeam:
    """Run a team with and without each agent on all tasks."""
    whole, calls = _score(await place.run(team)), await place.count_calls()
    without, sent, full, before = {}, {}, {}, calls
    for name, part in list_parts(team).items():
        if part.kind == "agent":
            runs = await place.run(team, [part])
            now = await place.count_calls()
            without[name], full[name] = _score(runs), tuple(run.usage.calls for run in runs)
            sent[name], before = tuple(b - a for a, b in zip(before, now, strict=True)), now
    return MeasuredTeam(whole, calls, without, sent, full)


def _score(runs: Sequence[Trajectory]) -> tuple[float, ...]:
    return tuple(run.feedback.score if run.feedback else 0.0 for run in runs)
