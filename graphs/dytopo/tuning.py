"""The evolver that fits tau and K_in: it runs other settings on questions that the present one has been put to."""

import asyncio
from collections.abc import Sequence

from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import total
from selfwire.core.values import Value
from selfwire.core.workflow import Workflow
from selfwire.evolvers.dytopo.tuning import Setting, Trial, best, current, grid, near, with_setting
from selfwire.evolvers.trace_text import together
from selfwire.graphs.dytopo.method import Dytopo
from selfwire.graphs.method_protocol import Grade


class Tuning(Value):
    """What tuning came to.

    Args:
        workflow: runs with the chosen setting from now on; its agents are those that were given.
        chosen: tau and K_in.
        trials: every setting that was tried, the present one first; none where nothing could be compared.
    """

    workflow: Workflow
    chosen: Setting
    trials: tuple[Trial, ...] = ()


async def tuned(
    dytopo: Dytopo,
    workflow: Workflow,
    trajectories: Sequence[Trajectory],
    grade: Grade,
    *,
    scope: Scope,
    settings: Sequence[Setting] | None = None,
    at_once: int = 8,
) -> Tuning:
    """Fit tau and K_in to tasks; a setting changes only where another one scores higher.

    Args:
        dytopo: the wired method.
        workflow: the team.
        trajectories: its graded runs with the present setting; those that were not graded teach nothing.
        grade: grades the runs with other settings.
        scope: place of the trials; a task draws alike in every trial, and what is the same is asked once.
        settings: what is tried beside the present one; by default what the config says.
        at_once: how many tasks run at the same time.

    Raises:
        BudgetError, OutageError: the trials must stop.
    """
    now = current(workflow, dytopo.config)
    known = [done for done in trajectories if done.feedback is not None]
    if not known:
        return Tuning(workflow=workflow, chosen=now)
    if settings is None:
        settings = near(now) if dytopo.config.search == "near" else grid()
    questions, trials = [done.question for done in known], [_trial(now, known)]
    for setting in dict.fromkeys(settings):
        if setting != now:
            candidate = with_setting(workflow, setting)
            trials.append(_trial(setting, await _runs(dytopo, candidate, questions, grade, scope, at_once)))
    chosen = best(trials, now)
    kept = workflow if chosen == now else with_setting(workflow, chosen).descended_from(workflow, ())
    return Tuning(workflow=kept, chosen=chosen, trials=tuple(trials))


async def _runs(
    dytopo: Dytopo, workflow: Workflow, questions: Sequence[Question], grade: Grade, scope: Scope, at_once: int
) -> list[Trajectory]:
    places = asyncio.Semaphore(at_once)

    async def one(question: Question) -> Trajectory:
        async with places:
            place = scope.at(task=question.id)
            return await grade(await dytopo.solve(workflow, question, scope=place), place)

    return await together(one(question) for question in questions)


def _trial(setting: Setting, runs: Sequence[Trajectory]) -> Trial:
    return Trial(
        setting=setting,
        scores=tuple(done.feedback.score if done.feedback else None for done in runs),
        tokens=total(done.usage for done in runs).tokens,
    )
