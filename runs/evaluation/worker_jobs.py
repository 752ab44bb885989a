"""What workers do for an evaluation: they evolve a system, or measure it on some tasks."""

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import Any

from selfwire.core.budget import Budget
from selfwire.runs.evaluation.pre_evolution import make_evolutions
from selfwire.runs.evaluation.request import EvaluationRequest
from selfwire.runs.evaluation.run import Evaluation, UploadedDataset
from selfwire.runs.evaluation.slices import open_shard
from selfwire.runs.folders import JOURNAL, get_runs_folder
from selfwire.runs.run_record import load_request
from selfwire.runtime.jobs import Event, Report
from selfwire.runtime.shared_ledger import open_ledger
from selfwire.runtime.sync import run_sync

PAUSE = 0.2
"""Seconds between two events of a job."""


def evolve_system(
    report: Report,
    run: str,
    home: str | None,
    name: str,
    retry_failed: bool,
    budget: dict[str, Any],
    budget_address: str | None,
) -> None:
    """Evolve a system of an evaluation.

    Args:
        budget: the limits of the evolution, its cost so far included.
        budget_address: where the run's budget is shared; None if it has none.

    Raises:
        OutageError, ModelError: it stopped; what it has done is in its own journal.
    """
    users = None if home is None else Path(home)
    folder = get_runs_folder(users) / run
    request = load_request(folder / JOURNAL, EvaluationRequest).alone(name)
    [one] = make_evolutions(request, folder, users)
    iterations = one.evolve_request.evolution.iterations
    report = report_seldom(report, lambda event: event["phase"] == "save")

    def tell(event: Event) -> None:
        report({**event, "target": name, "iterations": iterations})

    with closing(open_ledger(budget_address)) as ledger:
        one.run(Budget.model_validate(budget), ledger, tell, retry_failed=retry_failed)


def measure_slice(
    report: Report,
    job: str,
    name: str,
    path: str,
    home: str | None,
    dataset: list[Any] | None,
    retry_failed: bool,
    budget_address: str | None,
) -> None:
    """Measure a system on the tasks of a shard, whose journal gets the rows.

    Args:
        dataset: an `UploadedDataset`, if the run reports to LangSmith.

    Raises:
        ConfigError: this worker does not reach LangSmith.
        OutageError, ModelError: it stopped; what it has done is in the journal.
    """
    report = report_seldom(report, lambda event: event["done"] == event["total"])

    def tell(event: Event) -> None:
        if event["target"] == name:
            report({"job": job, "target": name, "done": event["done"], "total": event["total"]})

    users = None if home is None else Path(home)
    with open_shard(Path(path), users, retry_failed=retry_failed, budget_address=budget_address) as run:
        with _upload_if_requested(run, dataset):
            run_sync(run.measure(tell))


def _upload_if_requested(run: Evaluation, dataset: list[Any] | None) -> AbstractContextManager[None]:
    if dataset is None:
        return nullcontext()
    from selfwire.runs.langsmith import upload_slice  # takes long to import

    return upload_slice(run, UploadedDataset(*dataset))


def report_seldom(report: Report, is_last: Callable[[Event], bool]) -> Report:
    """The same, but for events that come soon after another one and are not the last."""
    latest = -math.inf

    def seldom(event: Event) -> None:
        nonlocal latest
        if is_last(event) or time.monotonic() - latest > PAUSE:
            latest = time.monotonic()
            report(event)

    return seldom
