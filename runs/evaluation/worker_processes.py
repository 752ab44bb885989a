"""Systems in worker processes: each has a journal below the run's folder, which is merged into the run's own.

The rows are the same however many processes there are, and a run can be resumed with another number of them.
"""

import math
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field
from multiprocessing.queues import SimpleQueue
from pathlib import Path

from selfwire.core.budget import Budget
from selfwire.core.errors import ConfigError
from selfwire.core.usage import Usage
from selfwire.evals.evaluation.table import SystemSummary
from selfwire.runs.estimates import estimate_evolution_calls
from selfwire.runs.evaluation.lifecycle import get_start_notes, open_shard
from selfwire.runs.evaluation.pre_evolution import Evolution
from selfwire.runs.evaluation.request import EvaluationRequest
from selfwire.runs.evaluation.run import Evaluation, Event, note_workflows
from selfwire.runs.evaluation.shards import Shard
from selfwire.runs.folders import get_runs_folder
from selfwire.runs.lifecycle import note_status, to_stop_status
from selfwire.runtime.amounts import ResourceAmount
from selfwire.runtime.child_processes import open_process_pool
from selfwire.runtime.shared_ledger import make_budget_address, share_ledger
from selfwire.runtime.sync import run_sync

MANY = 4
"""Number of systems from which worker processes are faster."""
WORKERS = 2
"""Processes by default."""
PAUSE = 0.2
"""Seconds between two events of a system, and between two checks for events."""

EventQueue = SimpleQueue[Event]


def choose_worker_count(request: EvaluationRequest, wanted: int | None) -> int:
    """Processes for an evaluation; one where there is a provider's rate, which one process must count.

    Args:
        wanted: number that the user gave; None for as many as fit, and one under a budget, which is used up in order.

    Raises:
        ConfigError: more than one cannot be had.
    """
    bound = [
        *(["a provider's rate"] if not request.models.calls_no_server else []),
        *(["LangSmith"] if request.langsmith != "off" else []),
    ]
    if wanted is None:
        return (
            1
            if bound or request.budget != Budget() or len(request.entries) < MANY
            else min(WORKERS, os.cpu_count() or 1)
        )
    if wanted > 1 and bound:
        raise ConfigError(f"{bound[0]} is looked after in one process; leave out --workers, or give 1")
    return wanted


def run_in_processes(
    run: Evaluation, home: Path | None, workers: int, on_event: Callable[[Event], None] = lambda event: None
) -> tuple[SystemSummary, ...]:
    """Evolve and measure several systems at a time, as `run.evolve` and `run.execute` do one after another.

    Args:
        on_event: gets the events of `run.execute`, and those of evolutions with the system as `target`.

    Raises:
        OutageError, ModelError: a system stopped; what all have done is kept, and the run can be resumed.
    """
    address = None if run.request.budget == Budget() else make_budget_address(get_runs_folder(home) / run.run)
    todo = [Shard(run.run, name, home, run.retry_failed, address) for name in run_sync(_unfinished(run))]
    run_sync(note_status(run, "running"))
    try:
        with _share_budget(run, address), closing(_run_shards(todo, workers, on_event)) as worked:
            for shard, spent in worked:
                run.workflows.update(get_start_notes(shard.own)[0])
                shard.merge_into_run()
                run.ledger.settle(ResourceAmount(), spent)
    except BaseException as error:
        for shard in todo:
            shard.merge_into_run()
        run_sync(note_status(run, to_stop_status(error)))
        raise
    run_sync(note_workflows(run.journal, run.workflows))
    lines = run_sync(run.write_results(complete=True))
    run_sync(note_status(run, "finished"))
    return lines


def _share_budget(run: Evaluation, address: str | None) -> AbstractContextManager[object]:
    """Share what is left of a run's budget with its processes for as long as this is open."""
    if address is None:
        return nullcontext()
    return closing(share_ledger(address, run.request.budget, run.ledger.spent, elapsed=run.ledger.spent.seconds))


async def _unfinished(run: Evaluation) -> list[str]:
    """Systems without a score for every task, those whose evolutions take most first."""
    scored = Counter([row.target async for row in run.rows() if row.score is not None])
    calls = {one.entry.name: _calls(one, run) for one in run.evolutions}
    left = [one.name for one in run.request.entries if scored[one.name] < len(run.tasks)]
    return sorted(left, key=lambda name: -calls.get(name, 0.0))


def _calls(one: Evolution, run: Evaluation) -> float:
    return sum(estimate_evolution_calls(one.evolve_request, run.workflows[one.entry.name].workflow).values())


def _run_shards(
    todo: Sequence[Shard], workers: int, on_event: Callable[[Event], None]
) -> Generator[tuple[Shard, Usage], None, None]:
    """Shards as they end, with their cost; after an error the running ones end, and no others start."""
    context = multiprocessing.get_context("spawn")
    events: EventQueue = context.SimpleQueue()
    faults: list[BaseException] = []
    with open_process_pool(workers, _listen, events) as pool:
        running = {pool.submit(run_alone, shard): shard for shard in todo}
        while running:
            ended, _ = wait(running, PAUSE, FIRST_COMPLETED)
            while not events.empty():
                on_event(events.get())
            for future in ended:
                shard = running.pop(future)
                if not future.cancelled() and (fault := future.exception()):
                    faults.append(fault)
                    for waiting in running:
                        waiting.cancel()
                elif not future.cancelled():
                    yield shard, future.result()
    if faults:
        raise faults[0]


_listeners: list[EventQueue] = []
"""Queues for events, in a worker process; a process can only inherit a queue when it starts."""


def _listen(events: EventQueue) -> None:
    """Begin a worker process."""
    _listeners.append(events)


def run_alone(shard: Shard) -> Usage:
    """Evolve and measure a system in this process; returns the cost.

    Raises:
        OutageError, ModelError: it stopped; what it has done is in its journal.
    """
    tell = _ProgressForwarder(shard.name, _listeners)
    with open_shard(shard) as run:
        since = run.ledger.spent_here
        run.evolve(tell.evolution)
        run_sync(run.execute(tell))
        return run.ledger.spent_here.subtract(since)


@dataclass
class _ProgressForwarder:
    name: str
    listeners: Sequence[EventQueue]
    latest: float = field(default=-math.inf, init=False)

    def __call__(self, event: Event) -> None:
        """An event of the measuring."""
        if event["target"] == self.name and (event["done"] == event["total"] or self._is_time):
            self._tell(event)

    def evolution(self, evolution: Evolution, event: Event) -> None:
        """An event of the evolution."""
        if event["phase"] == "save" or self._is_time:
            self._tell({**event, "target": self.name, "iterations": evolution.evolve_request.evolution.iterations})

    @property
    def _is_time(self) -> bool:
        return time.monotonic() - self.latest > PAUSE

    def _tell(self, event: Event) -> None:
        self.latest = time.monotonic()
        for one in self.listeners:
            one.put(event)
