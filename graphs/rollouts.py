"""Runs a workflow on tasks, in parallel, and has the answers graded."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig

from selfwire.core.budget import Budget, get_error_cost
from selfwire.core.errors import (
    BudgetError,
    ConfigError,
    JournalError,
    ModelError,
    OutageError,
    SelfwireError,
    TaskBudgetError,
    format_error,
)
from selfwire.core.protocols import Environment
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Question, Task
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.core.workflow import Workflow
from selfwire.graphs.method_protocol import Solver
from selfwire.runtime.journal import CallResult, Journal
from selfwire.runtime.ledger import Ledger
from selfwire.runtime.tracing import InheritedConfig, is_observed, make_trace_config, trace_step, untraced

NEW_OBJECTS = 20_000
"""New objects after which the garbage collector runs."""
JUDGED = Budget(calls=2)
"""Budget of a judge per answer: it is called again if its reply is not a score."""

Progress = Callable[[Trajectory], None]
RolloutFn = Callable[[Workflow, Question, Scope], Awaitable[Sequence[Trajectory]]]
"""Puts a question to a team, once or several times; the trajectories differ by their `sample`."""
Keep = Callable[[Task, Sequence[Trajectory]], Awaitable[None]]
"""Takes a task's graded trajectories as soon as they are ready."""


@dataclass(frozen=True)
class RolloutContext:
    """Environment, journal and limits of rollouts.

    Attributes:
        calls_per_task: model calls that are reserved for a task before it starts, under a budget of calls.
        capped: whether a task may never take more than `calls_per_task`, budget or not, resumed or not.
        keep_errors_below: share of the trajectories that may end as infrastructure errors before all are refused.
        replays_grades: whether grades are rows of the journal; off where trajectories are kept with their grades.
        judge: pays for a model that grades, whose calls do not count as the task's; None where `ledger` pays.
    """

    environment: Environment
    journal: Journal
    ledger: Ledger
    concurrency: int
    calls_per_task: int
    keep_errors_below: float
    capped: bool = False
    replays_grades: bool = True
    judge: Ledger | None = None


RolloutRunner = Callable[[RolloutContext, RolloutFn, Workflow, Sequence[Task], Scope, Keep], Awaitable[None]]
"""`stream_rollouts`, or a replacement."""


def to_rollout_fn(solver: Solver) -> RolloutFn:
    """Rollouts with one answer per question."""

    async def rollout_fn(workflow: Workflow, question: Question, scope: Scope) -> Sequence[Trajectory]:
        return [await solver.solve(workflow, question, scope=scope)]

    return rollout_fn


async def collect_rollouts(
    rollout_context: RolloutContext,
    rollout_fn: RolloutFn,
    workflow: Workflow,
    tasks: Sequence[Task],
    scope: Scope,
    progress: Progress,
) -> list[Trajectory]:
    """Graded trajectories, in the order of the tasks.

    Raises:
        BudgetError, OutageError: a budget is exhausted, a provider is down; the calls so far are in the journal.
        ModelError: too many ended as infrastructure errors to learn from the rest.
    """
    found: dict[str, Sequence[Trajectory]] = {}

    async def keep(task: Task, some: Sequence[Trajectory]) -> None:
        found[task.id] = some
        for trajectory in some:
            progress(trajectory)

    await stream_rollouts(rollout_context, rollout_fn, workflow, tasks, scope, keep)
    whole = [trajectory for task in tasks for trajectory in found[task.id]]
    _refuse_too_many_errors(whole, rollout_context.keep_errors_below, scope.phase)
    return whole


async def stream_rollouts(
    rollout_context: RolloutContext,
    rollout_fn: RolloutFn,
    workflow: Workflow,
    tasks: Iterable[Task],
    scope: Scope,
    keep: Keep,
) -> None:
    """Run and grade tasks in order, several at once; each is released as soon as it is kept.

    Raises:
        BudgetError, OutageError: a budget is exhausted, a provider is down; the calls so far are in the journal.
    """
    waiting, shares = iter(tasks), TaskReservations(rollout_context)

    async def work() -> None:
        for task in waiting:
            place = scope.at(task=task.id)
            async with shares.of(place):
                found = await try_rollout(rollout_context, rollout_fn, workflow, task, place)
            await keep(task, found)

    with freeze_gc(), nullcontext() if is_observed() else InheritedConfig():
        await run_together([work() for _ in range(rollout_context.concurrency)])


@contextmanager
def freeze_gc() -> Iterator[None]:
    """Have the garbage collector skip older objects and run less often: by default it takes a third of a task's CPU."""
    often = gc.get_threshold()
    if often[0] >= NEW_OBJECTS:  # another user in this process has set it and will reset it
        yield
        return
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, *often[1:])
    try:
        yield
    finally:
        gc.set_threshold(*often)
        gc.unfreeze()


async def try_rollout(
    rollout_context: RolloutContext, rollout_fn: RolloutFn, workflow: Workflow, task: Task, scope: Scope
) -> Sequence[Trajectory]:
    """Run and grade one task; its failures become a trajectory's `error`.

    Raises:
        BudgetError, OutageError, ConfigError, JournalError: the whole run must stop.
    """
    question = task.question

    async def run() -> Sequence[Trajectory]:
        done = await run_rollout(rollout_fn, workflow, question, scope)
        if len(done) == 1:
            return [await grade_trajectory(rollout_context, task, done[0], scope)]
        return await asyncio.gather(*(grade_trajectory(rollout_context, task, one, scope) for one in done))

    def shown(found: Sequence[Trajectory]) -> dict[str, Any]:
        return {"results": [to_trace_output(one) for one in found]}

    # a trace shows the question and results, and never the reference
    return await trace_step("task", run, make_task_config(workflow, scope), given=question.model_dump, told=shown)


def make_task_config(workflow: Workflow, scope: Scope) -> RunnableConfig:
    """Trace config of a task; without a tag of the workflow, as a method may run other ones."""
    here = make_trace_config(scope, {"method": workflow.method})
    return {**here, "metadata": {**here["metadata"], "selfwire_workflow": workflow.fingerprint}}


async def run_rollout(
    rollout_fn: RolloutFn, workflow: Workflow, question: Question, scope: Scope
) -> Sequence[Trajectory]:
    """Put a question to the team; its failures become a trajectory's `error`.

    Raises:
        BudgetError, OutageError, ConfigError, JournalError: the whole run must stop.
    """
    blank = Trajectory(question=question, workflow=workflow.fingerprint)
    return await _record_failure(blank, lambda: rollout_fn(workflow, question, scope))


def to_trace_output(done: Trajectory) -> dict[str, Any]:
    """A task's outcome for traces: answer, fault, feedback and usage."""
    feedback = done.feedback and done.feedback.model_dump(mode="json", include={"score", "solved", "text"})
    return {
        "answer": done.answer,
        "error": get_fault(done),
        "feedback": feedback,
        "usage": done.usage.model_dump(mode="json"),
    }


def get_fault(done: Trajectory) -> str | None:
    """Why a task ended as an error, without the words of a grader, which may hold the reference."""
    if done.error is None or done.answer is None:
        return done.error
    return f"not graded: {done.error.partition(':')[0]}"


async def grade_trajectory(rollout_context: RolloutContext, task: Task, done: Trajectory, scope: Scope) -> Trajectory:
    """The trajectory with its answer graded, or with the grading error; one without an answer is unchanged.

    Raises:
        BudgetError, OutageError, ConfigError, JournalError: the whole run must stop.
    """
    answer = done.answer
    if answer is None or done.error is not None:
        return done

    async def grade() -> Sequence[Trajectory]:
        return [done.with_feedback(await grade_answer(rollout_context, task, answer, scope.at(sample=done.sample)))]

    return (await _record_failure(done, grade))[0]


async def grade_answer(rollout_context: RolloutContext, task: Task, answer: str, scope: Scope) -> Feedback:
    """Have the environment grade an answer, through the journal.

    Raises:
        GradingError: the environment failed.
    """
    if not rollout_context.replays_grades:
        return await untraced(rollout_context.environment.grade(task, answer, scope=scope))
    found: list[Feedback] = []

    async def call() -> CallResult:
        found.append(await untraced(rollout_context.environment.grade(task, answer, scope=scope)))
        return CallResult(found[0].model_dump_json())

    request = {"environment": rollout_context.environment.name, "answer": answer}
    outcome = await rollout_context.journal.call_once("environment", scope.at(node="environment"), request, call)
    return found[0] if found else Feedback.model_validate_json(outcome.text)


async def _record_failure(
    before: Trajectory, act: Callable[[], Awaitable[Sequence[Trajectory]]]
) -> Sequence[Trajectory]:
    try:
        return await act()
    except TaskBudgetError as error:
        return [before.as_failed(str(error))]
    except (BudgetError, OutageError, ConfigError, JournalError):
        raise
    except Exception as error:  # noqa: BLE001  # the one place where a failed task is recorded
        paid = get_error_cost(error) if isinstance(error, ModelError) else Usage()
        return [before.replace(overhead=before.overhead + paid).as_failed(format_error(error))]


class TaskReservations:
    """Reserves the calls of a task before it starts, strictly in the order of the tasks.

    A task waits while earlier ones may still give back unused calls; it is refused once none of them runs. So spending
    decides which task is refused, and timing does not.
    """

    def __init__(self, rollout_context: RolloutContext) -> None:
        self.rollout_context, self.running = rollout_context, 0
        self.turn, self.freed = asyncio.Lock(), asyncio.Event()

    def of(self, place: Scope) -> AbstractAsyncContextManager[None]:
        """The reservation of a task while it runs; entering it may wait, and raises BudgetError where calls run out."""
        is_bound = self.rollout_context.capped or self.rollout_context.ledger.budget.calls is not None
        return self._share(place) if is_bound else nullcontext()

    @asynccontextmanager
    async def _share(self, place: Scope) -> AsyncIterator[None]:
        async with self.turn:
            await self._reserve(place)
            self.running += 1
        try:
            yield
        finally:
            self._release(place)
            self.running -= 1
            self.freed.set()

    async def _reserve(self, place: Scope) -> None:
        before = await self.rollout_context.journal.spend_at(
            run=place.run, iteration=place.iteration, phase=place.phase, task=place.task
        )
        share = Budget(calls=self.rollout_context.calls_per_task + (0 if self.rollout_context.capped else before.calls))
        while True:
            self.freed.clear()
            try:
                self.rollout_context.ledger.reserve_task(place, share, before)
                if self.rollout_context.judge:
                    self.rollout_context.judge.reserve_task(place, JUDGED)
            except BudgetError as error:
                self._release(place)
                if not self.running:
                    aside = f"{self.rollout_context.calls_per_task} calls are set aside for each task before it starts"
                    raise BudgetError(f"{error}; {aside} (--calls-per-task)") from None
                await self.freed.wait()
            else:
                return

    def _release(self, place: Scope) -> None:
        for ledger in (self.rollout_context.ledger, self.rollout_context.judge):
            if ledger:
                ledger.release_task(place)


async def run_together(workers: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run workers at the same time until all are done, or until one fails, which ends the others.

    Raises:
        SelfwireError: of the first that failed.
    """
    try:
        async with asyncio.TaskGroup() as group:
            for worker in workers:
                group.create_task(worker)
    except BaseExceptionGroup as failed:  # Python 3.11.2 wraps what is raised in an `except*` in a group
        expected, unexpected = failed.split(SelfwireError)
        if expected is None or unexpected is not None:
            raise
        raise _first(expected) from None


def _first(failed: BaseExceptionGroup[SelfwireError]) -> SelfwireError:
    one = failed.exceptions[0]
    return _first(one) if isinstance(one, BaseExceptionGroup) else one


def compute_spent(trajectories: Sequence[Trajectory]) -> Usage:
    """Usage of all trajectories."""
    return sum((trajectory.usage for trajectory in trajectories), Usage())


def _refuse_too_many_errors(found: Sequence[Trajectory], limit: float, phase: str) -> None:
    errors = [trajectory.error for trajectory in found if trajectory.error is not None]
    if found and errors and len(errors) / len(found) > limit:
        raise ModelError(
            f"{len(errors)} of {len(found)} tasks of phase {phase!r} ended as infrastructure errors, the first with: "
            f"{errors[0]}; nothing was learned from them, resume the run when the cause is mended"
        )
