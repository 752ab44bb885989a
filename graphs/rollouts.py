"""Rollouts: a batch of tasks answered and graded, with budgets reserved per task."""

import asyncio
import gc
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain
from typing import Any

from langchain_core.runnables import RunnableConfig
from pydantic import TypeAdapter

from selfwire.core.errors import (
    BudgetError,
    ConfigError,
    GradingError,
    JournalError,
    ModelError,
    OutageError,
    SelfwireError,
    StoppedError,
    TaskBudgetError,
    UngradedError,
    format_error,
    get_error_cost,
)
from selfwire.core.protocols import Environment
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Question, Task
from selfwire.core.team import Team
from selfwire.core.trajectory import RAISED, Trajectory
from selfwire.core.usage import Budget, Usage, sum_usages
from selfwire.core.values import FrozenMap
from selfwire.evolvers.trajectory_text import gather_all
from selfwire.graphs.machine import Ctx
from selfwire.models.budget import SHARE_USED_UP, Ledger
from selfwire.models.sync import run_in_thread
from selfwire.models.tracing import make_trace_config, run_untraced, trace_step
from selfwire.store.journal import Journal
from selfwire.store.journal_file import CallResult

ONE_CALL = Usage(calls=1)
JUDGED = Budget(calls=2)
"""Budget of a judge per answer: it is called again if its reply is not a score."""
UNGRADED = 8
"""Number of answers, the first of a phase, after which a grader that has failed on all of them stops the run."""
Keep = Callable[[Task, Sequence[Trajectory]], Awaitable[None]]
"""Keeps a task's graded trajectories as soon as they are ready."""

RolloutFn = Callable[[Team, Question, Ctx[Any]], Awaitable[Trajectory | Sequence[Trajectory]]]
"""A way to put a question to a team: `Method.ask`, or `ask_samples`, whose trajectories differ by `sample`."""

RolloutRunner = Callable[["RolloutContext", RolloutFn, Team, Sequence[Task], Ctx[Any], Keep], Awaitable[None]]
"""Runs and grades tasks: `rollouts.stream_rollouts` in this process, or a replacement on workers."""


@dataclass(frozen=True)
class RolloutContext:
    """Environment, journal and limits of rollouts.

    Attributes:
        calls_per_task: model calls that are reserved for each run of a task before it starts, under a budget of calls;
            None to reserve none, so that a task may take all that the budget has.
        samples: runs of a task, which share its calls.
        capped: whether a task may never take more than `calls_per_task`, budget or not, resumed or not.
        keep_errors_below: share of the trajectories that may end as infrastructure errors; above it all are refused.
        replays: whether all that a task does is read from the journal. Where not, a graded task is kept at once with
            all its samples, and is not run again by a process that goes on with the same team.
        replays_grades: whether grades are rows of the journal; False where trajectories are kept with their grades.
        judge: pays for a model that grades, whose calls do not count as the task's; None where `ledger` pays.
        runner: runs the tasks; None for `stream_rollouts`.
        ran: ids of tasks on which the team that this one is compared with ran; an error that the user's own program
            raises by itself counts as 0 there.
        ungraded: the first answers on which the grader may not fail altogether; infinite where it may.
    """

    environment: Environment
    journal: Journal
    ledger: Ledger
    concurrency: int
    calls_per_task: int | None
    keep_errors_below: float
    samples: int = 1
    capped: bool = False
    replays: bool = True
    replays_grades: bool = True
    judge: Ledger | None = None
    runner: RolloutRunner | None = None
    ran: frozenset[str] = frozenset()
    ungraded: float = UNGRADED


class GraderCheck:
    """Finds out on the first answers whether the grader fails altogether, before more answers are paid for.

    Args:
        most: number of these answers.
    """

    def __init__(self, most: float) -> None:
        self.most, self._errors, self._is_usable = most, list[str](), False

    def add(self, found: Sequence[Trajectory]) -> None:
        """Count the answers of a task."""
        self._is_usable = self._is_usable or any(done.feedback is not None for done in found)
        errors = (done.error for done in found if done.answer is not None and done.error is not None)
        self._errors += filter(is_of_grader, errors)

    @property
    def fault(self) -> UngradedError | None:
        """Why no more tasks should begin; None where they may."""
        if self._is_usable or len(self._errors) < self.most:
            return None
        return make_ungraded(f"all of the first {len(self._errors)} answers", self._errors[-1])


def is_of_grader(error: str) -> bool:
    """Whether a trajectory's error is one of its grader."""
    return error.startswith(f"{GradingError.__name__}:")


def make_ungraded(many: str, last: str) -> UngradedError:
    """Make the error of a grader that has failed on so many answers."""
    return UngradedError(
        f"the grader has failed on {many}, the last time with: {last}; mend it and resume the run: what models have "
        "answered is kept, and graded anew"
    )


class TaskReservations:
    """Reserves the calls of a task before it starts, strictly in the order of the tasks.

    A task waits while running tasks may still give back unused calls. When no other task runs, it gets all calls that
    are left, and no other task starts before it ends; without any left it is refused. So spending, and not timing,
    decides which task is refused.
    """

    def __init__(self, rollout_context: RolloutContext) -> None:
        self.rollout_context, self.running = rollout_context, 0
        self.turn, self.freed = asyncio.Lock(), asyncio.Event()

    def reserve(self, place: Scope) -> AbstractAsyncContextManager[None]:
        """Reserve the calls of a task while it runs; entering may wait, and raises BudgetError if calls run out."""
        is_bound = self.rollout_context.capped or self.rollout_context.ledger.budget.calls is not None
        calls = self.rollout_context.calls_per_task
        return nullcontext() if calls is None or not is_bound else self._share(place, calls)

    @asynccontextmanager
    async def _share(self, place: Scope, calls: int) -> AsyncIterator[None]:
        async with self.turn:
            if not await self._reserve(place, calls * self.rollout_context.samples):
                try:
                    yield  # alone, on what is left
                finally:
                    self._release(place)
                return
            self.running += 1
        try:
            yield
        finally:
            self._release(place)
            self.running -= 1
            self.freed.set()

    async def _reserve(self, place: Scope, calls: int) -> bool:
        """Reserve a task's calls; return False if fewer are left, which the task may then use."""
        before = await self.rollout_context.journal.spend_at(
            run=place.run, iteration=place.iteration, phase=place.phase, task=place.task
        )
        share = Budget(calls=calls + (0 if self.rollout_context.capped else before.calls))
        while True:
            self.freed.clear()
            try:
                if self.rollout_context.ledger.is_shared:
                    await run_in_thread(self._reserve_now, place, share, before)
                else:
                    self._reserve_now(place, share, before)
            except BudgetError:
                self._release(place)
                if not self.running:
                    if self.rollout_context.capped:
                        self.rollout_context.ledger.limit_task(place, share, before)
                    with self.rollout_context.ledger.track_call() as call:  # it may wait for other processes
                        (await call.reserve(ONE_CALL, f"{place.phase}/{place.task}")).settle(Usage())
                    return False
                await self.freed.wait()
            else:
                return True

    def _reserve_now(self, place: Scope, share: Budget, before: Usage) -> None:
        self.rollout_context.ledger.reserve_task(place, share, before)
        if self.rollout_context.judge:
            self.rollout_context.judge.reserve_task(place, JUDGED)

    def _release(self, place: Scope) -> None:
        for ledger in (self.rollout_context.ledger, self.rollout_context.judge):
            if ledger:
                ledger.release_task(place)


TRAJECTORIES = "trajectories/"
"""Prefix of the notes."""


async def keep_trajectories(
    journal: Journal, found: Iterable[Trajectory], scope: Scope, bodies: dict[str, str]
) -> None:
    """Keep the trajectories of a phase, in place of those that were kept for it before.

    Args:
        bodies: hashes of those whose bodies are kept, by sample; the others are added.
    """
    names = {get_sample_name(done): done for done in found}
    for name, done in names.items():
        bodies[name] = bodies.get(name) or await journal.put_body(done.model_dump(mode="json"))
    await journal.put_note(get_scope_note(scope), {name: bodies[name] for name in (*names, *bodies)})


async def load_trajectories(journal: Journal, scope: Scope) -> list[Trajectory]:
    """The kept trajectories of a phase; none where it has not begun."""
    bodies = await journal.get_note(get_scope_note(scope)) or {}
    return [Trajectory.model_validate(await journal.get_body(body)) for body in bodies.values()]


async def load_graded(journal: Journal, scope: Scope) -> list[Trajectory]:
    """The kept trajectories of a phase that have a grade."""
    return [done for done in await load_trajectories(journal, scope) if done.feedback is not None]


DONE = "done/"
"""Prefix of the notes with the trajectories of a task, each beside those of its phase, which workers keep."""
GRADED = TypeAdapter(list[Trajectory])


async def keep_done(journal: Journal, scope: Scope, task: str, found: Sequence[Trajectory]) -> None:
    """Keep the trajectories of a task in the journal of a worker."""
    text = GRADED.dump_json(list(found)).decode()  # a note that is no text would sort keys and write 1.0 as 1
    await journal.put_note(f"{DONE}{get_scope_note(scope)}/{task}", text)


async def load_done(journal: Journal, scope: Scope) -> list[Trajectory]:
    """The trajectories of a phase that workers have left when the run was stopped."""
    names = await journal.list_note_names(f"{DONE}{get_scope_note(scope)}/")
    return [done for name in names for done in GRADED.validate_json(await journal.get_note(name))]


def get_sample_name(done: Trajectory) -> str:
    """Name of a trajectory within its phase: its task's id, and which of several samples it is."""
    return f"{done.question.id}#{done.sample}" if done.sample else done.question.id


def get_scope_note(scope: Scope) -> str:
    """Name of the note of a scope's phase; the side of a comparison stands behind the run's name."""
    return get_trajectories_note(scope.iteration, scope.phase, scope.run.partition("/")[2])


def get_trajectories_note(iteration: int, phase: str, side: str = "") -> str:
    """Name of the journal's note that lists a phase's trajectories, as hashes by task.

    The side of a comparison is incumbent, candidate or pruned, before or after, and "" elsewhere.
    """
    return f"{TRAJECTORIES}{iteration}/{phase}/{side}"


NEW_OBJECTS = 20_000
"""New objects after which the garbage collector runs."""
JUDGE_NODE = "environment.judge"
"""Node of the calls of a model that grades; they are not part of a task's cost."""


async def collect_rollouts(
    rollout_context: RolloutContext,
    rollout_fn: RolloutFn,
    team: Team,
    tasks: Sequence[Task],
    ctx: Ctx[Any],
    progress: Callable[[Trajectory], None] = lambda trajectory: None,
    earlier: Mapping[str, Trajectory] = FrozenMap(),
) -> list[Trajectory]:
    """Run and grade tasks; return their trajectories in the order of the tasks, and keep them in the journal.

    They are kept even if the phase stops.

    Args:
        ctx: of the method at the place of the phase.
        earlier: finished trajectories by task; these tasks are not run again.

    Raises:
        BudgetError, OutageError: a budget is exhausted, a provider is down; the calls so far are in the journal.
        ModelError, UngradedError: too many ended as errors to learn from the rest, or failed in the grader.
    """
    found: dict[str, Sequence[Trajectory]] = {task: [trajectory] for task, trajectory in earlier.items()}

    async def keep(task: Task, trajectories: Sequence[Trajectory]) -> None:
        trajectories = [_count_own_error(done, rollout_context.ran) for done in trajectories]
        found[task.id] = trajectories
        for trajectory in trajectories:
            progress(trajectory)
        if not rollout_context.replays:
            await keep_in_journal()

    bodies = dict[str, str]()

    async def keep_in_journal() -> list[Trajectory]:
        whole = [trajectory for task in tasks for trajectory in found.get(task.id, ())]
        await keep_trajectories(rollout_context.journal, whole, ctx.scope, bodies)
        return whole

    if not rollout_context.replays:
        known = await _load_whole(rollout_context, team, ctx.scope)
        found = {**known, **found}
        # they may be of more tasks, to which the phase had come before it was stopped
        await keep_trajectories(rollout_context.journal, chain.from_iterable(known.values()), ctx.scope, bodies)
    left = [task for task in tasks if task.id not in found]
    try:
        await (rollout_context.runner or stream_rollouts)(rollout_context, rollout_fn, team, left, ctx, keep)
    except StoppedError:
        await keep_in_journal()
        raise
    whole = await keep_in_journal()
    if not earlier:  # else only a few were left, and the whole passed before
        refuse_too_many_errors(whole, rollout_context, ctx.scope.phase)
    return whole


def _count_own_error(done: Trajectory, ran: Collection[str]) -> Trajectory:
    """Count an error of the user's own program as 0 where the team that this one is compared with ran."""
    if done.error is None or done.question.id not in ran or not done.notes.get(RAISED):
        return done
    return done.with_feedback(Feedback(score=0.0, solved=False, text=f"the graph raised an error: {done.error}"))


async def _load_whole(rollout_context: RolloutContext, team: Team, scope: Scope) -> dict[str, Sequence[Trajectory]]:
    """Load the tasks of a phase of which all samples were graded with a team."""
    found, journal = dict[str, list[Trajectory]](), rollout_context.journal
    kept = [*await load_done(journal, scope), *await load_trajectories(journal, scope)]
    for done in {get_sample_name(done): done for done in kept}.values():
        if done.workflow == team.fingerprint and done.feedback is not None:
            found.setdefault(done.question.id, []).append(done)
    return {task: graded for task, graded in found.items() if len(graded) == rollout_context.samples}


async def stream_rollouts(
    rollout_context: RolloutContext,
    rollout_fn: RolloutFn,
    team: Team,
    tasks: Iterable[Task],
    ctx: Ctx[Any],
    keep: Keep,
) -> None:
    """Run and grade tasks in order, several at once; keep each right after its grading.

    Raises:
        BudgetError, OutageError: a budget is exhausted, a provider is down; the calls so far are in the journal.
        UngradedError: the grader fails on all answers; the tasks that had begun by then are kept.
    """
    waiting, reservations = iter(tasks), TaskReservations(rollout_context)
    grader = GraderCheck(rollout_context.ungraded)

    async def work() -> None:
        while not grader.fault and (task := next(waiting, None)):
            here = ctx.where(task=task.id)
            async with reservations.reserve(here.scope):
                found = await try_rollout(rollout_context, rollout_fn, team, task, here)
            await keep(task, found)
            grader.add(found)

    with freeze_gc():
        await run_together([work() for _ in range(rollout_context.concurrency)])
    if grader.fault:
        raise grader.fault


@contextmanager
def freeze_gc() -> Iterator[None]:
    """Let the garbage collector skip older objects and run less often; by default it takes a third of a task's CPU."""
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
    rollout_context: RolloutContext, rollout_fn: RolloutFn, team: Team, task: Task, ctx: Ctx[Any]
) -> Sequence[Trajectory]:
    """Run and grade one task; its failures become a trajectory's `error`.

    Raises:
        BudgetError, OutageError, ConfigError, JournalError: the whole run must stop.
    """
    question, scope = task.question, ctx.scope

    async def run() -> Sequence[Trajectory]:
        done = await run_rollout(rollout_fn, team, question, ctx)
        done = await _add_cost_of_failures(rollout_context, done, scope)
        if len(done) == 1:
            return [await grade_trajectory(rollout_context, task, done[0], scope)]
        return await gather_all(grade_trajectory(rollout_context, task, trajectory, scope) for trajectory in done)

    def shown(found: Sequence[Trajectory]) -> dict[str, Any]:
        return {"results": [to_trace_output(trajectory) for trajectory in found]}

    # a trace shows the question and results, and never the reference
    return await trace_step("task", run, make_task_config(team, scope), given=question.model_dump, summarize=shown)


def make_task_config(team: Team, scope: Scope) -> RunnableConfig:
    """Make the trace config of a task; no tag names the team, as a method may run others."""
    here = make_trace_config(scope, {"method": team.method})
    return {**here, "metadata": {**here["metadata"], "selfwire_workflow": team.fingerprint}}


async def _add_cost_of_failures(
    rollout_context: RolloutContext, done: Sequence[Trajectory], scope: Scope
) -> Sequence[Trajectory]:
    """Add the cost of the task that the journal has and no trajectory has to the first failed trajectory."""
    failed = next((number for number, trajectory in enumerate(done) if trajectory.error is not None), None)
    if failed is None:
        return done
    here: dict[str, str | int] = {"run": scope.run, "iteration": scope.iteration, "phase": scope.phase}
    paid = await rollout_context.journal.spend_at(**here, task=scope.task)
    judged = await rollout_context.journal.spend_at(**here, task=scope.task, node=JUDGE_NODE)
    missing = paid.subtract(judged).subtract(sum_usages(trajectory.usage for trajectory in done))
    charged = done[failed].replace(overhead=done[failed].overhead + missing)
    return [*done[:failed], charged, *done[failed + 1 :]]


async def run_rollout(rollout_fn: RolloutFn, team: Team, question: Question, ctx: Ctx[Any]) -> Sequence[Trajectory]:
    """Put a question to the team; its failures become a trajectory's `error`.

    Raises:
        BudgetError, OutageError, ConfigError, JournalError: the whole run must stop.
    """

    async def run() -> Sequence[Trajectory]:
        done = await rollout_fn(team, question, ctx)
        return [done] if isinstance(done, Trajectory) else done

    return await _record_failure(Trajectory(question=question, workflow=team.fingerprint), run)


def to_trace_output(done: Trajectory) -> dict[str, Any]:
    """Make the outcome of a task for traces: answer, fault, feedback and usage."""
    feedback = done.feedback and done.feedback.model_dump(mode="json", include={"score", "solved", "text"})
    return {
        "answer": done.answer,
        "error": get_fault(done),
        "feedback": feedback,
        "usage": done.usage.model_dump(mode="json"),
    }


def get_fault(done: Trajectory) -> str | None:
    """Return why a task ended as an error, without the words of a grader, as these may hold the reference."""
    if done.error is None or done.answer is None:
        return done.error
    return f"not graded: {done.error.partition(':')[0]}"


async def grade_trajectory(rollout_context: RolloutContext, task: Task, done: Trajectory, scope: Scope) -> Trajectory:
    """Grade the answer of a trajectory, or note the grading error; a trajectory without an answer is unchanged.

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
    """Grade an answer by the environment, through the journal.

    Raises:
        GradingError: the environment failed.
    """
    if not rollout_context.replays_grades:
        return await run_untraced(rollout_context.environment.grade(task, answer, scope=scope))
    found: list[Feedback] = []

    async def call() -> CallResult:
        found.append(await run_untraced(rollout_context.environment.grade(task, answer, scope=scope)))
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

    An error of a worker passes through: the first of several, but one that is not selfwire's own comes before those.
    """
    try:
        async with asyncio.TaskGroup() as group:
            for worker in workers:
                group.create_task(worker)
    except BaseExceptionGroup as failed:  # Python 3.11.2 wraps what is raised in an `except*` in a group
        _, unexpected = failed.split((SelfwireError, BrokenPipeError))
        raise _first(unexpected or failed) from None


def _first(failed: BaseExceptionGroup[BaseException]) -> BaseException:
    error = failed.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


def refuse_too_many_errors(found: Sequence[Trajectory], rollout_context: RolloutContext, phase: str) -> None:
    """Raise ModelError or UngradedError if too many ended as errors to learn from the rest."""
    errors = [done.error for done in found if done.error is not None and done.feedback is None]
    if not errors or len(errors) / len(found) <= rollout_context.keep_errors_below:
        return
    many = f"{len(errors)} of {len(found)} runs of phase {phase!r}"
    if all(error.startswith(SHARE_USED_UP) for error in errors):
        raise ModelError(
            f"{many} needed more calls than are set aside for each (--calls-per-task "
            f"{rollout_context.calls_per_task}); nothing was learned from them; a resumed run sets aside as many again"
        )
    if all(map(is_of_grader, errors)):
        raise make_ungraded(f"{len(errors)} of {len(found)} answers of phase {phase!r}", errors[-1])
    raise ModelError(
        f"{many} ended as errors, the first with: {errors[0]}; nothing was learned from them, resume "
        "the run when the cause is mended"
    )
