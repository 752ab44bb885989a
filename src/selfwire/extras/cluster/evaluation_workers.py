"""An evaluation on workers: evolutions as a whole, and tasks in slices, each with a journal below the run's folder.

Where models reply the same, rows are the same however many workers there are; only seconds differ. A run can be resumed
with other workers, or with none.
"""

import math
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from selfwire.core.errors import JournalError, WorkerError, format_error
from selfwire.core.task import Task
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Budget
from selfwire.evals.benchmarks.benchmark import Benchmark
from selfwire.evals.table import TRIVIAL, SystemSummary
from selfwire.extras.cluster import shards
from selfwire.extras.cluster.executors import open_workers
from selfwire.extras.cluster.jobs import Event, Executor, Job, JobSettings, Report, run_jobs
from selfwire.extras.cluster.shards import Shard, ShardedTasks, refuse_missing_shard, roll_out_shard
from selfwire.extras.cluster.shared_ledger import open_ledger, share_ledger
from selfwire.extras.cluster.worker_budgets import choose_budget_address
from selfwire.graphs.rollouts import RolloutRunner, stream_rollouts
from selfwire.models.limits import ResourceAmount
from selfwire.models.sync import run_sync
from selfwire.runs.estimates import estimate_evolution_calls
from selfwire.runs.evaluation import (
    EvaluationPlan,
    OpenEvaluation,
    UploadedDataset,
    load_plan,
    load_request_tasks,
    make_plan,
)
from selfwire.runs.pre_evolution import PreEvolution, compute_left, make_evolutions
from selfwire.runs.record import (
    JOURNAL,
    ContaminatedTasks,
    get_runs_folder,
    load_request,
)
from selfwire.runs.spec import EvaluateSpec, WorkerOptions
from selfwire.runs.systems import MeasuredSystem

MANY = 4
"""Number of systems from which worker processes are faster."""
WORKERS = 2
"""Processes by default."""
PAUSE = 0.2
"""Seconds between two events of a job."""


def choose_worker_count(request: EvaluateSpec, wanted: int | None) -> int:
    """Workers for an evaluation.

    Args:
        wanted: number that the user gave; None for as many as fit, and one under a budget, which is used up in order,
            or where a provider or LangSmith may limit the rate.
    """
    if wanted is not None:
        return wanted
    is_slow = request.budget != Budget() or not request.models.calls_no_server or request.langsmith != "off"
    return 1 if is_slow or len(request.entries) < MANY else min(WORKERS, os.cpu_count() or 1)


def run_on_workers(
    run: OpenEvaluation,
    home: Path | None,
    options: WorkerOptions,
    on_event: Callable[[Event], None] = lambda event: None,
) -> tuple[SystemSummary, ...]:
    """Evolve and measure the systems, as `run.evolve` and `run.execute` do in this process.

    Evolutions run at the same time, one on each worker; then the tasks of each system go to all workers.

    Args:
        on_event: gets the events of `run.execute`, and those of evolutions with the system as `target`.

    Raises:
        OutageError, ModelError: a system stopped; what all have done is kept, and the run can be resumed.
        WorkerError: workers have died at an evolution again and again.
    """
    address = choose_budget_address(run.request, get_runs_folder(home) / run.run, options)
    settings = JobSettings(home=home, retry_failed=run.retry_failed, budget_address=address)
    slices = 1 if len(run.request.entries) >= MANY else shards.SLICES
    tasks = ShardedTasks(run.journal, lambda spent: run.ledger.settle(ResourceAmount(), spent), slices)
    try:
        with _share_budget(run, address), open_workers(options) as tasks.executor:
            run.evolve(run_all=partial(_evolve, run, tasks.executor, settings, on_event))
            plan = load_plan(run.folder / JOURNAL, home)
            run.get_rollout_runner = lambda system: _make_runner(run, plan, system, tasks, settings)
            return run_sync(_measure(run, on_event))
    finally:
        tasks.merge_all()


async def _measure(run: OpenEvaluation, on_event: Callable[[Event], None]) -> tuple[SystemSummary, ...]:
    def tell(event: Event) -> None:
        if event["target"] != TRIVIAL:  # measured beside them
            on_event(event)

    await run.measure(tell)
    return await run.finish()


def _share_budget(run: OpenEvaluation, address: str | None) -> AbstractContextManager[object]:
    """Share what is left of a run's budget with its workers for as long as this is open."""
    if address is None:
        return nullcontext()
    return closing(share_ledger(address, run.request.budget, run.ledger.spent, elapsed=run.ledger.spent.seconds))


def _evolve(
    run: OpenEvaluation,
    executor: Executor,
    settings: JobSettings,
    on_event: Callable[[Event], None],
    left: Sequence[PreEvolution],
) -> None:
    """Run evolutions at the same time, those with most calls first."""
    named = {evolution.entry.name: evolution for evolution in left}
    before = {name: evolution.spent for name, evolution in named.items()}  # also of workers that die at it

    def settle(name: str) -> None:
        run.ledger.settle(ResourceAmount(), named[name].spent.subtract(before.pop(name)))

    def make_job(name: str) -> Job:
        budget = compute_left(run.request.budget, run.ledger.spent, before[name])
        given = {"run": run.run, "name": name, "budget": budget, "settings": settings}
        return Job.of(f"the evolution of {name}", evolve_system, **given)

    try:
        order = sorted(named, key=lambda name: -_estimate_calls(named[name], run))
        for ended in run_jobs(deque(map(make_job, order)), executor, on_event):
            settle(ended.job.arguments["name"])
    finally:
        for name in [*before]:
            with suppress(JournalError):  # whoever resumes counts it
                settle(name)


def _make_runner(
    run: OpenEvaluation, plan: EvaluationPlan, system: MeasuredSystem, tasks: ShardedTasks, settings: JobSettings
) -> RolloutRunner:
    """Make what puts tasks to a system: workers, or this process for the benchmark's own rule."""
    if system.name == TRIVIAL:
        return stream_rollouts
    team = run.workflows[system.name]

    def make_job(number: int, some: Sequence[Task]) -> tuple[Shard, Job]:
        shard = Shard(run.run, system.name, number, plan.home, run.get_scope(system.name).run)
        part = replace(plan, workflows={system.name: team}, tasks=tuple(some), is_part=True)
        part.create_journal(shard.own, shard.run).close()
        ids = [task.id for task in some]
        given = {"path": shard.own.resolve(), "name": system.name, "tasks": ids, "dataset": run.dataset}
        return shard, Job.of(shard.job, measure_slice, **given, settings=settings)

    def give_up(job: Job, task: Task) -> Trajectory:
        why = WorkerError(f"{job.deaths} workers in a row have died at this task, so it is not tried again")
        return Trajectory(question=task.question, workflow=system.info.workflow).as_failed(format_error(why))

    return lambda context, rollout_fn, team, some, ctx, keep: tasks.run(context, some, make_job, keep, give_up)


def _estimate_calls(evolution: PreEvolution, run: OpenEvaluation) -> float:
    team = run.workflows[evolution.entry.name].workflow
    return sum(estimate_evolution_calls(evolution.evolve_request, team).values())


def evolve_system(report: Report, run: str, name: str, budget: dict[str, Any], settings: dict[str, Any]) -> None:
    """Evolve a system of an evaluation.

    Args:
        budget: the limits of the evolution, its cost so far included.
        settings: as `JobSettings`.

    Raises:
        OutageError, ModelError: it stopped; what it has done is in its own journal.
    """
    shared = JobSettings.model_validate(settings)
    users = shared.home
    folder = get_runs_folder(users) / run
    evolutions = make_evolutions(load_request(folder / JOURNAL, EvaluateSpec), folder, users)
    evolution = next(evolution for evolution in evolutions if evolution.entry.name == name)
    iterations = evolution.evolve_request.evolution.iterations
    latest = -math.inf

    def tell(event: Event) -> None:
        nonlocal latest
        if event["phase"] == "save" or time.monotonic() - latest > PAUSE:
            latest = time.monotonic()
            report({**event, "target": name, "iterations": iterations})

    with closing(open_ledger(shared.budget_address)) as ledger:
        evolution.run(Budget.model_validate(budget), ledger, tell, retry_failed=shared.retry_failed)


def measure_slice(
    report: Report, path: str, name: str, tasks: Sequence[str], dataset: list[Any] | None, settings: dict[str, Any]
) -> None:
    """Measure a system on the tasks of a shard, whose journal gets calls, trajectories and rows.

    Args:
        dataset: an `UploadedDataset`, if the run reports to LangSmith.
        settings: as `JobSettings`.

    Raises:
        ConfigError: this worker does not reach LangSmith.
        OutageError, ModelError: it stopped; what it has done is in the journal.
    """
    shared, own, wanted = JobSettings.model_validate(settings), Path(path), {*tasks}
    refuse_missing_shard(own)
    whole = make_plan(load_request(own, EvaluateSpec), own, shared.home, partial(_load_tasks, own.parent.parent))
    plan = replace(
        whole,
        tasks=tuple(task for task in whole.tasks if task.id in wanted),
        is_part=True,
        retry_failed=shared.retry_failed,
        budget_address=shared.budget_address,
    )
    with plan.resume(own, retry_failed=shared.retry_failed) as run, _upload_if_requested(run, dataset):
        system = run.make_system(name)
        runner, ctx = run.get_rollout_runner(system), system.ctx.where(run.get_scope(name))

        async def save(task: Task, found: Sequence[Trajectory]) -> None:
            await run.save_row(name, task, found[0])

        run_sync(roll_out_shard(runner, run.rollout_context, system.rollout_fn, system.workflow, run.tasks, ctx, save))


def _upload_if_requested(run: OpenEvaluation, dataset: list[Any] | None) -> AbstractContextManager[None]:
    if dataset is None:
        return nullcontext()
    from selfwire.runs.langsmith import upload_slice  # takes long to import

    return upload_slice(run, UploadedDataset(*dataset))


@lru_cache(maxsize=1)
def _load_tasks(parts: Path, request: EvaluateSpec, known: ContaminatedTasks) -> tuple[Benchmark, tuple[Task, ...]]:
    """The benchmark and the tasks of a run, which a worker loads once for all its shards in a folder."""
    return load_request_tasks(request, known)
