"""A reference that is planted in tasks, and a search for it in everything that a run leaves behind."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from langchain_core.tracers.schemas import Run
from langgraph.checkpoint.base import BaseCheckpointSaver

from selfwire.core.task import Task
from selfwire.core.trajectory import Trajectory
from selfwire.evals.benchmarks.benchmark import Benchmark

CANARY = "zanzibarquux"


def planted(bench: Benchmark, count: int) -> list[Task]:
    tasks = bench.splits(0, train=count, gate=0, test=0).train
    return [task.replace(reference=f"{CANARY} 7319", entities=(*task.entities, CANARY)) for task in tasks]


def left_behind(
    requests: Sequence[str],
    results: Sequence[Trajectory],
    journal: Path,
    states: BaseCheckpointSaver[Any],
    traces: Sequence[Run],
) -> dict[str, list[str]]:
    """Texts by the place where they are."""
    return {
        "requests": list(requests),
        "results": [done.model_dump_json() for done in results],
        "journal": list(_rows(journal)),
        "states": [repr(snapshot) for snapshot in states.list(None)],
        "traces": list(_traced(traces)),
    }


def assert_not_planted(places: dict[str, list[str]], task: Task) -> None:
    """Every place holds the question, and none the reference."""
    for place, told in places.items():
        assert any(task.input.splitlines()[0][:40] in text for text in told), place
        assert not any(CANARY in text for text in told), place


def _rows(path: Path) -> Iterator[str]:
    with closing(sqlite3.connect(path)) as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in connection.execute(f"SELECT * FROM {table}"):
                yield "\n".join(cell.decode("latin-1") if isinstance(cell, bytes) else str(cell) for cell in row)


def _traced(runs: Iterable[Run]) -> Iterator[str]:
    for run in runs:
        yield repr((run.name, run.inputs, run.outputs, run.extra, run.tags, run.error, run.events))
        yield from _traced(run.child_runs)
