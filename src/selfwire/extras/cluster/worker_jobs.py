"""Jobs of workers for an evaluation: to evolve a system, or to measure it on some tasks."""

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import Any

from selfwire.core.usage import Budget
from selfwire.extras.cluster.jobs import Event, JobSettings, Report
from selfwire.extras.cluster.shared_ledger import open_ledger
from selfwire.extras.cluster.slices import open_shard
from selfwire.models.sync import run_sync
from selfwire.runs.evaluation import OpenEvaluation, UploadedDataset
from selfwire.runs.pre_evolution import make_evolutions
from selfwire.runs.record import JOURNAL, get_runs_folder, load_request
from selfwire.runs.spec import EvaluateSpec

PAUSE = 0.2
"""Seconds between two events of a job."""


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
