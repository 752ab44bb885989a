"""A study seed by seed, each result kept as it comes; and a method's world, run so."""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from selfwire.core.values import FrozenModel, fingerprint
from selfwire.evals.studies.gains import SeedOutcome, WorldResult
from selfwire.evals.studies.worlds import load_world
from selfwire.runs.ablation.files import begin_study
from selfwire.runs.ablation.record import Record, RecordedStudy, skip_record
from selfwire.runs.ablation.rows import StudyRow, append_row, read_rows
from selfwire.runs.ablation.subjects import Subject, WorldStudy
from selfwire.runs.run_record import compute_code_hash
from selfwire.runs.workers import open_workers
from selfwire.runtime.executors import WorkerOptions
from selfwire.runtime.jobs import Job, Report, run_jobs

Result = TypeVar("Result", bound=SeedOutcome)


class SeedRow(StudyRow, Generic[Result]):
    """The result of one seed."""

    result: Result


def run_kept_seeds(
    parameters: FrozenModel,
    seeds: int,
    make_job: Callable[[int], Job],
    schema: type[SeedRow[Result]],
    workers: WorkerOptions,
    out: Path | None,
    tell: Callable[[str], None],
    describe: Callable[[Result], str],
    about: Subject,
    record: Record,
) -> list[Result]:
    """Run a study for the seeds that have no row yet.

    Args:
        parameters: everything that results depend on, beside the seed and the code.
        make_job: the job whose result is that of a seed.
        out: JSONL of the rows; rows in it are not run again. Nothing is kept if None.
        tell: gets a line before the first seed and after each.
        describe: a result in a few words.
        about: what the study is about.
        record: puts the study on record.

    Raises:
        ConfigError: the file cannot be used, or holds another study.
    """
    key = fingerprint({**parameters.model_dump(mode="json"), "code": compute_code_hash()})
    kept = read_rows(out, key, schema) if out else []
    if out:
        begin_study(about, out)
    found = {row.result.seed: row.result for row in kept if row.result.seed < seeds}
    left = [seed for seed in range(seeds) if seed not in found]
    tell(f"{seeds} seeds, {len(found)} of them done")
    with record(RecordedStudy(head=about, total=seeds), key) as note, open_workers(workers) as executor:
        for row in kept:
            note(f"{row.result.seed:04}", row)
        for ended in run_jobs(deque(map(make_job, left)), executor):
            row = schema.model_validate({"study": key, "result": ended.result})
            found[row.result.seed] = row.result
            if out:
                append_row(out, row)
            note(f"{row.result.seed:04}", row)
            tell(f"seed {row.result.seed}: {describe(row.result)}; {seeds - len(found)} seeds left")
    return [found[seed] for seed in range(seeds)]


def run_world(
    method: str,
    name: str,
    seeds: int,
    workers: WorkerOptions,
    out: Path | None,
    tell: Callable[[str], None],
    record: Record = skip_record,
) -> list[WorldResult]:
    """Run a method's world for the seeds that have no row yet; as `run_kept_seeds`."""

    def make_job(seed: int) -> Job:
        return Job.of(f"seed {seed}", run_world_seed, method=method, name=name, seed=seed)

    return run_kept_seeds(
        load_world(method, name).parameters,
        seeds,
        make_job,
        SeedRow[WorldResult],
        workers,
        out,
        tell,
        lambda result: f"{len(result.figures)} systems",
        WorldStudy(method=method, world=name),
        record,
    )


def run_world_seed(report: Report, method: str, name: str, seed: int) -> Any:
    """All systems in the world of one seed."""
    return load_world(method, name).run_seed(seed)
