"""Runs a study: independent evolutions or evaluations in a pool of processes, each result kept as it comes."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from selfwire.extras.cluster.executors import WorkerOptions, open_workers
from selfwire.extras.cluster.jobs import Job, Report, run_jobs
from selfwire.extras.cluster.shared_ledger import open_ledger
from selfwire.extras.cluster.worker_budgets import refuse_unusable_cluster, share_rates
from selfwire.extras.lab.ablation.plan import Study
from selfwire.extras.lab.ablation.record import Record, RecordedStudy
from selfwire.extras.lab.ablation.rows import (
    EvaluationRow,
    EvolutionRow,
    VariantRow,
    append_row,
    begin_study,
    parse_study_rows,
    read_rows,
)
from selfwire.extras.lab.ablation.variants import measure_evaluation, measure_evolution
from selfwire.graphs.method import FULL, RANDOM
from selfwire.runs import evaluation as evaluations
from selfwire.runs import evolution as evolutions


def run_ablation(
    study: Study,
    out: Path,
    workers: WorkerOptions,
    tell: Callable[[str], None],
    record: Record,
) -> tuple[VariantRow, ...]:
    """Run the runs of a study that have no row yet, on workers.

    Args:
        out: JSONL of the rows; rows in it are not run again.
        tell: gets a line when a run ends.
        record: puts the study on record.

    Returns:
        The rows of the chosen variants and seeds, variant by variant.

    Raises:
        ConfigError: the study or the file cannot be used, or a cluster cannot share limits.
        BudgetError, ModelError: a run stopped; the rows of the others are in the file.
    """
    key, wanted = study.key, [(name, seed) for name in study.chosen for seed in range(study.seeds)]
    if study.evolves:
        evolutions.validate_request(study.request(FULL, 0), None)
    else:
        evaluations.validate_request(study.evaluation(FULL, 0), None)
    refuse_unusable_cluster(study.request(FULL, 0), workers)
    schema: type[VariantRow] = EvolutionRow if study.evolves else EvaluationRow
    rows = {row.key: row for row in read_rows(out, key, schema)}
    begin_study(study, out)
    todo = [place for place in wanted if place not in rows]
    at_once = f", {workers.workers} at a time" if workers.workers else ""
    what = "evolutions" if study.evolves else "evaluations"
    tell(f"{len(wanted)} {what}, {len(wanted) - len(todo)} of them done{at_once}")
    since = time.monotonic()
    with record(RecordedStudy(head=study, total=len(wanted)), key) as note:

        def keep(row: VariantRow) -> None:
            append_row(out, row)
            rows[row.key] = row
            note(_name_row(row), row)
            made = sum(place in rows for place in todo)
            tell(format_progress(row, made, len(todo), time.monotonic() - since))

        for row in rows.values():
            note(_name_row(row), row)
        _run(study, key, todo, rows, workers, keep)
    return tuple(rows[place] for place in wanted)


def _name_row(row: VariantRow) -> str:
    return f"{row.seed:04}-{row.variant}"


def format_progress(row: VariantRow, made: int, total: int, seconds: float) -> str:
    """How a run ended, and how long the rest may take."""
    left = seconds / made * (total - made)
    came = f"{row.after:.2f}"
    if isinstance(row, EvolutionRow):
        came = (
            f"{row.before:.2f} -> {row.after:.2f}, {row.nodes} nodes, {row.accepted} accepted, {row.rejected} rejected"
        )
    return (
        f"[{made}/{total}] {row.variant} seed {row.seed}: {came}, {row.calls:.1f} calls/task, {row.seconds:.0f} s; "
        f"about {left / 60:.0f} min left"
    )


def measure_variant(
    report: Report, study: dict[str, Any], key: str, name: str, seed: int, edits: Any, rates: str | None
) -> VariantRow:
    """Run one variant with one seed.

    Args:
        rates: where workers share what providers allow; None if they share nothing.
    """
    chosen = Study.model_validate(study)
    with closing(open_ledger(rates)) as parent:
        if not chosen.evolves:
            return measure_evaluation(chosen, key, name, seed, parent)
        return measure_evolution(chosen, key, name, seed, edits, parent)


def _run(
    study: Study,
    key: str,
    todo: Sequence[tuple[str, int]],
    rows: Mapping[tuple[str, int], VariantRow],
    workers: WorkerOptions,
    keep: Callable[[VariantRow], None],
) -> None:
    """Run seed by seed, so that a stopped study has whole seeds; random waits for full."""
    later = sorted(todo, key=lambda place: place[1])

    def take_ready() -> list[Job]:
        ready = [place for place in later if place[0] != RANDOM or (FULL, place[1]) in rows]
        for place in ready:
            later.remove(place)
        return [_make_job(study, key, *place, rows, rates) for place in ready]

    with share_rates(study.request(FULL, 0), workers) as rates, open_workers(workers) as executor:
        waiting = deque(take_ready())
        for ended in run_jobs(waiting, executor):
            keep(*parse_study_rows(study, [ended.result]))
            waiting.extendleft(reversed(take_ready()))


def _make_job(
    study: Study, key: str, name: str, seed: int, rows: Mapping[tuple[str, int], VariantRow], rates: str | None
) -> Job:
    full = rows[FULL, seed] if name == RANDOM else None
    edits = full.operations if isinstance(full, EvolutionRow) else None
    what = f"{name} with seed {seed}"
    return Job.of(what, measure_variant, study=study, key=key, name=name, seed=seed, edits=edits, rates=rates)
