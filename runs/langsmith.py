"""Runs the contestants of an evaluation as experiments; rows, files and table come out as without."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from selfwire.evals.benchmarks.catalogue import is_file
from selfwire.evals.langsmith.connection import Uploads, local, reached, uploading
from selfwire.evals.langsmith.datasets import TaskSet, local_examples, uploaded_examples
from selfwire.evals.langsmith.experiment import Experiment
from selfwire.graphs.rollouts import Roll, roll_through
from selfwire.runs.evaluation.run import Evaluation
from selfwire.runs.evaluation.systems import TRIVIAL, Entrant
from selfwire.runs.run_record import code_hash, short_name
from selfwire.runs.version import installed_version


@contextmanager
def telling(run: Evaluation) -> Iterator[None]:
    """Tell LangSmith of an evaluation whose request asks for it; do nothing for others.

    Raises:
        ConfigError: there is no LangSmith to tell, it refused, or it was not reached.
    """
    if run.request.langsmith == "off":
        yield
        return
    with uploading() as client, attached(run, client):
        yield


@contextmanager
def attached(run: Evaluation, client: Uploads | None = None) -> Iterator[None]:
    """Have an evaluation's contestants run as experiments on one dataset, as long as this is open.

    The benchmark's own rule stays out: its results are those of the table.

    Args:
        run: an evaluation that was started or resumed; `run.request.langsmith` says whether references are uploaded.
        client: of `connection.uploading()`; None runs the same code here, without a connection.

    Raises:
        ConfigError: LangSmith refused, or was not reached.
    """
    tasks, here = task_set(run), nullcontext(client) if client else local()
    with here as used:
        with reached(used):
            examples = uploaded_examples(used, tasks) if client else local_examples(tasks)

        def roll_for(one: Entrant) -> Roll:
            if one.name == TRIVIAL:
                return roll_through
            named = experiment_name(run, one.name)
            return Experiment(used, named, examples, client is not None, facts(run, one)).roll_through

        run.roll_for = roll_for
        if client:
            named = ", ".join(experiment_name(run, entry.name) for entry in run.request.entries)
            told = f"LangSmith at {client.api_url}: dataset {tasks.name}, experiment {named}"
            run.notices = (*run.notices, told)
        yield


def task_set(run: Evaluation) -> TaskSet:
    """The tasks of an evaluation, and what of them may be uploaded."""
    return TaskSet(
        benchmark=benchmark_name(run),
        split=run.request.split,
        seed=run.request.seed,
        tasks=tuple(run.tasks),
        references=run.request.langsmith == "references",
    )


def experiment_name(run: Evaluation, contestant: str) -> str:
    """Of a contestant; a resumed run goes on with its experiments."""
    return f"{run.run}-{contestant}"


def benchmark_name(run: Evaluation) -> str:
    """A benchmark's name; of a file of tasks no path."""
    asked = run.request.benchmark
    return short_name(asked) if is_file(asked) else asked


def facts(run: Evaluation, one: Entrant) -> dict[str, Any]:
    """What makes experiments comparable."""
    asked, contestant = run.request, one.contestant
    limits = {f"budget_{name}": limit for name, limit in asked.budget.model_dump().items() if limit is not None}
    return {
        "contestant": one.name,
        "method": contestant.method,
        "workflow": contestant.workflow,
        "learned": contestant.learned,
        "model": asked.models.roles["agent"],
        "meta_model": asked.models.roles["meta"],
        "judge_model": asked.models.roles["judge"],
        "embedder": run.embedder,
        "benchmark": benchmark_name(run),
        "grader": run.benchmark.environment.name,
        "split": asked.split,
        "seed": asked.seed,
        "tasks": len(run.tasks),
        "calls_per_task": asked.calls_per_task,
        **limits,
        "references_uploaded": asked.langsmith == "references",
        "stand_in": asked.models.is_offline,
        "selfwire": installed_version(),
        "code": code_hash(),
        "run": run.run,
    }
