"""The learning test of a router, seed by seed, each result kept as it comes."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from selfwire.core.values import fingerprint
from selfwire.evals.studies.errands import ErrandStudy, SeedResult, run_study
from selfwire.runs.ablation.rows import StudyRow, append_row, read_rows
from selfwire.runs.run_record import compute_code_hash


class SeedRow(StudyRow):
    """The result of one seed."""

    result: SeedResult


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
    key = fingerprint({**study.model_dump(mode="json"), "code": compute_code_hash()})
    kept = read_rows(out, key, SeedRow) if out else []
    found = {row.result.seed: row.result for row in kept if row.result.seed < seeds}
    left = [seed for seed in range(seeds) if seed not in found]
    tell(
        f"{seeds} seeds of {study.updates} updates, {len(found)} of them done, embedder {study.embedder}; some minutes"
    )
    with closing(run_study(study, left, workers)) as results:
        for result in results:
            found[result.seed] = result
            if out:
                append_row(out, SeedRow(study=key, result=result))
            tell(f"seed {result.seed}: {result.solved['trained']:.2f} solved; {seeds - len(found)} seeds left")
    return [found[seed] for seed in range(seeds)]
