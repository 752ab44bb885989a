"""Evaluations that tests ask for, and what came of them."""

import json
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from selfwire.evals.table import TaskRow, read_results
from selfwire.models.sync import run_sync
from selfwire.runs.evaluation import start_evaluation
from selfwire.runs.spec import EvaluateSpec, SystemSpec
from tests.wire.langsmith_server import LangSmithServer, Row


def request(*targets: str, **changes: Any) -> EvaluateSpec:
    entries = tuple(SystemSpec(name=target, target=target) for target in targets)
    return EvaluateSpec(**{"benchmark": "archive", "tasks": 4, "entries": entries, "concurrency": 2, **changes})


def rows_of(home: Path, asked: EvaluateSpec, told: Any = None, run: str = "r") -> dict[str, dict[str, TaskRow]]:
    with start_evaluation(asked, home, run=run) as evaluation, told(evaluation) if told else nullcontext():
        run_sync(evaluation.execute())
    return read_rows(home / "runs" / run / "results.jsonl")


def read_rows(path: Path) -> dict[str, dict[str, TaskRow]]:
    found: dict[str, dict[str, TaskRow]] = {}
    for row in read_results(path)[1]:
        found.setdefault(row.target, {})[row.task] = row
    return found


def comparable(rows: dict[str, dict[str, TaskRow]]) -> dict[str, list[TaskRow]]:
    return {name: [one.replace(seconds=0, trajectory="") for one in of.values()] for name, of in rows.items()}


def task_file(folder: Path, references: Sequence[str]) -> str:
    lines = [json.dumps({"id": f"t{n}", "input": f"What is {n}?", "reference": r}) for n, r in enumerate(references)]
    (folder / "mine.jsonl").write_text("\n".join(lines))
    return str(folder / "mine.jsonl")


def metadata(run: Row) -> Row:
    found: Row = (run.get("extra") or {}).get("metadata") or {}
    return found


def task_of(server: LangSmithServer, run: Row) -> str:
    return str(server.examples[run["reference_example_id"]]["metadata"]["task"])


def told_of(server: LangSmithServer, run: Row) -> dict[str, Row]:
    return {one["key"]: one for one in server.feedback if one["run_id"] == run["id"]}
