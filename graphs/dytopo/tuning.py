"""The evolver that fits tau and K_in: it runs every setting on the same held-out tasks and keeps the best."""

import asyncio
from collections.abc import Sequence

from selfwire.core.errors import GradingError
from selfwire.core.ports import Environment
from selfwire.core.scope import Scope
from selfwire.core.task import Task
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import total
from selfwire.core.values import Value
from selfwire.core.workflow import Workflow
from selfwire.evolvers.dytopo.tuning import Setting, Trial, best, current, grid, with_setting
from selfwire.graphs.dytopo.method import Dytopo


class Tuning(Value):
    """What tuning came to.

    Args:
        workflow: runs with the chosen setting from now on; its agents are those that were given.
        chosen: tau and K_in.
        trials: every setting that was tried, the present one first.
    """

    workflow: Workflow
    chosen: Setting
    trials: tuple[Trial, ...]


async def tuned(
    dytopo: Dytopo,
    workflow: Workflow,
    tasks: Sequence[Task],
    environment: Environment,
    *,
    scope: Scope,
    settings: Sequence[Setting] = grid(),
    at_once: int = 8,
) -> Tuning:
    """Fit tau and K_in to held-out tasks; a setting changes only where another one scores higher.

    Args:
        dytopo: the wired method.
        workflow: the team.
        tasks: held out: neither trained nor reported on.
        environment: scores answers.
        scope: place of the trials; a task draws alike in every trial.
        settings: what is tried beside the present setting.
        at_once: how many tasks run at the same time.

    Raises:
        BudgetError, OutageError: the trials must stop.
        ValueError: there are no tasks.
    """
    if not tasks:
        raise ValueError("tuning needs held-out tasks; give at least one")
    now = current(workflow, dytopo.config)
    trials = []
    for setting in dict.fromkeys((now, *settings)):
        trials.append(await _tried(dytopo, workflow, setting, tasks, environment, scope, at_once))
    chosen = best(trials, now)
    kept = workflow if chosen == now else with_setting(workflow, chosen).descended_from(workflow, ())
    return Tuning(workflow=kept, chosen=chosen, trials=tuple(trials))


async def _tried(
    dytopo: Dytopo,
    workflow: Workflow,
    setting: Setting,
    tasks: Sequence[Task],
    environment: Environment,
    scope: Scope,
    at_once: int,
) -> Trial:
    candidate, places = with_setting(workflow, setting), asyncio.Semaphore(at_once)

    async def one(task: Task) -> tuple[Trajectory, float | None]:
        async with places:
            place = scope.at(task=task.id)
            done = await dytopo.solve(candidate, task.question, scope=place)
            return done, await _score(done, task, environment, place)

    runs = await asyncio.gather(*(one(task) for task in tasks))
    return Trial(
        setting=setting,
        scores=tuple(score for _, score in runs),
        tokens=total(done.usage for done, _ in runs).tokens,
    )


async def _score(done: Trajectory, task: Task, environment: Environment, scope: Scope) -> float | None:
    if done.answer is None:
        return None
    try:
        return (await environment.assess(task, done.answer, scope=scope)).score
    except GradingError:
        return None
