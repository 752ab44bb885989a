"""Runs the systems of an evaluation as LangSmith experiments; rows, files and table stay the same."""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from langsmith import Client
from langsmith.schemas import Example

from selfwire.core.plugins import compute_code_hash, get_version
from selfwire.evals.langsmith import (
    Experiment,
    TaskSet,
    make_examples,
    open_uploads,
    translate_errors,
    upload_examples,
)
from selfwire.evals.table import TRIVIAL
from selfwire.evals.tasks import is_own_data
from selfwire.graphs.rollouts import RolloutRunner, stream_rollouts
from selfwire.runs.evaluation import OpenEvaluation, UploadedDataset
from selfwire.runs.record import shorten_name
from selfwire.runs.systems import MeasuredSystem


@contextmanager
def upload_if_requested(run: OpenEvaluation) -> Iterator[None]:
    """Run an evaluation's systems as experiments on one dataset, if its request says so, while this context is open.

    The trivial baseline is left out; its results are in the table.

    Raises:
        ConfigError: there is no LangSmith, it refused, or it was not reached.
    """
    if run.request.langsmith == "off":
        yield
        return
    with open_uploads() as client:
        tasks = _make_task_set(run)
        with translate_errors(client):
            examples = upload_examples(client, tasks)
        _report_to(run, client, examples, count=len(run.tasks))
        run.dataset = UploadedDataset(str(next(iter(examples.values())).dataset_id), len(run.tasks))
        named = ", ".join(make_experiment_name(run, entry.name) for entry in run.request.entries)
        run.notices += (f"LangSmith at {client.api_url}: dataset {tasks.name}, experiment {named}",)
        yield


@contextmanager
def upload_slice(run: OpenEvaluation, dataset: UploadedDataset) -> Iterator[None]:
    """Report what a worker measures to the experiments of the whole run; key and endpoint are in its environment.

    Raises:
        ConfigError: there is no LangSmith, it refused, or it was not reached.
    """
    with open_uploads() as client:
        examples = make_examples(_make_task_set(run), uuid.UUID(dataset.id))
        _report_to(run, client, examples, count=dataset.tasks)
        yield


def _make_task_set(run: OpenEvaluation) -> TaskSet:
    request = run.request
    return TaskSet(
        benchmark=get_benchmark_name(run),
        split=request.split,
        seed=request.seed,
        tasks=tuple(run.tasks),
        references=request.langsmith == "references",
    )


def _report_to(run: OpenEvaluation, client: Client, examples: Mapping[str, Example], *, count: int) -> None:
    """Have a run's systems report to LangSmith; `count` is the number of tasks of the whole run."""

    def roll_for(system: MeasuredSystem) -> RolloutRunner:
        if system.name == TRIVIAL:
            return stream_rollouts
        named, facts = make_experiment_name(run, system.name), {**to_metadata(run, system), "tasks": count}
        return Experiment(client, named, examples, facts).roll_through

    run.get_rollout_runner = roll_for


def make_experiment_name(run: OpenEvaluation, system: str) -> str:
    """Name the experiment of a system; a resumed run continues it."""
    return f"{run.run}-{system}"


def get_benchmark_name(run: OpenEvaluation) -> str:
    """Name a benchmark; a file of tasks without its path."""
    name = run.request.benchmark
    return shorten_name(name) if is_own_data(name) else name


def to_metadata(run: OpenEvaluation, system: MeasuredSystem) -> dict[str, Any]:
    """Make the metadata by which experiments are compared."""
    request, info = run.request, system.info
    limits = {f"budget_{name}": limit for name, limit in request.budget.model_dump().items() if limit is not None}
    return {
        "system": system.name,
        "method": info.method,
        "workflow": info.workflow,
        "learned": info.learned,
        "model": request.models.roles["agent"],
        "meta_model": request.models.roles["meta"],
        "judge_model": request.models.roles["judge"],
        **{f"model_{name}": model for name, model in request.models.named.items()},
        "embedder": run.embedder,
        "benchmark": get_benchmark_name(run),
        "grader": run.benchmark.environment.name,
        "split": request.split,
        "seed": request.seed,
        "calls_per_task": request.calls_per_task,
        **limits,
        "references_uploaded": request.langsmith == "references",
        "stand_in": request.models.is_offline,
        "selfwire": get_version(),
        "code": compute_code_hash(),
        "run": run.run,
    }
