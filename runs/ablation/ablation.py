"""Runs a study: independent evolutions or evaluations in a pool of processes, each result kept as it comes."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path

from selfwire.graphs.variants import FULL, RANDOM
from selfwire.runs import evolution as evolutions
from selfwire.runs.ablation.evaluation import evaluation
from selfwire.runs.ablation.evolution import evolution
from selfwire.runs.ablation.files import begin_study
from selfwire.runs.ablation.plan import Operations, Study
from selfwire.runs.ablation.rows import EvaluationRow, EvolutionRow, Row, append_row, read_rows
from selfwire.runs.evaluation import lifecycle
from selfwire.runtime.child_processes import open_process_pool


def run_ablation(
    study: Study, out: Path, *, workers: int = 2, tell: Callable[[str], None] = lambda line: None
) -> tuple[Row, ...]:
    """Run the runs of a study that have no row yet, in worker processes.

    Args:
        out: JSONL of the rows; rows in it are not run again.
        tell: gets a line when a run ends.

    Returns:
        The rows of the chosen variants and seeds, variant by variant.

    Raises:
        ConfigError: the study or the file cannot be used.
        BudgetError, ModelError: a run stopped; the rows of the others are in the file.
    """
    key, wanted = study.key, [(name, seed) for name in study.chosen for seed in range(study.seeds)]
    if study.evolves:
        evolutions.validate_request(study.request(FULL, 0), None)
    else:
        lifecycle.validate_request(study.evaluation(FULL, 0), None)
    schema: type[Row] = EvolutionRow if study.evolves else EvaluationRow
    rows = {row.key: row for row in read_rows(out, key, schema)}
    begin_study(study, out)
    todo = [one for one in wanted if one not in rows]
    what = "evolutions" if study.evolves else "evaluations"
    tell(f"{len(wanted)} {what}, {len(wanted) - len(todo)} of them done, {workers} at a time")
    since = time.monotonic()

    def keep(row: Row) -> None:
        append_row(out, row)
        rows[row.key] = row
        made = sum(one in rows for one in todo)
        tell(format_progress(row, made, len(todo), time.monotonic() - since))

    _run(study, key, todo, rows, workers, keep)
    return tuple(rows[one] for one in wanted)


def format_progress(row: Row, made: int, total: int, seconds: float) -> str:
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


def measure_variant(study: Study, key: str, name: str, seed: int, edits: Operations | None = None) -> Row:
    """Run one variant with one seed."""
    return evolution(study, key, name, seed, edits) if study.evolves else evaluation(study, key, name, seed)


def _run(
    study: Study,
    key: str,
    todo: Sequence[tuple[str, int]],
    rows: Mapping[tuple[str, int], Row],
    workers: int,
    keep: Callable[[Row], None],
) -> None:
    """Run seed by seed, so that a stopped study has whole seeds; random waits for full."""
    waiting = sorted(todo, key=lambda one: one[1])
    running: set[Future[Row]] = set()
    faults: list[BaseException] = []
    with open_process_pool(workers) as pool:
        while running or (waiting and not faults):
            ready = [] if faults else [one for one in waiting if one[0] != RANDOM or (FULL, one[1]) in rows]
            for name, seed in ready[: workers - len(running)]:
                waiting.remove((name, seed))
                full = rows[FULL, seed] if name == RANDOM else None
                edits = full.operations if isinstance(full, EvolutionRow) else None
                running.add(pool.submit(measure_variant, study, key, name, seed, edits))
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                fault = future.exception()
                faults += [fault] if fault else []
                if not fault:
                    keep(future.result())
    if faults:
        raise faults[0]
