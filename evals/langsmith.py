"""Data sets, experiments, feedback and the connection of LangSmith.

References are uploaded only if the user allows it; graders read them from the tasks, never from the dataset.

An experiment is a session of runs that name the examples of a dataset. `Experiment.roll_through` is
`rollouts.stream_rollouts` with each rollout traced as such a run, and with its grade sent as feedback. The results are
those of the local evaluation; LangSmith only receives them.
"""

import asyncio
import logging
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from json import JSONDecodeError
from traceback import walk_tb
from typing import Any
from urllib.parse import urljoin

from langsmith import Client, trace, tracing_context
from langsmith.evaluation import EvaluationResult
from langsmith.schemas import Dataset, Example, TracerSession
from langsmith.utils import LangSmithConflictError, LangSmithConnectionError, LangSmithError, LangSmithNotFoundError
from pydantic import Field, ValidationError

from selfwire.core.errors import ConfigError, format_first_fault
from selfwire.core.task import Question, Task
from selfwire.core.team import Team
from selfwire.core.text import mask_json, mask_secrets
from selfwire.core.trajectory import CUT, Trajectory
from selfwire.core.values import FrozenMap, FrozenModel, fingerprint, to_plain_json
from selfwire.evals.table import CAPPED, make_task_row
from selfwire.graphs.machine import Ctx
from selfwire.graphs.rollouts import Keep, RolloutContext, RolloutFn, get_fault, make_task_config, stream_rollouts
from selfwire.models.tracing import ENDPOINTS, KEYS, BoundedSession, is_set

LOGGER = logging.getLogger(__name__)
HOSTED = "https://api.smith.langchain.com"
PATIENCE = 60.0
"""Seconds to wait for uploads at the end."""
MORE_EXAMPLES = 1000
"""Examples of a data set that are read beyond those of its tasks; a server may list some without an end."""
WITHOUT = "leave --langsmith out"
"""The way to do without LangSmith where it is an option."""


def get_langsmith_address(without: str = f"{WITHOUT}: everything is measured here all the same") -> str:
    """Read the address of LangSmith from the environment.

    Args:
        without: the way to do without it; "" if there is none.

    Raises:
        ConfigError: the environment has neither a key nor an endpoint, or the endpoint is no address.
    """
    if not is_set(*KEYS, *ENDPOINTS):
        raise ConfigError(
            "no LangSmith is named: set LANGSMITH_API_KEY, or LANGSMITH_ENDPOINT for a server of your own"
            + (f"; without either, {without}" if without else "")
        )
    name, found = next(
        ((name, found) for name in ENDPOINTS if (found := os.environ.get(name, "").strip())), ("", HOSTED)
    )
    if not found.lower().startswith(("http://", "https://")):
        raise ConfigError(f"{name}={found!r} is no address: it must begin with http:// or https://")
    return found


@contextmanager
def open_uploads() -> Iterator[Client]:
    """Open a client of the LangSmith in the environment; at the end it waits for its uploads. Raises as the address."""
    get_langsmith_address()
    client = _make_client()
    try:
        yield client
        client.flush(PATIENCE)
    finally:
        client.close(timeout=PATIENCE)


@contextmanager
def open_client() -> Iterator[Client]:
    """Open a client for a command that cannot do without LangSmith.

    Raises:
        ConfigError: LangSmith is not named in the environment, or does not answer as it should.
    """
    get_langsmith_address(without="")
    with translate_errors(client := _make_client(auto_batch_tracing=False), without=""):
        yield client


def _make_client(**settings: Any) -> Client:
    """Make a client that masks secrets in its runs, and that a redirect does not lead to another host."""
    return Client(anonymizer=mask_json, session=BoundedSession(), **settings)


@contextmanager
def translate_errors(client: Client, without: str = WITHOUT) -> Iterator[None]:
    """Turn LangSmith's errors, and those of the way to it, into ConfigError; see `get_langsmith_address`."""
    way_out = f", or {without}" if without else ""
    try:
        yield
    except LangSmithConnectionError as error:
        reason = _describe_cut(error.__cause__ or error)
        raise ConfigError(
            f"LangSmith at {client.api_url} cannot be reached: {reason[:300]}; check LANGSMITH_ENDPOINT{way_out}"
        ) from None
    except LangSmithError as error:
        reason = _describe_redirect(error) or " ".join(str(error).split())[:300]
        raise ConfigError(
            f"LangSmith at {client.api_url} refused: {type(error).__name__}: {reason}; check LANGSMITH_API_KEY and "
            f"LANGSMITH_ENDPOINT{way_out}"
        ) from None
    except Exception as error:
        if not isinstance(error, ValidationError | JSONDecodeError) and not _is_of_client(error):
            raise
        raise ConfigError(
            f"{client.api_url} does not answer as LangSmith does: {describe_unreadable(error)}; check "
            f"LANGSMITH_ENDPOINT{way_out}"
        ) from None


def _describe_redirect(error: LangSmithError) -> str:
    """Describe a redirect that was not followed; "" if an error is of something else."""
    response = getattr(error.__cause__, "response", None)
    if response is None or not response.is_redirect:
        return ""
    target = urljoin(response.url, response.headers["location"])
    return (
        f"it redirects to {target[:300]!r}, which is not followed, as your key would go there; name it if it is yours"
    )


def _is_of_client(error: Exception) -> bool:
    """Whether LangSmith's client raised an error, which reads replies without checking their form."""
    frames = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)]
    return any(name.startswith("langsmith.") for name in frames)


def _describe_cut(error: BaseException) -> str:
    """Describe in one line why a connection failed, by the innermost error of those that it carries."""
    while carried := [part for part in (getattr(error, "reason", None), *error.args) if isinstance(part, Exception)]:
        error = carried[-1]
    return str(error).rpartition(": ")[2] or type(error).__name__


def describe_unreadable(error: Exception) -> str:
    """Describe in one line an error of LangSmith's client about a reply that it cannot read."""
    if isinstance(error, JSONDecodeError):
        return f"its reply is no JSON ({error})"
    return format_first_fault(error) if isinstance(error, ValidationError) else str(error)[:300]


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


def make_examples(tasks: TaskSet, dataset: uuid.UUID) -> dict[str, Example]:
    """Make the examples of a dataset by task id.

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
    most = MORE_EXAMPLES + len(tasks.tasks)
    uploaded = {example.id for example in islice(client.list_examples(dataset_id=dataset.id), most)}
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
    sent = {"inputs": example.inputs, "metadata": _metadata(task, tasks), **outputs}
    return {"id": example.id, "split": tasks.split, **mask_json(sent)}  # a client masks runs alone


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
        facts: metadata of the experiment, such as method, team, model, seed, split, code and budget.
    """

    client: Client
    name: str
    examples: Mapping[str, Example]
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
        with translate_errors(self.client):
            session = await asyncio.to_thread(self._open_session, len(tasks))
        runs, lost = dict[str, uuid.UUID](), list[ConfigError]()

        async def answer(team: Team, question: Question, here: Ctx[Any]) -> Sequence[Trajectory]:
            config = make_task_config(team, here.scope)
            with tracing_context(enabled=True, client=self.client, parent=False):
                async with trace(
                    team.method or "rule",
                    inputs={"question": question.input},
                    project_name=self.name,
                    reference_example_id=self.examples[question.id].id,
                    tags=config["tags"],
                    metadata=config["metadata"],
                    client=self.client,
                    exceptions_to_handle=(BaseException,),  # of which a trace has the name alone
                ) as run:
                    runs[question.id] = run.id
                    try:
                        done = await rollout_fn(team, question, here)
                        found = [done] if isinstance(done, Trajectory) else done
                        run.add_tags([f"workflow:{team.fingerprint}"])
                        run.end(outputs=_make_outputs(found[0]), error=get_failure(found[0]))
                    except BaseException as error:
                        run.end(error=type(error).__name__)
                        raise
                    return found

        async def keep_and_report(task: Task, found: Sequence[Trajectory]) -> None:
            await keep(task, found)
            await asyncio.shield(asyncio.get_running_loop().run_in_executor(sender, send, task, found[0]))

        def send(task: Task, done: Trajectory) -> None:
            for told in [] if lost else make_feedback(done):
                run = runs[task.id]
                with _note_loss(self.client, lost):
                    comment = told.comment and mask_secrets(told.comment)
                    self.client.create_feedback(
                        run, told.key, score=told.score, comment=comment, trace_id=run, session_id=session.id
                    )

        try:
            with ThreadPoolExecutor(1) as sender, tracing_context(enabled=False):  # a stop waits for what was kept
                await stream_rollouts(rollout_context, answer, team, tasks, ctx, keep_and_report)
        finally:
            with _note_loss(self.client, lost):
                await asyncio.to_thread(self._end_session, session)

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

    def _end_session(self, session: TracerSession) -> None:
        self.client.flush(PATIENCE)
        self.client.update_project(session.id, end_time=datetime.now(UTC))


@contextmanager
def _note_loss(client: Client, lost: list[ConfigError]) -> Iterator[None]:
    """Say once that LangSmith takes no more, or does not answer as it should, and go on."""
    try:
        with translate_errors(client):
            yield
    except ConfigError as error:
        if not lost:
            LOGGER.warning("LangSmith takes no more, and what is measured here goes on: %s", error)
        lost.append(error)


def _make_outputs(done: Trajectory) -> dict[str, Any]:
    notes = {name: bool(done.notes.get(name)) for name in (CAPPED, ORACLE)}
    return {"answer": done.answer, **notes, "usage": done.usage.model_dump(mode="json")}
