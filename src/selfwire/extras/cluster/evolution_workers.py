"""The rollouts of an evolution or a training on workers: tasks in slices, each with a journal of its own.

The outer loop stays in one process, which merges the journals into the run's and goes on with the trajectories. A
worker gets the run's request and a team; scopes of calls are the run's, so results do not depend on workers.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from selfwire.core.errors import SelfwireError, StoppedError
from selfwire.core.scope import Scope
from selfwire.core.task import Splits, Task
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.evals.benchmarks.benchmark import Benchmark
from selfwire.extras.cluster.executors import WorkerOptions, open_workers
from selfwire.extras.cluster.jobs import Ended, Event, Executor, Job, JobSettings, Report, run_jobs, try_again
from selfwire.extras.cluster.shards import OpenShards, Shard, cut_tasks, refuse_missing_shard
from selfwire.extras.cluster.shared_ledger import open_ledger, share_ledger
from selfwire.extras.cluster.worker_budgets import choose_budget_address
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import Method
from selfwire.graphs.rollouts import Keep, RolloutContext, RolloutFn, RolloutRunner, stream_rollouts
from selfwire.models.budget import Ledger, enforce_deadline
from selfwire.models.limits import ResourceAmount
from selfwire.models.sync import run_in_thread, run_sync
from selfwire.runs.evolution import HERE, EvolutionPlan, OpenEvolution, TaskPlace, load_seed, load_tasks
from selfwire.runs.open import LoadedModels, load_models
from selfwire.runs.record import get_runs_folder, load_request
from selfwire.runs.spec import EvolveSpec, Models
from selfwire.runs.systems import load_noted_blobs, note_blobs
from selfwire.store.journal import Journal
from selfwire.store.library import Library

T = TypeVar("T")
SLICES = 3
"""Slices per worker, so that none waits long for the last one."""


class Workers(TaskPlace):
    """The place of an evolution whose tasks go to workers.

    Args:
        retry_failed: whether workers ask again for replies on record that were of no use.
    """

    def __init__(self, options: WorkerOptions, *, retry_failed: bool = False) -> None:
        self.options, self.retry_failed = options, retry_failed
        self.budget_address: str | None = None

    def open_ledger(self, plan: EvolutionPlan, journal: Journal, elapsed: float) -> Ledger:
        """Open the ledger that this process shares with the workers, or one of its own without workers."""
        folder = get_runs_folder(plan.home) / journal.run
        self.budget_address = choose_budget_address(plan.request, folder, self.options)
        if self.budget_address is None:
            return super().open_ledger(plan, journal, elapsed)
        return share_ledger(self.budget_address, plan.request.budget, journal.spend(), elapsed=elapsed)

    @contextmanager
    def open_runner(
        self, plan: EvolutionPlan, method: Method[Any], journal: Journal, ledger: Ledger
    ) -> Iterator[RolloutRunner]:
        """Hands tasks to workers, and merges what they have left at the end."""
        work = _EvolutionWork(self, plan, method, journal, ledger)
        try:
            with open_workers(self.options) as work.executor:
                yield work.run
        finally:
            work.shards.merge_all()


def choose_place(options: WorkerOptions, *, retry_failed: bool = False) -> TaskPlace:
    """This process, or workers where there are several."""
    return HERE if options.is_local else Workers(options, retry_failed=retry_failed)


class _Part(TaskPlace):
    """The place of a worker's tasks.

    Args:
        budget_address: where the run's budget is shared; None if it is not.
    """

    def __init__(self, budget_address: str | None) -> None:
        self.budget_address = budget_address

    async def load_seed(self, seed: Team, journal: Journal, library: Library) -> None:
        """Load the bytes of the team, which the shard has."""
        await load_noted_blobs(journal, seed)

    def open_ledger(self, plan: EvolutionPlan, journal: Journal, elapsed: float) -> Ledger:
        """The one that the run shares."""
        return open_ledger(self.budget_address)


@lru_cache(maxsize=1)
def _load_tasks(folder: Path, request: EvolveSpec) -> tuple[Benchmark, Splits]:
    """The tasks of a run, which a worker loads once for all its shards in a folder."""
    return load_tasks(request)


@lru_cache(maxsize=1)
def _load_models(folder: Path, models: Models, home: Path | None) -> LoadedModels:
    return load_models(models, home)


@dataclass(frozen=True)
class _ShardPlan(EvolutionPlan):
    """The plan of a shard, which starts from the team that its tasks are put to."""

    async def note_start(self, journal: Journal) -> None:
        """Note the team with its bytes."""
        await self.note_seed(journal)
        await note_blobs(journal, self.seed)


class _Phase(NamedTuple):
    """Parts that the tasks of a phase have in common.

    Attributes:
        explores: whether they are run to learn from.
        samples: runs of each.
    """

    workflow: Team
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
        """Number of the executor's workers."""
        return self.executor.workers

    def start(self, job: Job) -> None:
        """Start a job in the executor."""
        self.executor.start(job)

    def wait(self) -> Sequence[Event | Ended]:
        """Wait for the executor; raises `_CancelledError` where the run has been cancelled."""
        if self.is_cancelled:
            raise _CancelledError
        return self.executor.wait()


@dataclass
class _EvolutionWork:
    """The jobs of a run."""

    place: Workers
    plan: EvolutionPlan
    method: Method[Any]
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
        team: Team,
        tasks: Sequence[Task],
        ctx: Ctx[Any],
        keep: Keep,
    ) -> None:
        """Run tasks as `stream_rollouts`; those of another system than the run's method are run here.

        Raises:
            StoppedError, WorkerError: as `stream_rollouts`, and where workers die again and again.
        """
        explores = rollout_fn == self.method.explore
        if len(tasks) < 2 or not (explores or rollout_fn == self.method.answer):
            await stream_rollouts(context, rollout_fn, team, tasks, ctx, keep)
            return
        phase = _Phase(team, ctx.at, explores, context.samples)
        waiting = deque(await run_in_thread(self._make_jobs, phase, tasks))
        executor = _UntilCancelled(self.executor)
        ended = run_jobs(waiting, executor, give_back=partial(self._give_back, phase))

        def wait() -> tuple[Sequence[Task], dict[str, Any]] | None:
            """The tasks of the next slice, and their trajectories; None after the last one."""
            job = next(ended, None)
            return None if job is None else (self.shards.merge(job.job.name), job.result)

        try:
            while found := await _wait_in_thread(wait, executor):
                for task in found[0]:
                    await keep(task, [Trajectory.model_validate(body) for body in found[1][task.id]])
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
        team, scope, explores, samples = phase
        settings = JobSettings.of(self.plan.home, self.place.retry_failed, self.place.budget_address)
        plan, ids, number = self.plan, [task.id for task in tasks], next(self.numbers)
        shard = Shard(self.journal.run, scope.phase, number, plan.home)
        part = _ShardPlan(
            plan.request,
            plan.home,
            plan.models,
            (),
            plan.benchmark,
            plan.tasks,
            team,
            command=plan.command,
            place=self.place,
        )
        part.create_journal(shard.own, shard.run).close()
        self.shards.add(shard, tasks)
        job = Job.of(
            shard.job,
            roll_out,
            path=shard.own.resolve(),
            command=plan.command,
            tasks=ids,
            phase={"scope": scope, "explores": explores, "samples": samples},
            settings=settings._asdict(),
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
    report: Report, path: str, command: str, tasks: Sequence[str], phase: dict[str, Any], settings: dict[str, Any]
) -> dict[str, list[Any]]:
    """Run the tasks of a shard, whose journal gets the calls; returns their trajectories by task.

    Args:
        phase: scope of the phase, whether its tasks are run to learn from (explores), and runs of each (samples).
        settings: as `JobSettings`.

    Raises:
        BudgetError, OutageError, ModelError: it stopped; what it has done is in the journal.
    """
    shared = JobSettings(**settings)
    own, users = Path(path), shared.folder
    refuse_missing_shard(own)
    folder, request = own.parent.parent, load_request(own, EvolveSpec, command)
    models, (benchmark, whole) = _load_models(folder, request.models, users), _load_tasks(folder, request)
    place, scope = _Part(shared.budget_address), Scope.model_validate(phase["scope"])
    plan = EvolutionPlan(request, users, models, (), benchmark, whole, load_seed(own), command=command, place=place)
    with plan.resume(own, retry_failed=shared.retry_failed) as run:
        explores, samples = phase["explores"], phase["samples"]
        return run_sync(_roll_out(run, scope, set(tasks), explores=explores, samples=samples))


async def _roll_out(
    run: OpenEvolution, scope: Scope, wanted: set[str], *, explores: bool, samples: int
) -> dict[str, list[Any]]:
    found = dict[str, list[Any]]()

    async def keep(task: Task, some: Sequence[Trajectory]) -> None:
        found[task.id] = [value.model_dump(mode="json") for value in some]

    splits = run.splits
    tasks = [task for task in (*splits.train, *splits.gate, *splits.test) if task.id in wanted]
    rollout_fn = run.method.explore if explores else run.method.answer
    rollout_context = replace(run.rollout_context, samples=samples)
    async with enforce_deadline(run.ledger):
        await stream_rollouts(rollout_context, rollout_fn, run.seed_team, tasks, run.ctx.where(scope), keep)
    return found
