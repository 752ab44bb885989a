"""Studies that are run seed by seed, with each result kept at once: a method's world, the learning test of a router."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from selfwire.core.values import FrozenModel, fingerprint
from selfwire.extras.cluster.executors import WorkerOptions, open_workers
from selfwire.extras.cluster.jobs import Job, Report, run_jobs
from selfwire.extras.lab.ablation.files import begin_study
from selfwire.extras.lab.ablation.record import Record, RecordedStudy, skip_record
from selfwire.extras.lab.ablation.rows import StudyRow, append_row, read_rows
from selfwire.extras.lab.ablation.subjects import LearningTest, Subject, WorldStudy
from selfwire.extras.lab.worlds import errands
from selfwire.extras.lab.worlds.catalogue import load_world
from selfwire.extras.lab.worlds.errands import ErrandStudy, SeedResult
from selfwire.extras.lab.worlds.gains import SeedOutcome, WorldResult
from selfwire.runs.record import compute_code_hash

Result = TypeVar("Result", bound=SeedOutcome)


class SeedRow(StudyRow, Generic[Result]):
    """The result of one seed."""

    result: Result


@dataclass(frozen=True)
class SeedStudy(Generic[Result]):
    """A study that is run seed by seed.

    Attributes:
        about: the subject of the study.
        parameters: everything that results depend on, beside the seed and the code.
        make_job: makes the job whose result is that of a seed.
        schema: class of its rows.
        describe: a result in a few words.
    """

    about: Subject
    parameters: FrozenModel
    make_job: Callable[[int], Job]
    schema: type[SeedRow[Result]]
    describe: Callable[[Result], str]


def run_kept_seeds(
    study: SeedStudy[Result],
    seeds: int,
    workers: WorkerOptions,
    out: Path | None,
    tell: Callable[[str], None],
    record: Record,
) -> list[Result]:
    """Run a study for the seeds that have no row yet.

    Args:
        out: JSONL of the rows; rows in it are not run again. Nothing is kept if None.
        tell: gets a line before the first seed and after each.
        record: puts the study on record.

    Raises:
        ConfigError: the file cannot be used, or holds another study.
    """
    key = fingerprint({**study.parameters.model_dump(mode="json"), "code": compute_code_hash()})
    kept = read_rows(out, key, study.schema) if out else []
    if out:
        begin_study(study.about, out)
    found = {row.result.seed: row.result for row in kept if row.result.seed < seeds}
    left = [seed for seed in range(seeds) if seed not in found]
    tell(f"{seeds} seeds, {len(found)} of them done")
    with record(RecordedStudy(head=study.about, total=seeds), key) as note, open_workers(workers) as executor:
        for row in kept:
            note(f"{row.result.seed:04}", row)
        for ended in run_jobs(deque(map(study.make_job, left)), executor):
            row = study.schema.model_validate({"study": key, "result": ended.result})
            found[row.result.seed] = row.result
            if out:
                append_row(out, row)
            note(f"{row.result.seed:04}", row)
            tell(f"seed {row.result.seed}: {study.describe(row.result)}; {seeds - len(found)} seeds left")
    return [found[seed] for seed in range(seeds)]


def run_world(
    about: WorldStudy,
    seeds: int,
    workers: WorkerOptions,
    out: Path | None,
    tell: Callable[[str], None],
    record: Record = skip_record,
) -> list[WorldResult]:
    """Run a method's world for the seeds that have no row yet; as `run_kept_seeds`."""
    method, name = about.method, about.world
    study = SeedStudy(
        about,
        load_world(method, name).parameters,
        lambda seed: Job.of(f"seed {seed}", run_world_seed, method=method, name=name, seed=seed),
        SeedRow[WorldResult],
        lambda result: f"{len(result.figures)} systems",
    )
    return run_kept_seeds(study, seeds, workers, out, tell, record)


def run_world_seed(report: Report, method: str, name: str, seed: int) -> Any:
    """All systems in the world of one seed."""
    return load_world(method, name).run_seed(seed)


def run_learning_test(
    about: LearningTest,
    seeds: int,
    workers: WorkerOptions,
    out: Path | None = None,
    tell: Callable[[str], None] = lambda line: None,
    record: Record = skip_record,
) -> list[SeedResult]:
    """Run the learning test of a router for the seeds that have no row yet; as `run_kept_seeds`."""
    study = about.errands
    tell(f"updates per seed: {study.updates}, embedder {study.embedder}; some minutes")
    kept = SeedStudy(
        about,
        study,
        lambda seed: Job.of(f"seed {seed}", run_errands_seed, study=study, seed=seed),
        SeedRow[SeedResult],
        lambda result: f"{result.solved['trained']:.2f} solved",
    )
    return run_kept_seeds(kept, seeds, workers, out, tell, record)


def run_errands_seed(report: Report, study: dict[str, Any], seed: int) -> SeedResult:
    """All systems on one seed's errands."""
    return errands.run_seed(ErrandStudy.model_validate(study), seed)
