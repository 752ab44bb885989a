"""The rollouts of an evolution or a training on workers: tasks in slices, each with a journal of its own.

The outer loop stays in one process, which merges the journals into the run's and goes on with the trajectories. A
worker gets the run's request and a workflow; scopes of calls are the run's, so results do not depend on workers.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from selfwire.core.errors import SelfwireError, StoppedError
from selfwire.core.protocols import Embedder
from selfwire.core.scope import Scope
from selfwire.core.task import Splits, Task
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.core.workflow import Workflow
from selfwire.evals.benchmarks.benchmark import Benchmark
from selfwire.graphs.method_protocol import Method
from selfwire.graphs.rollout_context import RolloutContext
from selfwire.graphs.rollouts import Keep, RolloutFn, RolloutRunner, SolverRollouts, TrainRollouts, stream_rollouts
from selfwire.runs.evolution import HERE, EvolutionPlan, EvolutionRun, Place, ValidatedEvolution
from selfwire.runs.folders import get_runs_folder
from selfwire.runs.models import load_models_embedder
from selfwire.runs.noted_blobs import load_noted_blobs, note_blobs
from selfwire.runs.requests import EvolveRequest, ModelNames
from selfwire.runs.run_record import load_request
from selfwire.runs.shards import OpenShards, Shard, cut_tasks, refuse_missing_shard
from selfwire.runs.worker_budgets import choose_budget_address
from selfwire.runs.workers import open_workers
from selfwire.runtime.amounts import ResourceAmount
from selfwire.runtime.executors import WorkerOptions
from selfwire.runtime.jobs import Ended, Event, Executor, Job, Report, run_jobs, try_again
from selfwire.runtime.journal import Journal
from selfwire.runtime.ledger import Ledger, enforce_deadline
from selfwire.runtime.shared_ledger import open_ledger, share_ledger
from selfwire.runtime.sync import run_sync
from selfwire.runtime.threads import run_in_thread
from selfwire.runtime.workflow_library import WorkflowLibrary

T = TypeVar("T")
SLICES = 3
"""Slices per worker, so that none waits long for the last one."""


class Workers(Place):
    """The place of an evolution whose tasks go to workers.

    Args:
        retry_failed: whether workers ask again for replies on record that were of no use.
    """

    def __init__(self, options: WorkerOptions, *, retry_failed: bool = False) -> None:
        self.options, self.retry_failed = options, retry_failed
        self.budget_address: str | None = None
        self._load = cache(super().load_tasks)

    def load_tasks(self, request: EvolveRequest) -> tuple[Benchmark, Splits]:
        """The benchmark and the tasks, which are loaded once."""
        return self._load(request)

    def open_ledger(self, plan: EvolutionPlan, journal: Journal, elapsed: float) -> Ledger:
        """What this process and the workers share, if there is anything to share."""
        folder = get_runs_folder(plan.home) / journal.run
        self.budget_address = choose_budget_address(plan.request, folder, self.options)
        if self.budget_address is None:
            return super().open_ledger(plan, journal, elapsed)
        return share_ledger(self.budget_address, plan.request.budget, journal.spend(), elapsed=elapsed)

    @contextmanager
    def open_runner(
        self, plan: EvolutionPlan, method: Method, journal: Journal, ledger: Ledger
    ) -> Iterator[RolloutRunner]:
        """Hands tasks to workers, and merges what they have left at the end."""
        work = _Work(self, plan, method, journal, ledger)
        try:
            with open_workers(self.options) as work.executor:
                yield work.run
        finally:
            work.shards.merge_all()


def choose_place(options: WorkerOptions, *, retry_failed: bool = False) -> Place:
    """This process, or workers where there are several."""
    return HERE if options.is_local else Workers(options, retry_failed=retry_failed)


class _Part(Place):
    """The place of a worker's tasks.

    Args:
        folder: of the run's parts, by which tasks are known that were loaded before.
        budget_address: where the run's budget is shared; None if it is not.
    """

    def __init__(self, folder: Path, budget_address: str | None) -> None:
        self.folder, self.budget_address = folder, budget_address

    def load_tasks(self, request: EvolveRequest) -> tuple[Benchmark, Splits]:
        """The run's, which a worker loads once."""
        return _load_tasks(self.folder, request)

    async def load_seed(self, seed: Workflow, journal: Journal, library: WorkflowLibrary) -> None:
        """Load the bytes of the workflow, which the shard has."""
        await load_noted_blobs(journal, seed)

    def open_ledger(self, plan: EvolutionPlan, journal: Journal, elapsed: float) -> Ledger:
        """The one that the run shares."""
        return open_ledger(self.budget_address)


@lru_cache(maxsize=1)
def _load_tasks(folder: Path, request: EvolveRequest) -> tuple[Benchmark, Splits]:
    return HERE.load_tasks(request)


@lru_cache(maxsize=1)
def _load_embedder(folder: Path, models: ModelNames) -> tuple[Embedder, tuple[str, ...]]:
    return load_models_embedder(models)


@dataclass(frozen=True)
class _ShardPlan(ValidatedEvolution):
    """The plan of a shard, which starts from the workflow that its tasks are put to."""

    async def note_start(self, journal: Journal) -> None:
        """Note the workflow with its bytes."""
        await super().note_start(journal)
        await note_blobs(journal, self.seed)


class _Phase(NamedTuple):
    """What the tasks of a phase have in common.

    Attributes:
        explores: whether they are run to learn from.
        samples: runs of each.
    """

    workflow: Workflow
    scope: Scope
    explores: bool
    samples: int


class _CancelledError(StoppedError):
    """The run was cancelled while workers were busy."""


@dataclass
class _UntilCancelled:
    """An executor that can be left while it waits."""

    executor: Executor
    is_cancelled: bool = False

    @property
    def workers(self) -> int:
        """As of the executor."""
        return self.executor.workers

    def start(self, job: Job) -> None:
        """As of the executor."""
        self.executor.start(job)

    def wait(self) -> Sequence[Event | Ended]:
        """As of the executor; raises `_CancelledError` where the run has been cancelled."""
        if self.is_cancelled:
            raise _CancelledError
        return self.executor.wait()


@dataclass
class _Work:
    """The jobs of a run."""

    place: Workers
    plan: EvolutionPlan
    method: Method
    journal: Journal
    ledger: Ledger
    executor: Executor = field(init=False)
    shards: OpenShards = field(init=False)
    numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.shards = OpenShards(self._settle, self.journal)

    async def run(
        self,
        context: RolloutContext,
        rollout_fn: RolloutFn,
        workflow: Workflow,
        tasks: Sequence[Task],
        scope: Scope,
        keep: Keep,
    ) -> None:
        """Run tasks as `stream_rollouts`; those of another solver than the run's method are run here.

        Raises:
            StoppedError, WorkerError: as `stream_rollouts`, and where workers die again and again.
        """
        explores = isinstance(rollout_fn, TrainRollouts) and rollout_fn.method is self.method
        solves = isinstance(rollout_fn, SolverRollouts) and rollout_fn.solver is self.method
        if len(tasks) < 2 or not (explores or solves):
            await stream_rollouts(context, rollout_fn, workflow, tasks, scope, keep)
            return
        phase = _Phase(workflow, scope, explores, context.samples)
        waiting = deque(await run_in_thread(self._make_jobs, phase, tasks))
        executor = _UntilCancelled(self.executor)
        ended = run_jobs(waiting, executor, give_back=partial(self._give_back, phase))

        def wait() -> tuple[Sequence[Task], dict[str, Any]] | None:
            """The tasks of the next slice, and their trajectories; None after the last one."""
            one = next(ended, None)
            return None if one is None else (self.shards.merge(one.job.name), one.result)

        try:
            while found := await _wait_in_thread(wait, executor):
                for task in found[0]:
                    await keep(task, [Trajectory.model_validate(one) for one in found[1][task.id]])
        except SelfwireError:  # all jobs have ended
            await run_in_thread(self.shards.merge_all)
            raise

    def _settle(self, spent: Usage) -> None:
        if self.place.budget_address is None:  # else the workers have settled it
            self.ledger.settle(ResourceAmount(), spent)

    def _make_jobs(self, phase: _Phase, tasks: Sequence[Task]) -> list[Job]:
        return [self._make_job(phase, some) for some in cut_tasks(tasks, SLICES * self.executor.workers)]

    def _give_back(self, phase: _Phase, job: Job) -> Sequence[Job]:
        """The tasks of a worker that has died, each by itself."""
        tasks = self.shards.merge(job.name)
        if len(tasks) == 1:
            try_again(job)  # refuses it after too many deaths
        return [self._make_job(phase, [task], job.deaths) for task in tasks]

    def _make_job(self, phase: _Phase, tasks: Sequence[Task], deaths: int = 0) -> Job:
        workflow, scope, explores, samples = phase
        plan, ids, number = self.plan, [task.id for task in tasks], next(self.numbers)
        shard = Shard(self.journal.run, scope.phase, number, plan.home)
        part = _ShardPlan(
            plan.request, plan.home, plan.embedder, (), self.method, workflow, command=plan.command, place=self.place
        )
        part.create_journal(shard.own, shard.run).close()
        self.shards.add(shard, tasks)
        job = Job.of(
            shard.job,
            roll_out,
            home=plan.home,
            path=shard.own.resolve(),
            command=plan.command,
            scope=scope,
            tasks=ids,
            explores=explores,
            samples=samples,
            retry_failed=self.place.retry_failed,
            budget_address=self.place.budget_address,
        )
        return replace(job, deaths=deaths)


async def _wait_in_thread(wait: Callable[[], T], executor: _UntilCancelled) -> T:
    """Call a function in a thread that can be cancelled while it waits for the executor."""
    step = asyncio.ensure_future(run_in_thread(wait))
    try:
        return await asyncio.shield(step)
    except asyncio.CancelledError:
        executor.is_cancelled = True
        with suppress(Exception):
            await step
        raise


def roll_out(
    report: Report,
    home: str | None,
    path: str,
    command: str,
    scope: dict[str, Any],
    tasks: Sequence[str],
    explores: bool,
    samples: int,
    retry_failed: bool,
    budget_address: str | None,
) -> dict[str, list[Any]]:
    """Run the tasks of a shard, whose journal gets the calls; returns their trajectories by task.

    Raises:
        BudgetError, OutageError, ModelError: it stopped; what it has done is in the journal.
    """
    own, users = Path(path), None if home is None else Path(home)
    refuse_missing_shard(own)
    folder, request = own.parent.parent, load_request(own, EvolveRequest, command)
    embedder, notices = _load_embedder(folder, request.models)
    plan = EvolutionPlan(request, users, embedder, notices, command=command, place=_Part(folder, budget_address))
    with plan.resume(own, retry_failed=retry_failed) as run:
        return run_sync(_roll_out(run, Scope.model_validate(scope), set(tasks), explores=explores, samples=samples))


async def _roll_out(
    run: EvolutionRun, scope: Scope, wanted: set[str], *, explores: bool, samples: int
) -> dict[str, list[Any]]:
    context, found = run.context, dict[str, list[Any]]()

    async def keep(task: Task, some: Sequence[Trajectory]) -> None:
        found[task.id] = [one.model_dump(mode="json") for one in some]

    splits = context.splits
    tasks = [task for task in (*splits.train, *splits.gate, *splits.test) if task.id in wanted]
    rollout_fn = TrainRollouts(context.method) if explores else SolverRollouts(context.method)
    rollout_context = replace(context.rollout_context, samples=samples)
    async with enforce_deadline(run.ledger):
        await stream_rollouts(rollout_context, rollout_fn, context.seed_workflow, tasks, scope, keep)
    return found
