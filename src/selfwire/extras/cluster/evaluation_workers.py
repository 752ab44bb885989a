"""An evaluation on workers: tasks in slices, each with a journal below the run's folder, merged into the run's own.

The rows are the same however many workers there are and wherever they run, and a run can be resumed with others.
"""

import math
import os
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from selfwire.core.errors import JournalError, WorkerError
from selfwire.core.task import Task
from selfwire.core.usage import Budget, Usage
from selfwire.evals.benchmarks.benchmark import Benchmark
from selfwire.evals.table import SystemSummary
from selfwire.extras.cluster.executors import WorkerOptions, open_workers
from selfwire.extras.cluster.jobs import DEATHS, Ended, Event, Job, JobSettings, Report, run_jobs, try_again
from selfwire.extras.cluster.shards import OpenShards, SystemShard, cut_tasks, refuse_missing_shard
from selfwire.extras.cluster.shared_ledger import open_ledger, share_ledger
from selfwire.extras.cluster.worker_budgets import choose_budget_address
from selfwire.models.limits import ResourceAmount
from selfwire.models.sync import run_sync
from selfwire.runs.estimates import estimate_evolution_calls
from selfwire.runs.evaluation import (
    RESULTS,
    SLICE,
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
    note_status,
    raise_if_unanswered,
    to_stop_status,
)
from selfwire.runs.spec import EvaluateSpec, Slice
from selfwire.runs.systems import LoadedTeam, note_teams
from selfwire.store.journal import Journal

MANY = 4
"""Number of systems from which worker processes are faster."""
WORKERS = 2
"""Processes by default."""
PAUSE = 0.2
"""Seconds between two events of a job."""
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
            self.counts[entry.name] = SystemSummary(system.info)
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


def evolve_system(report: Report, run: str, name: str, budget: dict[str, Any], settings: dict[str, Any]) -> None:
    """Evolve a system of an evaluation.

    Args:
        budget: the limits of the evolution, its cost so far included.
        settings: as `JobSettings`.

    Raises:
        OutageError, ModelError: it stopped; what it has done is in its own journal.
    """
    shared = JobSettings(**settings)
    users = shared.folder
    folder = get_runs_folder(users) / run
    request = load_request(folder / JOURNAL, EvaluateSpec).alone(name)
    [evolution] = make_evolutions(request, folder, users)
    iterations = evolution.evolve_request.evolution.iterations
    report = report_seldom(report, lambda event: event["phase"] == "save")

    def tell(event: Event) -> None:
        report({**event, "target": name, "iterations": iterations})

    with closing(open_ledger(shared.budget_address)) as ledger:
        evolution.run(Budget.model_validate(budget), ledger, tell, retry_failed=shared.retry_failed)


def measure_slice(
    report: Report, job: str, name: str, path: str, dataset: list[Any] | None, settings: dict[str, Any]
) -> None:
    """Measure a system on the tasks of a shard, whose journal gets the rows.

    Args:
        dataset: an `UploadedDataset`, if the run reports to LangSmith.
        settings: as `JobSettings`.

    Raises:
        ConfigError: this worker does not reach LangSmith.
        OutageError, ModelError: it stopped; what it has done is in the journal.
    """
    report = report_seldom(report, lambda event: event["done"] == event["total"])

    def tell(event: Event) -> None:
        if event["target"] == name:
            report({"job": job, "target": name, "done": event["done"], "total": event["total"]})

    shared = JobSettings(**settings)
    home, retry_failed, budget_address = shared.folder, shared.retry_failed, shared.budget_address
    with open_shard(Path(path), home, retry_failed=retry_failed, budget_address=budget_address) as run:
        with _upload_if_requested(run, dataset):
            run_sync(run.measure(tell))


def _upload_if_requested(run: OpenEvaluation, dataset: list[Any] | None) -> AbstractContextManager[None]:
    if dataset is None:
        return nullcontext()
    from selfwire.runs.langsmith import upload_slice  # takes long to import

    return upload_slice(run, UploadedDataset(*dataset))


def report_seldom(report: Report, is_last: Callable[[Event], bool]) -> Report:
    """Wrap a report: it leaves out events that follow another one soon and are not the last."""
    latest = -math.inf

    def seldom(event: Event) -> None:
        nonlocal latest
        if is_last(event) or time.monotonic() - latest > PAUSE:
            latest = time.monotonic()
            report(event)

    return seldom


def create_shard(
    whole: EvaluationPlan, shard: SystemShard, team: LoadedTeam, tasks: Sequence[Task], *, with_rule: bool
) -> None:
    """Make the journal of a shard.

    Args:
        whole: the run.
        team: of the system.

    Raises:
        JournalError: it cannot be made.
    """
    plan = replace(
        whole,
        request=whole.request.alone(shard.name),
        workflows={shard.name: team},
        tasks=tuple(tasks),
        out=shard.own.with_name(RESULTS),
        part=Slice(whole=whole.request, tasks=tuple(task.id for task in tasks), with_rule=with_rule),
    )
    plan.create_journal(shard.own, shard.run).close()


@contextmanager
def open_shard(
    path: Path, home: Path | None, *, retry_failed: bool, budget_address: str | None = None
) -> Iterator[OpenEvaluation]:
    """A shard by its journal; tasks and scopes of calls are the run's.

    Args:
        budget_address: where the run's budget is shared; None if it has none.

    Raises:
        ConfigError: there is no such file.
        JournalError: it cannot be used.
    """
    refuse_missing_shard(path)
    with closing(Journal.open_read_only(path)) as journal:
        part = Slice.model_validate(run_sync(journal.get_note(SLICE)))
    whole, own = make_plan(part.whole, path, home, partial(_load_tasks, path.parent.parent)), set(part.tasks)
    plan = replace(
        whole,
        request=load_request(path, EvaluateSpec),
        tasks=tuple(task for task in whole.tasks if task.id in own),
        part=part,
        retry_failed=retry_failed,
        budget_address=budget_address,
    )
    with plan.resume(path, retry_failed=retry_failed) as run:
        yield run


@lru_cache(maxsize=1)
def _load_tasks(parts: Path, request: EvaluateSpec, known: ContaminatedTasks) -> tuple[Benchmark, tuple[Task, ...]]:
    """The benchmark and the tasks of a run, which a worker loads once for all its shards in a folder."""
    return load_request_tasks(request, known)
