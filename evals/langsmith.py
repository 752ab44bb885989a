"""Data sets, experiments, feedback and the connection of LangSmith.

References are uploaded only if the user allows it; graders read them from the tasks, never from the dataset.

`Experiment.roll_through` replaces `rollouts.stream_rollouts`: rollouts, grading, reserved budget and journal are the
same, but `aevaluate` drives them. The results are those of the local evaluation; LangSmith only receives them.
"""

import asyncio
import io
import logging
import os
import threading
import uuid
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from typing import Any

from langchain_core.runnables import RunnableConfig
from langsmith import Client, aevaluate, get_current_run_tree, traceable, tracing_context
from langsmith.evaluation import EvaluationResult, EvaluationResults
from langsmith.schemas import Dataset, Example, Run, TracerSession
from langsmith.utils import LangSmithConflictError, LangSmithError, LangSmithNotFoundError
from pydantic import Field

from selfwire.core.errors import ConfigError, SelfwireError
from selfwire.core.task import Task
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import FrozenMap, FrozenModel, fingerprint, to_plain_json
from selfwire.evals.baselines import CUT
from selfwire.evals.table import CAPPED, make_task_row
from selfwire.evolvers.trajectory_text import gather_all
from selfwire.graphs.machine import Ctx
from selfwire.graphs.rollouts import (
    GraderCheck,
    Keep,
    RolloutContext,
    RolloutFn,
    TaskReservations,
    get_fault,
    grade_trajectory,
    make_task_config,
    run_rollout,
)
from selfwire.models.tracing import ENDPOINTS, KEYS, is_set

LOGGER = logging.getLogger(__name__)
NOWHERE = "http://127.0.0.1:9"
"""The discard port of this machine, in case the local client ever sends a request."""
HOSTED = "https://api.smith.langchain.com"
PATIENCE = 60.0
"""Seconds to wait for feedback at the end."""


class Uploads(Client):
    """A client that waits for its uploads and survives a lost connection.

    `aevaluate` sends feedback from threads without waiting, and fails if the end of an experiment cannot be reported.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._pending, self._change, self._lost = 0, threading.Condition(), False

    def expect(self, feedback: int) -> None:
        """Count feedback that `aevaluate` is going to send."""
        with self._change:
            self._pending += feedback

    def create_feedback(self, *args: Any, **options: Any) -> Any:
        """Call the client's method; do nothing after the connection was lost."""
        try:
            return self._send(super().create_feedback, *args, **options)
        finally:
            with self._change:
                self._pending -= 1
                self._change.notify_all()

    def update_project(self, *args: Any, **options: Any) -> Any:
        """Call the client's method; do nothing after the connection was lost."""
        return self._send(super().update_project, *args, **options)

    def wait_for_uploads(self) -> None:
        """Wait until all feedback and runs are sent, at most `PATIENCE` seconds each. Blocks."""
        with self._change:
            self._change.wait_for(lambda: self._pending <= 0, PATIENCE)
        self.flush(PATIENCE)

    def _send(self, send: Callable[..., Any], *args: Any, **options: Any) -> Any:
        if self._lost:
            return None
        try:
            return send(*args, **options)
        except LangSmithError as error:
            with self._change:
                first, self._lost = not self._lost, True
            if first:
                LOGGER.warning("LangSmith at %s takes no more: %s; what is measured here goes on", self.api_url, error)
            return None


WITHOUT = "leave --langsmith out"
"""The way to do without LangSmith where it is an option."""


def get_langsmith_address(without: str = f"{WITHOUT}: everything is measured here all the same") -> str:
    """Read the address of LangSmith from the environment.

    Args:
        without: the way to do without it; "" if there is none.

    Raises:
        ConfigError: the environment has neither a key nor an endpoint.
    """
    if not is_set(*KEYS, *ENDPOINTS):
        raise ConfigError(
            "no LangSmith is named: set LANGSMITH_API_KEY, or LANGSMITH_ENDPOINT for a server of your own"
            + (f"; without either, {without}" if without else "")
        )
    return next((found for name in ENDPOINTS if (found := os.environ.get(name, "").strip())), HOSTED)


@contextmanager
def open_uploads() -> Iterator[Uploads]:
    """Open a client of the LangSmith in the environment; at the end it waits for its uploads. Raises as the address."""
    get_langsmith_address()
    client = Uploads()
    try:
        yield client
        client.wait_for_uploads()
    finally:
        client.close(timeout=PATIENCE)


@contextmanager
def open_local_client() -> Iterator[Uploads]:
    """Open a client that sends nothing: it samples no run, and its user must upload no results."""
    info = {"instance_flags": {"zstd_compression_enabled": True}}  # otherwise it would ask the server
    client = Uploads(api_url=NOWHERE, api_key="none", tracing_sampling_rate=0.0, info=info)
    try:
        yield client
    finally:
        client.close(timeout=0)


@contextmanager
def open_client() -> Iterator[Client]:
    """Open a client for a command that cannot do without LangSmith.

    Raises:
        ConfigError: LangSmith is not named in the environment, or does not answer as it should.
    """
    get_langsmith_address(without="")
    with translate_errors(client := Client(auto_batch_tracing=False), without=""):
        yield client


@contextmanager
def translate_errors(client: Client, without: str = WITHOUT) -> Iterator[None]:
    """Turn LangSmith's errors, and those of the way to it, into ConfigError; see `get_langsmith_address`."""
    try:
        yield
    except LangSmithError as error:
        reason = " ".join(str(error).split())[:300]
        raise ConfigError(
            f"LangSmith at {client.api_url} refused: {type(error).__name__}: {reason}; check LANGSMITH_API_KEY and "
            "LANGSMITH_ENDPOINT" + (f", or {without}" if without else "")
        ) from None


HERE = uuid.UUID(int=0)
"""Id of the dataset of examples that are not uploaded."""


class TaskSet(FrozenModel):
    """Tasks of one split; `references` says whether references may be uploaded as the examples' outputs."""

    benchmark: str
    split: str
    seed: int
    tasks: tuple[Task, ...] = Field(min_length=1)
    references: bool = False

    @property
    def content(self) -> str:
        """Fingerprint of the upload; equal tasks make one dataset, however they were chosen."""
        fields = {"id", "input", "kind", *(("reference",) if self.references else ())}
        return fingerprint([task.model_dump(mode="json", include=fields) for task in self.tasks])

    @property
    def name(self) -> str:
        """Name of the dataset: benchmark, split, number of tasks, and the beginning of the content's fingerprint."""
        labels = "-labelled" if self.references else ""
        return f"selfwire-{self.benchmark}-{self.split}-{len(self.tasks)}{labels}-{self.content[:8]}"


def make_examples(tasks: TaskSet, dataset: uuid.UUID = HERE) -> dict[str, Example]:
    """Make the examples of a dataset by task id; without a dataset they are not uploaded.

    They have no outputs, even if the dataset has: no run needs references.
    """
    return {
        task.id: Example(
            id=uuid.uuid5(dataset, task.id),  # so that an interrupted upload can be completed
            dataset_id=dataset,
            inputs={"question": task.input},
            metadata={**_metadata(task, tasks), "dataset_split": [tasks.split]},  # as LangSmith adds it
        )
        for task in tasks.tasks
    }


def upload_examples(client: Client, tasks: TaskSet) -> dict[str, Example]:
    """Create or complete the dataset, and return its examples by task id. Blocks; raises LangSmithError."""
    dataset = _open_dataset(client, tasks)
    examples = make_examples(tasks, dataset.id)
    uploaded = {example.id for example in client.list_examples(dataset_id=dataset.id)}
    missing = [task for task in tasks.tasks if examples[task.id].id not in uploaded]
    if missing:
        created = [_format_example(task, examples[task.id], tasks) for task in missing]
        client.create_examples(dataset_id=dataset.id, examples=created)
    return examples


def _open_dataset(client: Client, tasks: TaskSet) -> Dataset:
    try:
        found: Dataset = client.read_dataset(dataset_name=tasks.name)
        return found
    except LangSmithNotFoundError:
        described = f"{len(tasks.tasks)} tasks of {tasks.benchmark}, {tasks.split} split"
        facts = tasks.model_dump(exclude={"tasks"}) | {"content": tasks.content}
        return client.create_dataset(tasks.name, description=described, metadata=facts)


def _format_example(task: Task, example: Example, tasks: TaskSet) -> dict[str, Any]:
    outputs = {"reference_outputs": {"reference": to_plain_json(task.reference)}} if tasks.references else {}
    return {
        "id": example.id,
        "inputs": example.inputs,
        "metadata": _metadata(task, tasks),
        "split": tasks.split,
        **outputs,
    }


def _metadata(task: Task, tasks: TaskSet) -> dict[str, Any]:
    return {"task": task.id, "kind": task.kind, "split": tasks.split, "seed": tasks.seed}


SCORE, SOLVED, ERROR = "score", "solved", "error"
"""Keys of feedback; `error` is 1 for a task that ended as an error, which has no `score`."""


def make_feedback(done: Trajectory) -> list[EvaluationResult]:
    """Make feedback on a graded trajectory, with the scores of the local rows; a failed task has no score."""
    row, error, feedback = make_task_row("", done.question, done, done.usage, ""), get_failure(done), done.feedback
    failed = EvaluationResult(key=ERROR, score=float(error is not None), comment=error)
    if row.score is None:
        return [failed]
    comment = feedback.text if feedback else "Its calls were used up before it had an answer."
    is_complete = feedback is not None and not done.notes.get(CUT)  # after a cut, some calls are not counted
    costs = {"calls": row.calls, "tokens": row.input_tokens + row.output_tokens} if is_complete else {}
    figures = {**costs, **_select_figures(row.details)}
    return [
        EvaluationResult(key=SCORE, score=row.score, comment=comment),
        EvaluationResult(key=SOLVED, score=float(bool(row.solved))),
        failed,
        *(EvaluationResult(key=name, score=figure) for name, figure in figures.items()),
    ]


def get_failure(done: Trajectory) -> str | None:
    """Explain why a task ended as an error, in words that may be uploaded; None if its cap of calls ended it."""
    return get_fault(done) if make_task_row("", done.question, done, done.usage, "").error else None


def _select_figures(details: Mapping[str, Any]) -> dict[str, float]:
    taken = (SCORE, SOLVED, ERROR)
    return {n: float(v) for n, v in details.items() if isinstance(v, int | float) and n not in taken}


ORACLE = "oracle"
"""Name of the trajectory's note that labels of its task were used to answer it."""


@dataclass(frozen=True)
class Experiment:
    """A system on a dataset.

    Attributes:
        name: of the experiment; a resumed run continues the one of its name.
        examples: by task id.
        upload: whether anything is sent.
        facts: metadata of the experiment, such as method, team, model, seed, split, code and budget.
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
        team: Team,
        tasks: Sequence[Task],
        ctx: Ctx[Any],
        keep: Keep,
    ) -> None:
        """Run and grade tasks as `rollouts.stream_rollouts`, and report to LangSmith.

        Raises:
            BudgetError, OutageError: a budget is exhausted or a provider is down; the journal has the calls so far.
            UngradedError: the grader fails on all answers.
            ConfigError: LangSmith refused or could not be reached.
        """
        if not tasks:
            return
        expect = self.client.expect if self.upload else lambda _: None
        handlers = _ExperimentHandlers(
            rollout_context, rollout_fn, team, {task.id: task for task in tasks}, ctx, keep, expect
        )
        with translate_errors(self.client):
            experiment = await asyncio.to_thread(self._open_session, len(tasks)) if self.upload else None
            try:
                await self._evaluate(handlers, experiment, rollout_context.concurrency)
            finally:
                await handlers.stop()
            await asyncio.to_thread(self.client.wait_for_uploads)
        if fault := handlers.fault or handlers.grader.fault:
            raise fault

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
        team: Team,
        tasks: Mapping[str, Task],
        ctx: Ctx[Any],
        keep: Keep,
        expect: Callable[[int], None],
    ) -> None:
        self.rollout_context, self.rollout_fn, self.workflow, self.tasks = rollout_context, rollout_fn, team, tasks
        self.ctx, self.keep, self.expect, self.shares = ctx, keep, expect, TaskReservations(rollout_context)
        self.fault: BaseException | None = None
        self.grader = GraderCheck(rollout_context.ungraded)
        self._found: dict[str, Sequence[Trajectory]] = {}
        self._reservations: dict[str, AsyncExitStack] = {}
        self._running: set[asyncio.Task[Any]] = set()

    async def stream_examples(self, examples: Mapping[str, Example]) -> AsyncIterator[Example]:
        """Examples in the order of the tasks, until a fault; `aevaluate` takes the next one when a slot is free."""
        for name in self.tasks:
            if self.fault is None and self.grader.fault is None:
                yield examples[name]

    async def target(self, inputs: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
        """Run the system on the example's question; its budget stays reserved until it is graded."""
        task = self.tasks[metadata["task"]]
        here = self.ctx.where(task=task.id)
        if running := asyncio.current_task():
            self._running.add(running)
            running.add_done_callback(self._running.discard)
        config = make_task_config(self.workflow, here.at)
        reservation = self._reservations[task.id] = AsyncExitStack()
        try:
            async with self._record_fault(task):
                await reservation.enter_async_context(self.shares.reserve(here.at))
                with tracing_context(tags=config["tags"], metadata=config["metadata"]):
                    found = await run_rollout(self.rollout_fn, self.workflow, task.question, here)
        except SelfwireError:
            return {}
        self._found[task.id] = found
        return _make_outputs(found[0], self.workflow, config)

    async def environment(self, run: Run, example: Example | None) -> EvaluationResults:
        """Grade the target's answer in the environment, and keep the result."""
        if example is None or example.metadata is None:
            raise ValueError("there is no example")  # pragma: no cover - `aevaluate` gives each run one of ours
        name = str(example.metadata["task"])
        found, task, at = self._found.pop(name, None), self.tasks[name], self.ctx.at.at(task=name)
        if found is None:
            return {"results": []}
        try:
            async with self._record_fault(task):
                context = self.rollout_context
                done = await gather_all(grade_trajectory(context, task, trajectory, at) for trajectory in found)
                await self._release(task)
                await self.keep(task, done)
                self.grader.add(done)
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


def _make_outputs(done: Trajectory, team: Team, config: RunnableConfig) -> dict[str, Any]:
    if run := get_current_run_tree():
        run.add_tags([*config["tags"], f"workflow:{team.fingerprint}"])
        run.add_metadata(config["metadata"])
        run.error = get_failure(done)
    notes = {name: bool(done.notes.get(name)) for name in (CAPPED, ORACLE)}
    return {"answer": done.answer, **notes, "usage": done.usage.model_dump(mode="json")}


@contextmanager
def _silence() -> Iterator[None]:
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        warnings.filterwarnings("ignore", "'upload_results' parameter is in beta", UserWarning)
        yield
