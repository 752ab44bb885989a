"""The rollouts of an evolution or a training on workers: tasks in slices, each with a journal of its own.

The outer loop stays in one process, which merges the journals into the run's and goes on with the trajectories. A
worker gets the run's request and a team; scopes of calls are the run's, so results do not depend on workers.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from selfwire.core.scope import Scope
from selfwire.core.task import Splits, Task
from selfwire.core.team import Team
from selfwire.core.usage import Usage
from selfwire.evals.benchmarks.benchmark import Benchmark
from selfwire.extras.cluster.executors import open_workers
from selfwire.extras.cluster.jobs import Job, JobSettings, Report
from selfwire.extras.cluster.shards import Shard, ShardedTasks, refuse_missing_shard, roll_out_shard
from selfwire.extras.cluster.shared_ledger import open_ledger, share_ledger
from selfwire.extras.cluster.worker_budgets import choose_budget_address
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import Method
from selfwire.graphs.rollouts import Keep, RolloutContext, RolloutFn, RolloutRunner, stream_rollouts
from selfwire.models.budget import Ledger
from selfwire.models.limits import ResourceAmount
from selfwire.models.sync import run_sync
from selfwire.runs.evolution import EvolutionPlan, TaskPlace, load_seed, load_tasks
from selfwire.runs.inputs import LoadedModels, load_models
from selfwire.runs.record import get_runs_folder, load_request
from selfwire.runs.spec import EvolveSpec, Models, WorkerOptions
from selfwire.runs.systems import note_blobs
from selfwire.store.journal import Journal
from selfwire.store.library import Library


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
        """Hands tasks to workers, and merges what they have left at the end.

        Tasks of another system than the run's method are run here.
        """

        def settle(spent: Usage) -> None:
            if self.budget_address is None:  # else the workers have settled it
                ledger.settle(ResourceAmount(), spent)

        async def run(
            context: RolloutContext,
            rollout_fn: RolloutFn,
            team: Team,
            tasks: Sequence[Task],
            ctx: Ctx[Any],
            keep: Keep,
        ) -> None:
            explores = rollout_fn == method.ask_samples
            if len(tasks) < 2 or not (explores or rollout_fn == method.ask):
                await stream_rollouts(context, rollout_fn, team, tasks, ctx, keep)
                return
            part = _ShardPlan(**vars(replace(plan, seed=team)))
            phase = {"scope": ctx.scope, "explores": explores, "samples": context.samples}

            def make_job(number: int, some: Sequence[Task]) -> tuple[Shard, Job]:
                shard = Shard(journal.run, ctx.scope.phase, number, plan.home)
                part.create_journal(shard.own, shard.run).close()
                given = {"path": shard.own.resolve(), "command": plan.command, "tasks": [task.id for task in some]}
                return shard, Job.of(shard.job, roll_out, **given, phase=phase, settings=settings)

            await work.run(context, tasks, make_job, keep)

        settings = JobSettings(home=plan.home, retry_failed=self.retry_failed, budget_address=self.budget_address)
        work = ShardedTasks(journal, settle, keeps_done=True)
        try:
            with open_workers(self.options) as work.executor:
                yield run
        finally:
            work.merge_all()


class _Part(TaskPlace):
    """The place of a worker's tasks.

    Args:
        budget_address: where the run's budget is shared; None if it is not.
    """

    def __init__(self, budget_address: str | None) -> None:
        self.budget_address = budget_address

    async def load_seed(self, seed: Team, journal: Journal, library: Library) -> None:
        """Load nothing more: the function `load_seed` has loaded the team's bytes from the shard."""

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


def roll_out(
    report: Report, path: str, command: str, tasks: Sequence[str], phase: dict[str, Any], settings: dict[str, Any]
) -> None:
    """Run the tasks of a shard, whose journal gets calls and trajectories.

    Args:
        phase: scope of the phase, whether its tasks are run to learn from (explores), and runs of each (samples).
        settings: as `JobSettings`.

    Raises:
        BudgetError, OutageError, ModelError: it stopped; what it has done is in the journal.
    """
    shared = JobSettings.model_validate(settings)
    own, users = Path(path), shared.home
    refuse_missing_shard(own)
    folder, request = own.parent.parent, load_request(own, EvolveSpec, command)
    models, (benchmark, whole) = _load_models(folder, request.models, users), _load_tasks(folder, request)
    place, scope = _Part(shared.budget_address), Scope.model_validate(phase["scope"])
    seed = load_seed(own, request.method)
    plan = EvolutionPlan(request, users, models, (), benchmark, whole, seed, command=command, place=place)
    with plan.resume(own, retry_failed=shared.retry_failed) as run:
        splits, wanted = run.splits, {*tasks}
        own_tasks = [task for task in (*splits.train, *splits.gate, *splits.test) if task.id in wanted]
        rollout_fn = run.method.ask_samples if phase["explores"] else run.method.ask
        context = replace(run.rollout_context, samples=phase["samples"])
        ctx = run.ctx.where(scope)
        run_sync(roll_out_shard(stream_rollouts, context, rollout_fn, run.seed_team, own_tasks, ctx))
