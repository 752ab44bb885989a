"""A system as a LangSmith experiment: its rollout is the target, the environment is the evaluator.

`Experiment.roll_through` replaces `rollouts.stream_rollouts`: rollouts, grading, reserved budget and journal are the
same, but `aevaluate` drives them. The results are those of the local evaluation; LangSmith only receives them.
"""

import asyncio
import io
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from typing import Any

from langchain_core.runnables import RunnableConfig
from langsmith import aevaluate, get_current_run_tree, traceable, tracing_context
from langsmith.evaluation import EvaluationResults
from langsmith.schemas import Example, Run, TracerSession
from langsmith.utils import LangSmithConflictError

from selfwire.core.errors import SelfwireError
from selfwire.core.scope import Scope
from selfwire.core.task import Task
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import FrozenMap
from selfwire.core.workflow import Workflow
from selfwire.evals.evaluation.rows import CAPPED
from selfwire.evals.langsmith.connection import Uploads, translate_errors
from selfwire.evals.langsmith.measures import get_failure, make_feedback
from selfwire.evolvers.trace_text import gather_all
from selfwire.graphs.rollout_context import RolloutContext, TaskReservations
from selfwire.graphs.rollouts import Keep, RolloutFn, grade_trajectory, make_task_config, run_rollout

ORACLE = "oracle"
"""Name of the trajectory's note that labels of its task were used to answer it."""


@dataclass(frozen=True)
class Experiment:
    """One system on one dataset.

    Attributes:
        name: of the experiment; a resumed run continues the one of its name.
        examples: by task id.
        upload: whether anything is sent.
        facts: metadata for comparing experiments, such as method, workflow, model, seed, split, code and budget.
    """

    client: Uploads
    name: str
    examples: Mapping[str, Example]
    upload: bool
    facts: Mapping[str, Any] = field(default_factory=FrozenMap)

    async def roll_through(
        self,
        rollout_context: RolloutContext,
        rollout_fn: RolloutFn,
        workflow: Workflow,
        tasks: Sequence[Task],
        scope: Scope,
        keep: Keep,
    ) -> None:
        """Run and grade tasks as `rollouts.stream_rollouts`, and report to LangSmith.

        Raises:
            BudgetError, OutageError: a budget is exhausted or a provider is down; the journal has the calls so far.
            ConfigError: LangSmith refused or could not be reached.
        """
        if not tasks:
            return
        expect = self.client.expect if self.upload else lambda _: None
        handlers = _ExperimentHandlers(
            rollout_context, rollout_fn, workflow, {task.id: task for task in tasks}, scope, keep, expect
        )
        with translate_errors(self.client):
            experiment = await asyncio.to_thread(self._open_session, len(tasks)) if self.upload else None
            try:
                await self._evaluate(handlers, experiment, rollout_context.concurrency)
            finally:
                await handlers.stop()
            await asyncio.to_thread(self.client.wait_for_uploads)
        if handlers.fault is not None:
            raise handlers.fault

    async def _evaluate(
        self, handlers: "_ExperimentHandlers", experiment: TracerSession | None, concurrency: int
    ) -> None:
        name = handlers.workflow.method or "rule"
        target = traceable(name=name, process_inputs=lambda given: given["inputs"])(handlers.target)
        with _silence():
            results = await aevaluate(
                target,
                data=handlers.stream_examples(self.examples),
                evaluators=[handlers.environment],
                metadata=dict(self.facts),
                experiment=experiment,
                experiment_prefix=None if experiment else self.name,
                max_concurrency=concurrency,
                client=self.client,
                upload_results=self.upload,
                blocking=False,
            )
            await asyncio.sleep(0)  # a task that aevaluate has started opens the progress bar
        await results.wait()

    def _open_session(self, size: int) -> TracerSession:
        try:
            session: TracerSession = self.client.create_project(
                self.name,
                reference_dataset_id=next(iter(self.examples.values())).dataset_id,
                metadata=dict(self.facts),
                num_examples=self.facts.get("tasks", size),  # a worker has some of them
            )
        except LangSmithConflictError:
            session = self.client.read_project(project_name=self.name)
        return session


class _ExperimentHandlers:
    """The target and the evaluator of one system, with the state that they share.

    `aevaluate` swallows exceptions of both, so the first one that must stop the run is kept in `fault`, and then no
    further task starts.
    """

    def __init__(
        self,
        rollout_context: RolloutContext,
        rollout_fn: RolloutFn,
        workflow: Workflow,
        tasks: Mapping[str, Task],
        scope: Scope,
        keep: Keep,
        expect: Callable[[int], None],
    ) -> None:
        self.rollout_context, self.rollout_fn, self.workflow, self.tasks = rollout_context, rollout_fn, workflow, tasks
        self.scope, self.keep, self.expect, self.shares = scope, keep, expect, TaskReservations(rollout_context)
        self.fault: BaseException | None = None
        self._found: dict[str, Sequence[Trajectory]] = {}
        self._reservations: dict[str, AsyncExitStack] = {}
        self._running: set[asyncio.Task[Any]] = set()

    async def stream_examples(self, examples: Mapping[str, Example]) -> AsyncIterator[Example]:
        """Examples in the order of the tasks, until a fault; `aevaluate` takes the next one when a slot is free."""
        for name in self.tasks:
            if self.fault is None:
                yield examples[name]

    async def target(self, inputs: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
        """Run the system on the example's question; its budget stays reserved until it is graded."""
        task = self.tasks[metadata["task"]]
        at = self.scope.at(task=task.id)
        if running := asyncio.current_task():
            self._running.add(running)
            running.add_done_callback(self._running.discard)
        config = make_task_config(self.workflow, at)
        reservation = self._reservations[task.id] = AsyncExitStack()
        try:
            async with self._record_fault(task):
                await reservation.enter_async_context(self.shares.of(at))
                with tracing_context(tags=config["tags"], metadata=config["metadata"]):
                    found = await run_rollout(self.rollout_fn, self.workflow, task.question, at)
        except SelfwireError:
            return {}
        self._found[task.id] = found
        return _make_outputs(found[0], self.workflow, config)

    async def environment(self, run: Run, example: Example | None) -> EvaluationResults:
        """Grade the target's answer in the environment, and keep the result."""
        if example is None or example.metadata is None:
            raise ValueError("there is no example")  # pragma: no cover - `aevaluate` gives each run one of ours
        name = str(example.metadata["task"])
        found, task, at = self._found.pop(name, None), self.tasks[name], self.scope.at(task=name)
        if found is None:
            return {"results": []}
        try:
            async with self._record_fault(task):
                done = await gather_all(grade_trajectory(self.rollout_context, task, one, at) for one in found)
                await self._release(task)
                await self.keep(task, done)
        except SelfwireError:
            return {"results": []}
        feedback = make_feedback(done[0])
        self.expect(len(feedback))
        return {"results": feedback}

    async def stop(self) -> None:
        """Cancel and await running tasks, so that nothing continues after a Ctrl-C."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _release(self, task: Task) -> None:
        if reservation := self._reservations.pop(task.id, None):
            await reservation.aclose()

    @asynccontextmanager
    async def _record_fault(self, task: Task) -> AsyncIterator[None]:
        try:
            yield
        except BaseException as error:
            self.fault = self.fault or error
            if run := get_current_run_tree():
                run.error = type(error).__name__
            await self._release(task)
            raise


def _make_outputs(done: Trajectory, workflow: Workflow, config: RunnableConfig) -> dict[str, Any]:
    if run := get_current_run_tree():
        run.add_tags([*config["tags"], f"workflow:{workflow.fingerprint}"])
        run.add_metadata(config["metadata"])
        run.error = get_failure(done)
    notes = {name: bool(done.notes.get(name)) for name in (CAPPED, ORACLE)}
    return {"answer": done.answer, **notes, "usage": done.usage.model_dump(mode="json")}


@contextmanager
def _silence() -> Iterator[None]:
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        warnings.filterwarnings("ignore", "'upload_results' parameter is in beta", UserWarning)
        yield
