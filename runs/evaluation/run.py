"""Runs an evaluation: every system on every task, each row kept in the journal as it comes."""

import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from selfwire.core.errors import SelfwireError, format_error
from selfwire.core.scope import Scope
from selfwire.core.task import Task
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.evals.baselines.single import CUT
from selfwire.evals.benchmarks.benchmark import Benchmark
from selfwire.evals.evaluation.rows import Header, ResultsFile, TaskRow, make_task_row
from selfwire.evals.evaluation.table import SystemSummary
from selfwire.evals.graders import GradedEnvironment
from selfwire.graphs.evolution.nodes import ELAPSED
from selfwire.graphs.rollout_context import RolloutContext
from selfwire.graphs.rollouts import JUDGE_NODE, RolloutRunner, freeze_gc, run_together, stream_rollouts
from selfwire.runs.evaluation.noted_workflows import note_workflows
from selfwire.runs.evaluation.pre_evolution import Evolution, compute_left
from selfwire.runs.evaluation.request import EvaluationRequest, SystemSpec
from selfwire.runs.evaluation.systems import LoadedWorkflow, System, describe_origin, make_trivial_system
from selfwire.runs.lifecycle import note_status, to_stop_status, track_status
from selfwire.runs.run_record import compute_code_hash, get_version
from selfwire.runtime.journal import Journal
from selfwire.runtime.journal_keys import hash_body
from selfwire.runtime.ledger import Ledger
from selfwire.runtime.sync import run_sync

ROWS = "rows"
"""Notes are called rows/<system>/<task>."""
PHASE = "eval"
DEFAULT_SHARE = 60
"""Calls that are set aside for a task under a budget of calls, where there is no cap."""
BESIDE = 4
"""Tasks of the trivial baseline that run at once, in addition to those of a system."""
READ_AT_ONCE = 100
"""Rows, so that not all are in memory."""
NOTED_EVERY = 5.0
"""Seconds between two notes of the time that was used up."""
TOLD_EVERY = 0.1
"""Seconds between two events of progress, as each adds up the spend; the last one comes at once."""

Event = dict[str, Any]
"""Progress: target, number, targets, done, total, score, errors, spend."""


class UploadedDataset(NamedTuple):
    """A run's tasks in LangSmith: the id of the dataset and their number."""

    id: str
    tasks: int


@dataclass
class Evaluation:
    """An evaluation that can be run now.

    Attributes:
        workflows: of the systems, by name; `evolve` replaces those that evolve.
        build_system: makes a system of its entry and workflow.
        evolutions: of systems that are evolved first.
        judge: pays for the calls of a model that grades; None if none does.
        notices: what the user should know.
        retry_failed: whether replies on record that were of no use are asked for again.
        measures_rule: whether the benchmark's own rule is measured too.
        get_rollout_runner: puts the tasks to a system; `runs.langsmith` sets one that reports to LangSmith.
        dataset: in LangSmith, to which workers report too; None if nothing is uploaded.
    """

    request: EvaluationRequest
    benchmark: Benchmark
    workflows: dict[str, LoadedWorkflow]
    build_system: Callable[[SystemSpec, LoadedWorkflow], System]
    evolutions: Sequence[Evolution]
    tasks: Sequence[Task]
    journal: Journal
    ledger: Ledger
    embedder: str
    out: Path
    judge: Ledger | None = None
    notices: tuple[str, ...] = ()
    retry_failed: bool = False
    measures_rule: bool = True
    get_rollout_runner: Callable[[System], RolloutRunner] = lambda one: stream_rollouts
    dataset: UploadedDataset | None = None
    _noted: float = field(default=-math.inf, init=False)

    @property
    def run(self) -> str:
        """Name of the run."""
        return self.journal.run

    @property
    def command(self) -> str:
        """The command that starts such runs."""
        return self.request.command

    @property
    def labels(self) -> dict[str, str]:
        """What is measured."""
        return {"method": ", ".join(self.request.targets)}

    @property
    def spent(self) -> Usage:
        """The cost so far, that of evolutions included."""
        return self.ledger.spent

    @property
    def origins(self) -> tuple[str, ...]:
        """What is measured, a line per contestant."""
        evolved = {one.entry.name for one in self.evolutions}
        return tuple(
            describe_origin(one, self.workflows[one.name], self.request.models.agent, evolves=one.name in evolved)
            for one in self.request.entries
        )

    @property
    def systems(self) -> list[System]:
        """The trivial baseline, then the contestants."""
        entries = self.request.entries
        return [
            make_trivial_system(self.benchmark.baseline),
            *(self.build_system(one, self.workflows[one.name]) for one in entries),
        ]

    @property
    def rollout_context(self) -> RolloutContext:
        """Where the systems are run and graded."""
        request, environment = self.request, self.benchmark.environment
        if isinstance(environment, GradedEnvironment):
            environment = environment.with_timeout(request.grading_timeout)
        return RolloutContext(
            environment=environment,
            journal=self.journal,
            ledger=self.ledger,
            concurrency=request.concurrency,
            calls_per_task=request.calls_per_task or DEFAULT_SHARE,
            keep_errors_below=1.0,
            capped=request.calls_per_task is not None,
            replays_grades=False,
            judge=self.judge,
        )

    def evolve(self, on_event: Callable[[Evolution, Event], None] = lambda evolution, event: None) -> None:
        """Evolve the systems that are evolved first, one after another; blocks.

        Raises:
            BudgetError, OutageError, ModelError: it stopped early and can be resumed.
        """
        for one in self.evolutions:
            run_sync(note_status(self, f"evolving {one.entry.name}"))
            try:
                if not one.is_finished:
                    left = compute_left(self.request.budget, self.ledger.spent, one.spent)
                    one.run(left, self.ledger, partial(on_event, one), retry_failed=self.retry_failed)
            except BaseException as error:
                run_sync(note_status(self, to_stop_status(error)))
                raise
            self.workflows[one.entry.name] = one.result(self.run)
        run_sync(note_workflows(self.journal, self.workflows))

    async def execute(self, on_event: Callable[[Event], None] = lambda event: None) -> tuple[SystemSummary, ...]:
        """Run tasks without a row or with an error; write the file of results; return the table's lines.

        Raises:
            BudgetError, OutageError: it stopped early and can be resumed; the rows so far are written.
        """
        with self.journal.on_this_loop():
            await self.measure(on_event)
            return await self.finish()

    async def measure(self, on_event: Callable[[Event], None] = lambda event: None) -> None:
        """Run tasks without a row or with an error; raises as `execute`."""
        async with track_status(self):
            await self._run_all(on_event)

    async def finish(self) -> tuple[SystemSummary, ...]:
        """Write the file of results, and note that the run is finished; return the table's lines."""
        lines = await self.write_results(complete=True)
        await note_status(self, "finished", score=lines[-1].score if len(lines) == 2 else None)
        return lines

    async def measure_rule(self) -> None:
        """Run the benchmark's own rule on tasks without a row."""
        await self._run(self.systems[0], 0, self._rule_context, lambda event: None)

    async def note_error(self, name: str, task: Task, error: SelfwireError) -> None:
        """Keep a row of a system's task that ended as an error elsewhere."""
        done = Trajectory(question=task.question, workflow=self.workflows[name].workflow.fingerprint)
        scope = Scope(run=f"{self.run}/{name}", seed=self.request.seed, phase=PHASE)
        await self._save_row(name, task, done.as_failed(format_error(error)), scope)

    async def write_results(self, *, complete: bool) -> tuple[SystemSummary, ...]:
        """Write the rows so far to the file of results; return the table's lines."""
        lines = tuple(SystemSummary(one.contestant) for one in self.systems)
        file, oracle = ResultsFile(self.out), False
        for line in lines:
            async for texts, rows in self._read([_note(line.contestant.name, task.id) for task in self.tasks]):
                file.add(texts)
                for row in rows:
                    line.add(row)
                    oracle = oracle or row.oracle
        file.finish(self._header(oracle, complete=complete))
        return lines

    async def rows(self) -> AsyncIterator[TaskRow]:
        """All rows that there are, system by system in the order of the tasks."""
        for one in self.systems:
            async for _, rows in self._read([_note(one.name, task.id) for task in self.tasks]):
                for row in rows:
                    yield row

    async def get_rows(self, name: str, tasks: Sequence[Task]) -> list[TaskRow]:
        """The rows that there are of a system on some tasks."""
        return [row async for _, rows in self._read([_note(name, task.id) for task in tasks]) for row in rows]

    async def _read(self, names: Sequence[str]) -> AsyncIterator[tuple[list[str], list[TaskRow]]]:
        """The rows that there are of those, some at a time, and the texts in which the journal holds them."""
        for start in range(0, len(names), READ_AT_ONCE):
            some = names[start : start + READ_AT_ONCE]
            found = await self.journal.get_notes(some)
            texts = [found[name] for name in some if name in found]
            yield texts, [TaskRow.model_validate_json(text) for text in texts]

    async def _run_all(self, on_event: Callable[[Event], None]) -> None:
        """The systems one after another, and the rule at the same time, which finishes even if they stop.

        It goes first where a model grades, whose calls may be refused, and where `concurrency` is 1, as there the
        grader may bear no more.
        """
        rule, *contestants = self.systems
        stopped: list[SelfwireError] = []

        async def one_after_another() -> None:
            try:
                for number, one in enumerate(contestants, 1):
                    await self._run(one, number, self.rollout_context, on_event)
            except SelfwireError as error:
                stopped.append(error)

        with freeze_gc():
            ruled = self._run(rule, 0, self._rule_context, on_event) if self.measures_rule else _do_nothing()
            if self.judge or self.request.concurrency == 1:
                await ruled
                await one_after_another()
            else:
                await run_together([one_after_another(), ruled])
        if stopped:
            raise stopped[0]

    @property
    def _rule_context(self) -> RolloutContext:
        """Where the benchmark's own rule is graded, whose calls no task pays for."""
        if self.judge:
            return replace(self.rollout_context, capped=True, calls_per_task=0)
        at_once = min(self.request.concurrency, BESIDE)
        return replace(self.rollout_context, ledger=Ledger(), capped=False, concurrency=at_once)

    async def _run(self, one: System, number: int, context: RolloutContext, on_event: Callable[[Event], None]) -> None:
        scope = Scope(run=f"{self.run}/{one.name}", seed=self.request.seed, phase=PHASE)
        targets, count = len(self.request.entries), SystemSummary(one.contestant)
        async for _, rows in self._read(await self.journal.note_names(_note(one.name))):
            for row in rows:
                if row.score is not None:
                    count.add(row)
        todo = [task for task in self.tasks if task.id not in count.scores]
        last, pending = -math.inf, False

        def tell() -> None:
            nonlocal last, pending
            last, pending = time.monotonic(), False
            on_event(
                {
                    "target": one.name, "number": number, "targets": targets, "done": count.tasks,
                    "total": len(self.tasks), "score": count.score, "errors": count.errors, "spend": self.ledger.spent,
                }
            )  # fmt: skip

        async def keep(task: Task, found: Sequence[Trajectory]) -> None:
            nonlocal pending
            count.add(await self._save_row(one.name, task, found[0], scope))
            pending, now = True, time.monotonic()
            await self._note_time(now)
            if count.tasks == len(self.tasks) or now - last >= TOLD_EVERY:
                tell()

        try:
            await self.get_rollout_runner(one)(context, one.rollout_fn, one.workflow, todo, scope, keep)
        finally:
            if pending:  # it was stopped
                tell()

    async def _save_row(self, name: str, task: Task, done: Trajectory, scope: Scope) -> TaskRow:
        spent = done.usage
        if done.feedback is None or done.notes.get(CUT):  # what failed has no steps and was paid for
            here: dict[str, str | int] = {"run": scope.run, "iteration": 0, "phase": PHASE, "task": task.id}
            judged = await self.journal.spend_at(**here, node=JUDGE_NODE)
            spent = (await self.journal.spend_at(**here)).subtract(judged)
        body = done.model_dump_json(exclude_defaults=True)
        row = make_task_row(name, task.question, done, spent, hash_body(body))
        await self.journal.keep(_note(name, task.id), row.model_dump_json(), row.trajectory, body)
        return row

    async def _note_time(self, now: float) -> None:
        if now - self._noted > NOTED_EVERY:
            self._noted = now
            await self.journal.put_note(ELAPSED, self.ledger.spent.seconds)  # for a budget after a kill

    def _header(self, oracle: bool, *, complete: bool) -> Header:
        request = self.request
        return Header(
            selfwire=get_version(),
            code=compute_code_hash(),
            run=self.run,
            benchmark=request.benchmark,
            grader=self.benchmark.environment.name,
            split=request.split,
            seed=request.seed,
            tasks=len(self.tasks),
            models=request.models.roles,
            embedder=self.embedder,
            calls_per_task=request.calls_per_task,
            contestants=tuple(one.contestant for one in self.systems),
            oracle=oracle,
            stand_in=request.models.is_offline,
            complete=complete,
        )


async def _do_nothing() -> None:
    pass


def _note(name: str, task: str = "") -> str:
    return f"{ROWS}/{name}/{task}"
