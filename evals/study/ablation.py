"""Runs a study: independent evolutions in a pool of processes, each result kept as it comes."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path

from selfwire.evals.evolutions import checked
from selfwire.evals.study.evolution import evolution
from selfwire.evals.study.plan import Study
from selfwire.evals.study.rows import Row, append_row, read_rows, unfinished
from selfwire.evals.study.variants import FULL, RANDOM


def ablate(
    study: Study, out: Path, *, workers: int = 2, tell: Callable[[str], None] = lambda line: None
) -> tuple[Row, ...]:
    """Run every evolution of a study that has no row yet, in processes of their own.

    Args:
        study: what to run.
        out: JSONL of the rows; evolutions that it holds are not run again.
        workers: processes.
        tell: hears a line when an evolution has ended.

    Returns:
        The rows of the chosen variants and seeds, variant by variant.

    Raises:
        ConfigError: the study or the file cannot be used.
        BudgetError, ModelError: an evolution stopped; the rows of the others are in the file.
    """
    key, wanted = study.key, [(name, seed) for name in study.chosen for seed in range(study.seeds)]
    checked(study.request(FULL, 0), None)
    rows = {row.key: row for row in read_rows(out, key)}
    todo = unfinished(wanted, list(rows.values()))
    tell(f"{len(wanted)} evolutions, {len(wanted) - len(todo)} of them done, {workers} at a time")
    since = time.monotonic()

    def keep(row: Row) -> None:
        append_row(out, row)
        rows[row.key] = row
        made = len([one for one in todo if one in rows])
        tell(progress_line(row, made, len(todo), time.monotonic() - since))

    _run(study, key, todo, rows, workers, keep)
    return tuple(rows[one] for one in wanted)


def progress_line(row: Row, made: int, total: int, seconds: float) -> str:
    """How an evolution ended, and how long the rest may take."""
    left = seconds / made * (total - made)
    return (
        f"[{made}/{total}] {row.variant} seed {row.seed}: {row.before:.2f} -> {row.after:.2f}, {row.nodes} nodes, "
        f"{row.calls:.1f} calls/task, {row.accepted} accepted, {row.rejected} rejected, {row.seconds:.0f} s; "
        f"about {left / 60:.0f} min left"
    )


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
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        while running or (waiting and not faults):
            ready = [] if faults else [one for one in waiting if one[0] != RANDOM or (FULL, one[1]) in rows]
            for name, seed in ready[: workers - len(running)]:
                waiting.remove((name, seed))
                edits = rows[FULL, seed].edits if name == RANDOM else None
                running.add(pool.submit(evolution, study, key, name, seed, edits))
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                fault = future.exception()
                faults += [fault] if fault else []
                if not fault:
                    keep(future.result())
    if faults:
        raise faults[0]
