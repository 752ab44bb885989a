"""The learning test of a router, seed by seed, each result kept as it comes."""

from collections.abc import Callable
from pathlib import Path

from selfwire.evals.studies.errands import ErrandStudy, SeedResult, run_study
from selfwire.runs.seeds import SeedRow, run_kept_seeds


def run_learning_test(
    study: ErrandStudy,
    seeds: int,
    workers: int,
    out: Path | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> list[SeedResult]:
    """Run the study for the seeds that have no row yet.

    Args:
        out: JSONL of the rows; rows in it are not run again. Nothing is kept if None.
        tell: gets a line before the first seed and after each.

    Raises:
        ConfigError: the file cannot be used, or holds another study.
    """
    tell(f"updates per seed: {study.updates}, embedder {study.embedder}; some minutes")
    return run_kept_seeds(
        study,
        seeds,
        lambda left: run_study(study, left, workers),
        SeedRow[SeedResult],
        out,
        tell,
        lambda result: f"{result.solved['trained']:.2f} solved",
    )
