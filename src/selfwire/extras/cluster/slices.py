"""Makes the shards of a run, and opens them in workers."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

from selfwire.core.task import Task
from selfwire.evals.benchmarks.benchmark import Benchmark
from selfwire.extras.cluster.shards import SystemShard, refuse_missing_shard
from selfwire.models.sync import run_sync
from selfwire.runs.evaluation import RESULTS, SLICE, EvaluationPlan, OpenEvaluation, load_request_tasks, make_plan
from selfwire.runs.record import ContaminatedTasks, load_request
from selfwire.runs.spec import EvaluateSpec, Slice
from selfwire.runs.systems import LoadedTeam
from selfwire.store.journal import Journal


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
