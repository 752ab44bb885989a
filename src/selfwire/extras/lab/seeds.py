"""Runs a method's world seed by seed, with each result kept at once."""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from selfwire.core.values import fingerprint
from selfwire.extras.cluster.executors import WorkerOptions, open_workers
from selfwire.extras.cluster.jobs import Job, Report, run_jobs
from selfwire.extras.lab.ablation.plan import WorldStudy
from selfwire.extras.lab.ablation.record import Record, RecordedStudy
from selfwire.extras.lab.ablation.rows import StudyRow, append_row, begin_study, read_rows
from selfwire.extras.lab.worlds.catalogue import load_world
from selfwire.extras.lab.worlds.gains import WorldResult
from selfwire.runs.record import compute_code_hash


class SeedRow(StudyRow):
    """The result of one seed."""

    result: WorldResult


def run_world(
    about: WorldStudy,
    seeds: int,
    workers: WorkerOptions,
    out: Path | None,
    tell: Callable[[str], None],
    record: Record,
) -> list[WorldResult]:
    """Run a method's world for the seeds that have no row yet.

    Args:
        out: JSONL of the rows; rows in it are not run again. Nothing is kept if None.
        tell: gets a line before the first seed and after each.
        record: puts the study on record.

    Raises:
        ConfigError: the file cannot be used, or holds another study.
    """
    parameters = load_world(about.method, about.world).parameters.model_dump(mode="json")
    key = fingerprint({**parameters, "code": compute_code_hash()})
    kept = read_rows(out, key, SeedRow) if out else []
    if out:
        begin_study(about, out)
    found = {row.result.seed: row.result for row in kept if row.result.seed < seeds}
    left = [seed for seed in range(seeds) if seed not in found]
    tell(f"{seeds} seeds, {len(found)} of them done")
    jobs = (Job.of(f"seed {seed}", run_seed, method=about.method, world=about.world, seed=seed) for seed in left)
    with record(RecordedStudy(head=about, total=seeds), key) as note, open_workers(workers) as executor:
        for row in kept:
            note(f"{row.result.seed:04}", row)
        for ended in run_jobs(deque(jobs), executor):
            row = SeedRow.model_validate({"study": key, "result": ended.result})
            found[row.result.seed] = row.result
            if out:
                append_row(out, row)
            note(f"{row.result.seed:04}", row)
            tell(f"seed {row.result.seed}: {len(row.result.figures)} systems; {seeds - len(found)} seeds left")
    return [found[seed] for seed in range(seeds)]


def run_seed(report: Report, method: str, world: str, seed: int) -> Any:
    """All systems in the world of one seed."""
    return load_world(method, world).run_seed(seed)
