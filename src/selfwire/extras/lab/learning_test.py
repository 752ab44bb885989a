"""The learning test of a router, seed by seed, each result kept as it comes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from selfwire.extras.cluster.executors import WorkerOptions
from selfwire.extras.cluster.jobs import Job, Report
from selfwire.extras.lab.ablation.record import Record, skip_record
from selfwire.extras.lab.ablation.subjects import LearningTest
from selfwire.extras.lab.seeds import SeedRow, SeedStudy, run_kept_seeds
from selfwire.extras.lab.worlds.errands import ErrandStudy, SeedResult, run_seed


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
    return run_seed(ErrandStudy.model_validate(study), seed)
