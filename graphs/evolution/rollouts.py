"""Runs a workflow on tasks, in parallel, and has the answers graded."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from selfwire.core.errors import (
    BudgetError,
    ConfigError,
    JournalError,
    ModelError,
    OutageError,
    SelfwireError,
    ShareError,
)
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Task
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Budget, Usage
from selfwire.core.workflow import Workflow
from selfwire.graphs.evolution.config import Parts
from selfwire.runtime.journal import Outcome

CHUNK = 200
"""Tasks that are started together at most, so that a large split does not pile up in memory."""

Progress = Callable[[Trajectory], None]


async def roll_out(
    parts: Parts, workflow: Workflow, tasks: Sequence[Task], scope: Scope, progress: Progress
) -> list[Trajectory]:
    """One graded trajectory per task, in the order of the tasks.

    Raises:
        BudgetError, OutageError: a budget is exhausted, a provider is down; the calls so far are in the journal.
        ModelError: too many tasks ended as infrastructure errors to learn from the rest.
    """
    gate, shares = asyncio.Semaphore(parts.config.concurrency), Shares(parts)

    async def one(task: Task) -> Trajectory:
        async with gate, shares.of(scope.at(task=task.id)):
            trajectory = await attempt(parts, workflow, task, scope.at(task=task.id))
            progress(trajectory)
            return trajectory

    found: list[Trajectory] = []
    for start in range(0, len(tasks), CHUNK):
        found += await _together([one(task) for task in tasks[start : start + CHUNK]])
    _refuse_too_many_errors(found, parts.config.keep_errors_below, scope.phase)
    return found


async def attempt(parts: Parts, workflow: Workflow, task: Task, scope: Scope) -> Trajectory:
    """Run and grade one task; whatever goes wrong with it becomes the trajectory's `error`.

    Raises:
        BudgetError, OutageError, ConfigError, JournalError: the whole run must stop.
    """
    trajectory = Trajectory(question=task.question, workflow=workflow.fingerprint)
    try:
        trajectory = await parts.method.solve(workflow, task.question, scope=scope)
        if trajectory.answer is None:
            return trajectory
        return trajectory.with_feedback(await assess(parts, task, trajectory.answer, scope))
    except ShareError as error:
        return trajectory.failed(str(error))
    except (BudgetError, OutageError, ConfigError, JournalError):
        raise
    except Exception as error:  # noqa: BLE001  # the one place where a failed task is recorded
        return trajectory.failed(f"{type(error).__name__}: {error}")


async def assess(parts: Parts, task: Task, answer: str, scope: Scope) -> Feedback:
    """Have the environment grade an answer, through the journal.

    Raises:
        GradingError: the environment failed.
    """

    async def call() -> Outcome:
        feedback = await parts.environment.assess(task, answer, scope=scope)
        return Outcome(feedback.model_dump(mode="json"))

    request = {"environment": parts.environment.name, "answer": answer}
    outcome = await parts.journal.recorded("environment", scope.at(node="environment"), request, call)
    return Feedback.model_validate(outcome.body)


class Shares:
    """Sets the calls of a task aside before it starts, strictly in the order of the tasks.

    A task waits while those before it may still give back what they do not need; it is refused once none of
    them runs any more. So what was spent decides which task is refused, and timing does not.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts, self.running = parts, 0
        self.turn, self.freed = asyncio.Lock(), asyncio.Event()

    @asynccontextmanager
    async def of(self, place: Scope) -> AsyncIterator[None]:
        """The share of a task, while it runs.

        Raises:
            BudgetError: the calls that are left do not suffice.
        """
        if self.parts.ledger.budget.calls is None:
            yield
            return
        async with self.turn:
            await self._taken(place)
            self.running += 1
        try:
            yield
        finally:
            self.parts.ledger.release(place)
            self.running -= 1
            self.freed.set()

    async def _taken(self, place: Scope) -> None:
        before = await self.parts.journal.spend_at(iteration=place.iteration, phase=place.phase, task=place.task)
        share = Budget(calls=before.calls + self.parts.config.calls_per_task)
        while True:
            self.freed.clear()
            try:
                self.parts.ledger.share(place, share, before)
            except BudgetError:
                if not self.running:
                    raise
                await self.freed.wait()
            else:
                return


async def _together(runs: Sequence[Coroutine[Any, Any, Trajectory]]) -> list[Trajectory]:
    try:
        async with asyncio.TaskGroup() as group:
            started = [group.create_task(run) for run in runs]
    except* SelfwireError as failed:
        raise _first(failed) from None
    return [task.result() for task in started]


def _first(failed: BaseExceptionGroup[SelfwireError]) -> SelfwireError:
    one = failed.exceptions[0]
    return _first(one) if isinstance(one, BaseExceptionGroup) else one


def spent(trajectories: Sequence[Trajectory]) -> Usage:
    """What the trajectories cost together."""
    return sum((trajectory.usage for trajectory in trajectories), Usage())


def _refuse_too_many_errors(found: Sequence[Trajectory], limit: float, phase: str) -> None:
    errors = [trajectory.error for trajectory in found if trajectory.error is not None]
    if found and errors and len(errors) / len(found) > limit:
        raise ModelError(
            f"{len(errors)} of {len(found)} tasks of phase {phase!r} ended as infrastructure errors, the first with: "
            f"{errors[0]}; nothing was learned from them, resume the run when the cause is mended"
        )
