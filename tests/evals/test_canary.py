"""A planted reference reaches no model, no file, no event, no trace and no printed line."""

import dataclasses
import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tracers.context import collect_runs
from langchain_core.tracers.schemas import Run

from selfwire.cli.progress import EvolutionProgress
from selfwire.core.protocols import Environment
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Splits, Task
from selfwire.core.values import to_plain_json
from selfwire.evals.benchmarks.benchmark import Benchmark
from selfwire.evals.benchmarks.catalogue import load_benchmark
from selfwire.graphs.evolve import Event
from selfwire.models.providers import make_chat_model
from tests import kills
from tests.commands import call
from tests.wire.server import WireServer, served

pytestmark = pytest.mark.slow
CANARY = "zanzibarquux"
NUMBER = 7_319_465_028
HIVA, SELF, HERA = ("hiva",), ("hiva", "--set", "environment=false"), ("hera", "--set", "group=2")
"""Methods; SELF is HiVA that learns from its own criticism."""
HIDDEN = {
    "optimal_path": [CANARY], "optimal_path_length": NUMBER, "inventory_trace": [{CANARY: NUMBER}],
    "items_used": NUMBER, "unique_items_used": NUMBER, "complexity": NUMBER, "complexity_bin": NUMBER,
    "complexity_split": CANARY, "num_distractors": NUMBER, "id": CANARY, "recipe_type": CANARY,
}  # fmt: skip
"""What Plancraft's examples say beyond inventory, target and feasibility; the simulator runs without it."""


TABLES = (
    "journal.sqlite, calls", "journal.sqlite, bodies", "journal.sqlite, notes", "checkpoints.sqlite, checkpoints",
    "library.sqlite, store",
)  # fmt: skip


def planted(task: Task) -> Task:
    if isinstance(task.reference, str):
        return task.replace(reference=f"{CANARY} {NUMBER}")
    return task.replace(reference={**to_plain_json(task.reference), **HIDDEN})


@dataclasses.dataclass
class Watched:
    inner: Environment
    name: str
    seen: int = 0

    async def grade(self, task: Task, answer: str, *, scope: Scope) -> Feedback:
        self.seen += CANARY in json.dumps(to_plain_json(task.reference))
        return await self.inner.grade(task, answer, scope=scope)


def with_canaries(found: Benchmark, environment: Watched) -> Benchmark:
    def load(seed: int, train: int, gate: int, test: int) -> Splits:
        splits = found.load(seed, train, gate, test)
        return Splits(**{name: tuple(map(planted, getattr(splits, name))) for name in Splits.model_fields})

    return dataclasses.replace(found, load=load, environment=environment)


def stored(home: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(home.rglob("*")):
        if not path.is_file():
            continue
        yield path.name, path.read_bytes().decode("latin-1")
        if path.suffix == ".sqlite":
            with closing(sqlite3.connect(path)) as connection:
                for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                    for row in connection.execute(f"SELECT * FROM {table}"):
                        told = [cell.decode("latin-1") if isinstance(cell, bytes) else str(cell) for cell in row]
                        yield f"{path.name}, {table}", "\n".join(told)


def traced(runs: Iterable[Run]) -> Iterator[str]:
    for run in runs:
        yield repr((run.name, run.inputs, run.outputs, run.extra, run.tags, run.error, run.events))
        yield from traced(run.child_runs)


@pytest.mark.parametrize(
    ("method", "name"),
    [(HIVA, "archive"), (SELF, "archive"), (HIVA, "plancraft"), (SELF, "plancraft"), (HERA, "archive")],
)
def test_a_planted_reference_appears_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, method: tuple[str, ...]
) -> None:
    environment = Watched(load_benchmark(name).environment, name)
    events: list[str] = []
    show = EvolutionProgress.__call__

    def heard(progress: EvolutionProgress, event: Event) -> None:
        events.append(repr(event))
        show(progress, event)

    def loaded(wanted: str, **options: Any) -> Benchmark:
        return with_canaries(load_benchmark(wanted, **options), environment)

    monkeypatch.setattr("selfwire.runs.inputs.load_benchmark", loaded)
    monkeypatch.setattr(EvolutionProgress, "__call__", heard)
    with WireServer(served(make_chat_model("offline"))) as server, collect_runs() as traces:
        arguments = [name if word == "archive" else word for word in kills.beginning(server, kills.TINY, method)]
        called = call(tmp_path, *arguments)
        asked = [json.dumps(one.body) for one in server.asked]
    places = {
        "requests": asked,
        "events": events,
        "traces": list(traced(traces.traced_runs)),
        "output": [called.stdout, called.stderr],
    }
    for where, told in stored(tmp_path):
        places.setdefault(where, []).append(told)
    assert environment.seen >= 16  # it was there to be told: a batch, gate tasks and test tasks twice
    for place in ("requests", "events", "traces", "output", *TABLES):
        assert any(places[place]), place
    found = {w for w, told in places.items() if any(CANARY in t.lower() or str(NUMBER) in t for t in told)}
    assert found == set()
