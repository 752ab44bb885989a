"""Fits tau and K_in: runs other settings on the questions of the current one's trajectories."""

import asyncio
from collections.abc import Sequence

from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import sum_usages
from selfwire.core.values import FrozenModel
from selfwire.core.workflow import Workflow
from selfwire.evolvers.dytopo.config import DytopoConfig
from selfwire.evolvers.dytopo.tuning import (
    Setting,
    Trial,
    choose_best,
    find_neighbours,
    get_current_setting,
    make_grid,
    with_setting,
)
from selfwire.evolvers.trace_text import gather_all
from selfwire.graphs.method_protocol import Solver, TrajectoryGrader


class Tuning(FrozenModel):
    """Result of tuning: the current setting's trial is the first, and without graded trajectories there is none."""

    workflow: Workflow
    chosen: Setting
    trials: tuple[Trial, ...] = ()


async def tune_workflow(
    solver: Solver,
    config: DytopoConfig,
    workflow: Workflow,
    trajectories: Sequence[Trajectory],
    grade: TrajectoryGrader,
    *,
    scope: Scope,
    settings: Sequence[Setting] | None = None,
    at_once: int = 8,
) -> Tuning:
    """Fit tau and K_in to tasks; the setting changes only if another one scores higher.

    Args:
        trajectories: its runs with the current setting; those without a grade teach nothing.
        scope: of the trials; a task draws alike in every trial, and equal calls are made once.
        settings: tried beside the current one; by default as the config says.
        at_once: tasks that run at the same time.

    Raises:
        BudgetError, OutageError: the trials must stop.
    """
    now = get_current_setting(workflow, config)
    graded = [done for done in trajectories if done.feedback is not None]
    if not graded:
        return Tuning(workflow=workflow, chosen=now)
    if settings is None:
        settings = find_neighbours(now) if config.search == "near" else make_grid()
    questions, trials = [done.question for done in graded], [_make_trial(now, graded)]
    for setting in dict.fromkeys(settings):
        if setting != now:
            candidate = with_setting(workflow, setting)
            trials.append(_make_trial(setting, await _run_batch(solver, candidate, questions, grade, scope, at_once)))
    chosen = choose_best(trials, now)
    kept = workflow if chosen == now else with_setting(workflow, chosen).with_lineage(workflow, ())
    return Tuning(workflow=kept, chosen=chosen, trials=tuple(trials))


async def _run_batch(
    solver: Solver,
    workflow: Workflow,
    questions: Sequence[Question],
    grade: TrajectoryGrader,
    scope: Scope,
    at_once: int,
) -> list[Trajectory]:
    places = asyncio.Semaphore(at_once)

    async def one(question: Question) -> Trajectory:
        async with places:
            place = scope.at(task=question.id)
            return await grade(await solver.solve(workflow, question, scope=place), place)

    return await gather_all(one(question) for question in questions)


def _make_trial(setting: Setting, runs: Sequence[Trajectory]) -> Trial:
    return Trial(
        setting=setting,
        scores=tuple(done.feedback.score if done.feedback else None for done in runs),
        tokens=sum_usages(done.usage for done in runs).tokens,
    )
