"""A contestant as a LangSmith experiment: its play as the target, the environment as the evaluator.

`Experiment.roll_through` stands in for `rollouts.stream_rollouts`: the same plays, grades, shares and journal,
driven by
`aevaluate`. What it measures is what the local harness measures; LangSmith is only told.
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
from selfwire.graphs.rollouts import (
    Keep,
    RolloutContext,
    RolloutFn,
    TaskReservations,
    grade_trajectory,
    make_task_config,
    run_rollout,
)

ORACLE = "oracle"
"""Name of the trajectory's note that says that labels of its task were used to answer it."""


@dataclass(frozen=True)
class Experiment:
    """One contestant on one dataset.

    Attributes:
        client: of LangSmith, or the local one.
        name: of the experiment; a resumed run goes on with the one of its name.
        examples: by task id.
        upload: whether anything is sent.
        facts: what makes experiments comparable, such as method, workflow, model, seed, split, code and budget.
    """

    client: Uploads
    name: str
    examples: Mapping[str, Example]
    upload: bool
    facts: Mapping[str, Any] = field(default_factory=FrozenMap)

    async def roll_through(
        self,
        ground: RolloutContext,
        play: RolloutFn,
        workflow: Workflow,
        tasks: Sequence[Task],
        scope: Scope,
        keep: Keep,
    ) -> None:
        """Run and grade tasks, and tell LangSmith; as `rollouts.stream_rollouts` in all else.

        Raises:
            BudgetError, OutageError: a budget is exhausted, a provider is down; the calls so far are in the journal.
            ConfigError: LangSmith refused, or was not reached.
        """
        if not tasks:
            return
        expect = self.client.expect if self.upload else _skip_feedback
        rolling = _ExperimentHandlers(ground, play, workflow, {task.id: task for task in tasks}, scope, keep, expect)
        with translate_errors(self.client):
            experiment = await asyncio.to_thread(self._session, len(tasks)) if self.upload else None
            try:
                await self._evaluated(rolling, experiment, ground.concurrency)
            finally:
                await rolling.ended()
            await asyncio.to_thread(self.client.wait_for_uploads)
        if rolling.fault is not None:
            raise rolling.fault

    async def _evaluated(
        self, rolling: "_ExperimentHandlers", experiment: TracerSession | None, concurrency: int
    ) -> None:
        target = traceable(name=rolling.workflow.method or "rule", process_inputs=_question)(rolling.target)
        with _quietly():
            results = await aevaluate(
                target,
                data=rolling.begun(self.examples),
                evaluators=[rolling.environment],
                metadata=dict(self.facts),
                experiment=experiment,
                experiment_prefix=None if experiment else self.name,
                max_concurrency=concurrency,
                client=self.client,
                upload_results=self.upload,
                blocking=False,
            )
            await asyncio.sleep(0)  # the bar is opened by the task that aevaluate has started
        await results.wait()

    def _session(self, size: int) -> TracerSession:
        """The experiment of this name: a new one, or that of the run that is resumed."""
        try:
            made: TracerSession = self.client.create_project(
                self.name,
                reference_dataset_id=next(iter(self.examples.values())).dataset_id,
                metadata=dict(self.facts),
                num_examples=size,
            )
        except LangSmithConflictError:
            made = self.client.read_project(project_name=self.name)
        return made


class _ExperimentHandlers:
    """The target and the evaluator of one contestant, and what has to outlive a task's half in the target.

    `aevaluate` swallows what is raised in either, so what must stop the run is kept in `fault`, and no further task
    is begun then.
    """

    def __init__(
        self,
        ground: RolloutContext,
        play: RolloutFn,
        workflow: Workflow,
        tasks: Mapping[str, Task],
        scope: Scope,
        keep: Keep,
        expect: Callable[[int], None],
    ) -> None:
        self.ground, self.play, self.workflow, self.tasks = ground, play, workflow, tasks
        self.scope, self.keep, self.expect, self.shares = scope, keep, expect, TaskReservations(ground)
        self.fault: BaseException | None = None
        self._found: dict[str, Sequence[Trajectory]] = {}
        self._held: dict[str, AsyncExitStack] = {}
        self._running: set[asyncio.Task[Any]] = set()

    async def begun(self, examples: Mapping[str, Example]) -> AsyncIterator[Example]:
        """Examples in the order of the tasks, until a fault; `aevaluate` takes one when it has a place for it."""
        for name in self.tasks:
            if self.fault is None:
                yield examples[name]

    async def target(self, inputs: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
        """Put the example's question to the contestant, with its share of the budget held until it is graded."""
        task = self.tasks[metadata["task"]]
        at = self.scope.at(task=task.id)
        self._hold_on()
        told = make_task_config(self.workflow, at)
        held = self._held[task.id] = AsyncExitStack()
        try:
            async with self._watched(task):
                await held.enter_async_context(self.shares.of(at))
                with tracing_context(tags=told["tags"], metadata=told["metadata"]):
                    found = await run_rollout(self.play, self.workflow, task.question, at)
        except SelfwireError:
            return {}
        self._found[task.id] = found
        return _outcome(found[0], self.workflow, told)

    async def environment(self, run: Run, example: Example | None) -> EvaluationResults:
        """Have the environment grade what the target answered, and keep it."""
        name = _task_of(example)
        found, task, at = self._found.pop(name, None), self.tasks[name], self.scope.at(task=name)
        if found is None:
            return {"results": []}
        try:
            async with self._watched(task):
                done = await asyncio.gather(*(grade_trajectory(self.ground, task, one, at) for one in found))
                await self._released(task)
                await self.keep(task, done)
        except SelfwireError:
            return {"results": []}
        told = make_feedback(done[0])
        self.expect(len(told))
        return {"results": told}

    async def ended(self) -> None:
        """Cancel and await whatever still runs, so that nothing goes on after a Ctrl-C."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _hold_on(self) -> None:
        running = asyncio.current_task()
        if running is not None:
            self._running.add(running)
            running.add_done_callback(self._running.discard)

    async def _released(self, task: Task) -> None:
        if held := self._held.pop(task.id, None):
            await held.aclose()

    @asynccontextmanager
    async def _watched(self, task: Task) -> AsyncIterator[None]:
        """Keeps the first fault; the task's share ends with it."""
        try:
            yield
        except BaseException as error:
            self.fault = self.fault or error
            if run := get_current_run_tree():
                run.error = type(error).__name__
            await self._released(task)
            raise


def _outcome(done: Trajectory, workflow: Workflow, told: RunnableConfig) -> dict[str, Any]:
    """The run's outputs; its place is told as below it, and an error marks it as failed."""
    if run := get_current_run_tree():
        run.add_tags([*told["tags"], f"workflow:{workflow.fingerprint}"])
        run.add_metadata(told["metadata"])
        run.error = get_failure(done)
    noted = {name: bool(done.notes.get(name)) for name in (CAPPED, ORACLE)}
    return {"answer": done.answer, **noted, "usage": done.usage.model_dump(mode="json")}


def _task_of(example: Example | None) -> str:
    if example is None or example.metadata is None:
        raise ValueError("an experiment of selfwire runs on examples of its own datasets only")
    return str(example.metadata["task"])


def _skip_feedback(feedback: int) -> None:
    """Nothing is on its way."""


def _question(inputs: dict[str, Any]) -> dict[str, Any]:
    """What a trace shows as the target's input."""
    question: dict[str, Any] = inputs["inputs"]
    return question


@contextmanager
def _quietly() -> Iterator[None]:
    """What `aevaluate` says as it starts: a greeting, a progress bar that nobody can turn off, a note on its age.

    Progress is for whoever listens to `keep` to show.
    """
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        warnings.filterwarnings("ignore", "'upload_results' parameter is in beta", UserWarning)
        yield
