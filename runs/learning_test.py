"""The learning test of a router, seed by seed, each result kept as it comes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from selfwire.evals.studies.errands import ErrandStudy, SeedResult, run_seed
from selfwire.runs.ablation.record import Record, skip_record
from selfwire.runs.ablation.subjects import LearningTest
from selfwire.runs.seeds import SeedRow, run_kept_seeds
from selfwire.runtime.executors import WorkerOptions
from selfwire.runtime.jobs import Job, Report


def run_learning_test(
    about: LearningTest,
    seeds: int,
    workers: WorkerOptions,
    out: Path | None = None,
    tell: Callable[[str], None] = lambda line: None,
    record: Record = skip_record,
) -> list[SeedResult]:
    """Run the learning test for the seeds that have no row yet.

    Args:
        out: JSONL of the rows; rows in it are not run again. Nothing is kept if None.
        tell: gets a line before the first seed and after each.
        record: puts the study on record.

    Raises:
        ConfigError: the file cannot be used, or holds another study.
    """
    study = about.errands
    tell(f"updates per seed: {study.updates}, embedder {study.embedder}; some minutes")
    return run_kept_seeds(
        study,
        seeds,
        lambda seed: Job.of(f"seed {seed}", run_errands_seed, study=study, seed=seed),
        SeedRow[SeedResult],
        workers,
        out,
        tell,
        lambda result: f"{result.solved['trained']:.2f} solved",
        about,
        record,
    )


def run_errands_seed(report: Report, study: dict[str, Any], seed: int) -> SeedResult:
    """All systems on one seed's errands."""
    return run_seed(ErrandStudy.model_validate(study), seed)
