"""Runs a workflow on tasks, in parallel, and has the answers graded."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig

from selfwire.core.budget import get_error_cost
from selfwire.core.errors import (
    BudgetError,
    ConfigError,
    JournalError,
    ModelError,
    OutageError,
    SelfwireError,
    StoppedError,
    TaskBudgetError,
    format_error,
)
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Question, Task
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.values import FrozenMap
from selfwire.core.workflow import Workflow
from selfwire.evolvers.trace_text import gather_all
from selfwire.graphs.method_protocol import Method, Solver
from selfwire.graphs.rollout_context import RolloutContext, TaskReservations
from selfwire.graphs.trajectory_notes import keep_trajectories
from selfwire.runtime.journal_rows import CallResult
from selfwire.runtime.ledger import SHARE_USED_UP
from selfwire.runtime.tracing import InheritedConfig, is_observed, make_trace_config, trace_step, untraced

NEW_OBJECTS = 20_000
"""New objects after which the garbage collector runs."""
JUDGE_NODE = "environment.judge"
"""Node of the calls of a model that grades; they are not part of a task's cost."""

Progress = Callable[[Trajectory], None]
RolloutFn = Callable[[Workflow, Question, Scope], Awaitable[Sequence[Trajectory]]]
"""Puts a question to a team, once or several times; the trajectories differ by their `sample`."""
Keep = Callable[[Task, Sequence[Trajectory]], Awaitable[None]]
"""Takes a task's graded trajectories as soon as they are ready."""


RolloutRunner = Callable[[RolloutContext, RolloutFn, Workflow, Sequence[Task], Scope, Keep], Awaitable[None]]
"""`stream_rollouts`, or a replacement."""


@dataclass(frozen=True)
class SolverRollouts:
    """Rollouts with one answer per question."""

    solver: Solver

    async def __call__(self, workflow: Workflow, question: Question, scope: Scope) -> Sequence[Trajectory]:
        """Put the question once."""
        return [await self.solver.solve(workflow, question, scope=scope)]


@dataclass(frozen=True)
class TrainRollouts:
    """Rollouts to learn from: as many answers per question as the method wants."""

    method: Method

    async def __call__(self, workflow: Workflow, question: Question, scope: Scope) -> Sequence[Trajectory]:
        """Put the question, once or several times."""
        return await self.method.explore(workflow, question, scope=scope)


async def collect_rollouts(
    rollout_context: RolloutContext,
    rollout_fn: RolloutFn,
    workflow: Workflow,
    tasks: Sequence[Task],
    scope: Scope,
    progress: Progress,
    earlier: Mapping[str, Trajectory] = FrozenMap(),
    runner: RolloutRunner | None = None,
) -> list[Trajectory]:
    """Graded trajectories, in the order of the tasks; they are kept in the journal too, even if the phase stops.

    Args:
        runner: runs the tasks; None for `stream_rollouts`.
        earlier: finished trajectories by task, which is not run again then.

    Raises:
        BudgetError, OutageError: a budget is exhausted, a provider is down; the calls so far are in the journal.
        ModelError: too many ended as errors to learn from the rest.
    """
    found: dict[str, Sequence[Trajectory]] = {task: [one] for task, one in earlier.items()}

    async def keep(task: Task, some: Sequence[Trajectory]) -> None:
        found[task.id] = some
        for trajectory in some:
            progress(trajectory)

    async def keep_in_journal() -> list[Trajectory]:
        whole = [trajectory for task in tasks for trajectory in found.get(task.id, ())]
        await keep_trajectories(rollout_context.journal, whole, scope)
        return whole

    left = [task for task in tasks if task.id not in earlier]
    try:
        await (runner or stream_rollouts)(rollout_context, rollout_fn, workflow, left, scope, keep)
    except StoppedError:
        await keep_in_journal()
        raise
    whole = await keep_in_journal()
    if not earlier:  # else only a few were left, and the whole passed before
        _refuse_too_many_errors(whole, rollout_context, scope.phase)
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
        done = await _add_cost_of_failures(rollout_context, done, scope)
        if len(done) == 1:
            return [await grade_trajectory(rollout_context, task, done[0], scope)]
        return await gather_all(grade_trajectory(rollout_context, task, one, scope) for one in done)

    def shown(found: Sequence[Trajectory]) -> dict[str, Any]:
        return {"results": [to_trace_output(one) for one in found]}

    # a trace shows the question and results, and never the reference
    return await trace_step("task", run, make_task_config(workflow, scope), given=question.model_dump, summarize=shown)


def make_task_config(workflow: Workflow, scope: Scope) -> RunnableConfig:
    """Trace config of a task; without a tag of the workflow, as a method may run other ones."""
    here = make_trace_config(scope, {"method": workflow.method})
    return {**here, "metadata": {**here["metadata"], "selfwire_workflow": workflow.fingerprint}}


async def _add_cost_of_failures(
    rollout_context: RolloutContext, done: Sequence[Trajectory], scope: Scope
) -> Sequence[Trajectory]:
    """The trajectories, the first failed one with what the journal has of the task's cost beyond that of all."""
    failed = next((number for number, one in enumerate(done) if one.error is not None), None)
    if failed is None:
        return done
    here: dict[str, str | int] = {"run": scope.run, "iteration": scope.iteration, "phase": scope.phase}
    paid = await rollout_context.journal.spend_at(**here, task=scope.task)
    judged = await rollout_context.journal.spend_at(**here, task=scope.task, node=JUDGE_NODE)
    missing = paid.subtract(judged).subtract(sum_usages(one.usage for one in done))
    one = done[failed]
    return [*done[:failed], one.replace(overhead=one.overhead + missing), *done[failed + 1 :]]


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
    return found[0] if found else outcome.parse(Feedback.model_validate_json)


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


async def run_together(workers: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run workers at the same time until all are done, or until one fails, which ends the others.

    Raises:
        SelfwireError, BrokenPipeError: of the first that failed; the latter if nobody reads what is printed.
    """
    try:
        async with asyncio.TaskGroup() as group:
            for worker in workers:
                group.create_task(worker)
    except BaseExceptionGroup as failed:  # Python 3.11.2 wraps what is raised in an `except*` in a group
        expected, unexpected = failed.split((SelfwireError, BrokenPipeError))
        if expected is None or unexpected is not None:
            raise
        raise _first(expected) from None


def _first(failed: BaseExceptionGroup[Exception]) -> Exception:
    one = failed.exceptions[0]
    return _first(one) if isinstance(one, BaseExceptionGroup) else one


def _refuse_too_many_errors(found: Sequence[Trajectory], rollout_context: RolloutContext, phase: str) -> None:
    errors = [trajectory.error for trajectory in found if trajectory.error is not None]
    if not errors or len(errors) / len(found) <= rollout_context.keep_errors_below:
        return
    many = f"{len(errors)} of {len(found)} runs of phase {phase!r}"
    if all(error.startswith(SHARE_USED_UP) for error in errors):
        raise ModelError(
            f"{many} needed more calls than are set aside for each (--calls-per-task "
            f"{rollout_context.calls_per_task}); nothing was learned from them; a resumed run sets aside as many again"
        )
    raise ModelError(
        f"{many} ended as infrastructure errors, the first with: {errors[0]}; nothing was learned from them, resume "
        "the run when the cause is mended"
    )
