"""An evaluation on workers: tasks in slices, each with a journal below the run's folder, merged into the run's own.

The rows are the same however many workers there are and wherever they run, and a run can be resumed with others.
"""

import os
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from selfwire.core.errors import JournalError, WorkerError
from selfwire.core.task import Task
from selfwire.core.usage import Budget, Usage
from selfwire.evals.table import SystemSummary
from selfwire.extras.cluster.executors import WorkerOptions, open_workers
from selfwire.extras.cluster.jobs import DEATHS, Ended, Job, JobSettings, run_jobs, try_again
from selfwire.extras.cluster.shards import OpenShards, SystemShard, cut_tasks
from selfwire.extras.cluster.shared_ledger import share_ledger
from selfwire.extras.cluster.slices import create_shard
from selfwire.extras.cluster.worker_budgets import choose_budget_address
from selfwire.extras.cluster.worker_jobs import evolve_system, measure_slice
from selfwire.models.limits import ResourceAmount
from selfwire.models.sync import run_sync
from selfwire.runs.estimates import estimate_evolution_calls
from selfwire.runs.evaluation import EvaluationPlan, Event, OpenEvaluation, load_plan
from selfwire.runs.pre_evolution import PreEvolution, compute_left
from selfwire.runs.record import get_runs_folder, note_status, raise_if_unanswered, to_stop_status
from selfwire.runs.spec import EvaluateSpec
from selfwire.runs.systems import note_teams

MANY = 4
"""Number of systems from which worker processes are faster."""
WORKERS = 2
"""Processes by default."""
SLICES = 6
"""Slices per worker, so that none waits long for the last one."""


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

    Args:
        on_event: gets the events of `run.execute`, and those of evolutions with the system as `target`.

    Raises:
        OutageError, ModelError: a system stopped; what all have done is kept, and the run can be resumed.
        WorkerError: workers have died at an evolution again and again.
    """
    address = choose_budget_address(run.request, get_runs_folder(home) / run.run, options)
    work = _EvaluationWork(run, home, load_plan(run.run, home), on_event, address)
    run_sync(note_status(run, "running"))
    try:
        with _share_budget(run, work.budget_address), open_workers(options) as executor:
            work.begin(executor.workers)
            for ended in run_jobs(work.waiting, executor, work.show, work.give_back):
                work.end(ended)
        run_sync(run.measure_rule())
    except BaseException as error:
        work.stop()
        run_sync(note_status(run, to_stop_status(error)))
        raise_if_unanswered(run, error)
        raise
    return run_sync(run.finish())


def _share_budget(run: OpenEvaluation, address: str | None) -> AbstractContextManager[object]:
    """Share what is left of a run's budget with its workers for as long as this is open."""
    if address is None:
        return nullcontext()
    return closing(share_ledger(address, run.request.budget, run.ledger.spent, elapsed=run.ledger.spent.seconds))


@dataclass
class _EvaluationWork:
    """The jobs of an evaluation, and what is known of them.

    Attributes:
        done: number of tasks that have a row, by system and by job at work.
        made: number of shards by system.
        evolving: what evolutions at work had cost before, by system.
    """

    run: OpenEvaluation
    home: Path | None
    plan: EvaluationPlan
    on_event: Callable[[Event], None]
    budget_address: str | None
    waiting: deque[Job] = field(default_factory=deque)
    shards: OpenShards = field(init=False)
    done: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    made: Counter[str] = field(default_factory=Counter)
    evolving: dict[str, Usage] = field(default_factory=dict)
    counts: dict[str, SystemSummary] = field(default_factory=dict)
    workers: int = 1

    def __post_init__(self) -> None:
        self.shards = OpenShards(self._settle)

    def begin(self, workers: int) -> None:
        """The first jobs: evolutions, those with most calls first, then slices of systems that do not evolve."""
        self.workers = workers
        run, left = self.run, [evolution for evolution in self.run.evolutions if not evolution.is_finished]
        for evolution in sorted(left, key=lambda evolution: -_estimate_calls(evolution, run)):
            self.waiting.append(self._make_evolution(evolution))
        for evolution in run.evolutions:
            if evolution not in left:
                run.workflows[evolution.entry.name] = evolution.result(run.run)
        evolving = {evolution.entry.name for evolution in left}
        for entry, system in zip(run.request.entries, run.systems[1:], strict=True):
            self.counts[entry.name] = SystemSummary(system.contestant)
            run_sync(self._count(entry.name, run.tasks, errors=False))
            if entry.name not in evolving:
                self._add_slices(entry.name)

    def end(self, ended: Ended) -> None:
        """Take what a job has done into the run."""
        name = ended.job.arguments["name"]
        if ended.job.name in self.shards:
            self._merge(ended.job)
            return
        evolution = next(candidate for candidate in self.run.evolutions if candidate.entry.name == name)
        self._settle(evolution.spent.subtract(self.evolving.pop(name)))
        self.run.workflows[name] = evolution.result(self.run.run)
        run_sync(note_teams(self.run.journal, self.run.workflows))
        self._add_slices(name)

    def stop(self) -> None:
        """Merge the work of jobs that did not end into the run."""
        self.shards.merge_all()
        for evolution in self.run.evolutions:
            with suppress(JournalError):  # whoever resumes counts it
                if (before := self.evolving.pop(evolution.entry.name, None)) is not None:
                    self._settle(evolution.spent.subtract(before))

    def give_back(self, job: Job) -> Sequence[Job]:
        """The tasks of a worker that has died, each by itself, but for one that has killed too many."""
        if job.name not in self.shards:
            return try_again(job)
        name = job.arguments["name"]
        left = [task for task in self._merge(job) if task.id not in self.counts[name].scores]
        if len(left) == 1 and job.deaths >= DEATHS:
            why = WorkerError(f"{job.deaths} workers in a row have died at this task, so it is not tried again")
            run_sync(self.run.note_error(name, left[0], why))
            run_sync(self._count(name, left, errors=True))
            return []
        return [self._make_slice(name, [task], deaths=job.deaths) for task in left]

    def show(self, event: Event) -> None:
        """Show an event of a job, with what is known of the whole system."""
        if "iterations" in event:
            self.on_event(event)
            return
        self.done[event["target"]][event["job"]] = event["done"]
        self._tell(event["target"])

    def _make_evolution(self, evolution: PreEvolution) -> Job:
        name, run = evolution.entry.name, self.run.run
        self.evolving[name] = before = evolution.spent  # also of workers that die at it, so it is counted here
        left = compute_left(self.run.request.budget, self.run.ledger.spent, before)
        given = {"run": run, "name": name, "budget": left, "settings": self._settings}
        return Job.of(f"the evolution of {name}", evolve_system, **given)

    @property
    def _settings(self) -> dict[str, Any]:
        """The settings that all jobs share."""
        return JobSettings.of(self.home, self.run.retry_failed, self.budget_address)._asdict()

    def _add_slices(self, name: str) -> None:
        """Jobs for all tasks of a system without a score; several per worker, so that all end together."""
        left = [task for task in self.run.tasks if task.id not in self.counts[name].scores]
        for tasks in cut_tasks(left, SLICES * self.workers / len(self.run.request.entries)):
            self.waiting.append(self._make_slice(name, tasks))

    def _make_slice(self, name: str, tasks: Sequence[Task], deaths: int = 0) -> Job:
        run, number = self.run, self.made[name]
        self.made[name] += 1
        shard, with_rule = SystemShard(run.run, name, number, self.home), name == run.request.entries[0].name
        create_shard(self.plan, shard, run.workflows[name], tasks, with_rule=with_rule)
        self.shards.add(shard, tasks)
        given = {"job": shard.job, "name": name, "path": shard.own.resolve(), "dataset": run.dataset}
        return replace(Job.of(shard.job, measure_slice, **given, settings=self._settings), deaths=deaths)

    def _settle(self, spent: Usage) -> None:
        self.run.ledger.settle(ResourceAmount(), spent)

    def _merge(self, job: Job) -> Sequence[Task]:
        name, tasks = job.arguments["name"], self.shards.merge(job.name)
        del self.done[name][job.name]
        run_sync(self._count(name, tasks, errors=True))
        self._tell(name)
        return tasks

    async def _count(self, name: str, tasks: Sequence[Task], *, errors: bool) -> None:
        """Count the rows that there are of some tasks; those that ended as errors only if asked to."""
        for row in await self.run.get_rows(name, tasks):
            if errors or row.score is not None:
                self.counts[name].add(row)

    def _tell(self, name: str) -> None:
        count, names = self.counts[name], [entry.name for entry in self.run.request.entries]
        done = count.tasks + self.done[name].total()
        self.on_event(
            {
                "target": name, "number": names.index(name) + 1, "targets": len(names),
                "done": min(done, len(self.run.tasks)), "total": len(self.run.tasks),
                "score": count.score, "errors": count.errors, "spend": self.run.ledger.spent,
            }
        )  # fmt: skip


def _estimate_calls(evolution: PreEvolution, run: OpenEvaluation) -> float:
    team = run.workflows[evolution.entry.name].workflow
    return sum(estimate_evolution_calls(evolution.evolve_request, team).values())
