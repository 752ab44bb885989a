"""Scores of EvoMAS where each stage needs one agent and another one spoils it.

Every stage has one layer of one agent, as one clerk settles a matter. Of two at work in a layer the same one would
always stamp first, so that the other could not be learned. Expected before the full run: a fixed workflow and chance
score about a third; the trained router scores more than both, and the router as it starts no more than chance; part of
what training brings is that Early-exit is drawn no more, which the pool without it takes away. With so few episodes
the trained router is far from the best possible. A seed takes about eight minutes of one processor's time.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any
from unittest.mock import patch

from bench.measuring import Row, make_cells, map_in_processes
from selfwire.core.scope import Scope
from selfwire.core.task import Task
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import FrozenModel
from selfwire.evals.benchmarks.benchmark import Benchmark
from selfwire.evals.benchmarks.stages import STAMPS, make_stages_team, stages
from selfwire.evals.statistics import compute_mean, compute_paired_interval, compute_student_interval
from selfwire.evals.table import format_difference
from selfwire.evolvers.router.decisions import LayerChooser, LayeredWorkflow
from selfwire.extras.offline.model import OfflineChat
from selfwire.graphs.evomas import Evomas
from selfwire.models.embeddings import CachedEmbedder, HashingEmbedder
from selfwire.models.metered_chat import MeteredModel
from selfwire.store.journal import NullRecorder

TITLE = "stages: does training choose the right agent?"
SEEDS, TASKS, UPDATES, BATCH = 10, 20, 60, 16
"""Test tasks, updates of the router, and train tasks of an update, each run four times."""
FIRST_SEED = 1
"""Seed 0 was looked at while the router's step and the width of a layer were chosen."""
TRAINED, BEST = "trained", "the right clerk at every stage"
SAMPLING = {"sampling": {"layers": 1, "width": 1}}
EMBEDDER = CachedEmbedder(HashingEmbedder())
NO_EXIT = "Early-exit masked: "


class RoutedSystem(FrozenModel):
    """A system: its config, whether its router was trained, and whether its pool has Early-exit when measured."""

    config: Mapping[str, Any] = {}
    trains: bool = False
    early_exit: bool = True


SYSTEMS: Mapping[str, RoutedSystem] = {
    BEST: RoutedSystem(),
    TRAINED: RoutedSystem(trains=True),
    "untrained": RoutedSystem(config={"adapter": "frozen"}),
    "by chance": RoutedSystem(config={"adapter": "random"}),
    f"{NO_EXIT}{TRAINED}": RoutedSystem(config={"transfer": True}, trains=True, early_exit=False),
    f"{NO_EXIT}untrained": RoutedSystem(config={"adapter": "frozen"}, early_exit=False),
    f"{NO_EXIT}by chance": RoutedSystem(config={"adapter": "random"}, early_exit=False),
    **{f"always the {clerk}": RoutedSystem(config={"adapter": "fixed", "plan": [[clerk]]}) for clerk in STAMPS},
    "linear, trained": RoutedSystem(config={"head": {"design": "linear"}}, trains=True),
}
"""Systems by name; those that share a trained router come before the next one, as old weights leave the memory."""


async def run_task(
    method: Evomas, team: Team, bench: Benchmark, task: Task, at: Scope, *, explore: bool
) -> Sequence[Trajectory]:
    """Graded runs of a task; several where the router explores."""
    model = MeteredModel(OfflineChat(seed=at.seed), journal=NullRecorder())
    ctx = method.make_ctx(model, bench.toolbox, EMBEDDER, scope=at.at(task=task.id))
    runs = (
        await method.explore(team, task.question, ctx) if explore else [await method.answer(team, task.question, ctx)]
    )
    graded = [await bench.environment.grade(task, run.answer or "", scope=ctx.scope) for run in runs]
    return [run.with_feedback(feedback) for run, feedback in zip(runs, graded, strict=True)]


async def train(method: Evomas, team: Team, bench: Benchmark, tasks: Sequence[Task], at: Scope) -> Team:
    """The team with a router that has learned from batches of tasks, each task in one of them."""
    for start in range(0, len(tasks), BATCH):
        batch = tasks[start : start + BATCH]
        place = at.at(phase="train", iteration=start // BATCH)
        runs = [run for task in batch for run in await run_task(method, team, bench, task, place, explore=True)]
        model = MeteredModel(OfflineChat(seed=at.seed), journal=NullRecorder())
        ctx = method.make_ctx(model, bench.toolbox, EMBEDDER, scope=place)
        team = (await method.propose(team, runs, ctx)).workflow
    return team


async def measure_systems(tasks: int, updates: int, seed: int) -> dict[str, tuple[float, float]]:
    """Mean score and calls of each system on a seed's test tasks; a router that two systems share is trained once."""
    bench, at = stages(2 * (tasks + updates * BATCH), seed=seed), Scope(seed=seed)
    split = bench.splits(seed, train=updates * BATCH, gate=0, test=tasks)
    found, trained = dict[str, tuple[float, float]](), dict[str, Team]()
    for name, trial in SYSTEMS.items():
        method = Evomas(Evomas.config_type.model_validate({**SAMPLING, **trial.config}))
        team, head = make_stages_team(early_exit=trial.early_exit), method.config.head.design
        if trial.trains and head not in trained:
            trained[head] = await train(method, make_stages_team(), bench, split.train, at)
        if trial.trains:
            team = trained[head].replace(agents=team.agents)
        scores, calls = list[float](), list[float]()
        for task in split.test:
            with patch("selfwire.graphs.evomas.make_chooser", know_clerks(task)) if name == BEST else nullcontext():
                (run,) = await run_task(method, team, bench, task, at.at(phase="test"), explore=False)
            scores.append(run.feedback.score if run.feedback else 0.0)
            calls.append(run.usage.calls)
        found[name] = compute_mean(scores), compute_mean(calls)
    return found


def know_clerks(task: Task) -> Callable[..., Awaitable[LayerChooser]]:
    """A maker of choosers that know the right clerk of every matter of a task."""

    async def choose(rows: Sequence[str], *drawn: Any, **given: Any) -> LayeredWorkflow:
        found = re.search(r"matter (\d)", rows[0])
        return LayeredWorkflow(layers=((task.kind.split()[int(found[1]) - 1 if found else 0],),))

    async def make(*given: Any) -> LayerChooser:
        return choose

    return make


def measure_seed(tasks: int, updates: int, seed: int) -> dict[str, tuple[float, float]]:
    """Score and calls of each system on a seed's tasks, the same for all."""
    import torch

    torch.set_num_threads(1)
    return asyncio.run(measure_systems(tasks, updates, seed))


def measure(seeds: int = SEEDS, tasks: int = TASKS, updates: int = UPDATES) -> list[Row]:
    """Score, difference paired by seed, and calls of each system."""
    numbers = range(FIRST_SEED, FIRST_SEED + seeds)
    return summarise([*map_in_processes(partial(measure_seed, tasks, updates), numbers)])


def summarise(found: Sequence[Mapping[str, tuple[float, float]]]) -> list[Row]:
    """The rows of the table; a seed is an observation."""
    rows, trained = list[Row](), [seed[TRAINED][0] for seed in found]
    for name in found[0]:
        scores = [seed[name][0] for seed in found]
        difference = None if name == TRAINED else compute_paired_interval(scores, trained)
        cells: dict[str, str | float] = {
            "score [95 %]": str(compute_student_interval(scores).clip(0, 1)),
            f"{TRAINED} − this [95 %]": format_difference(difference),
            "calls/task": compute_mean([seed[name][1] for seed in found]),
        }
        rows += make_cells(name, cells)
    return rows
