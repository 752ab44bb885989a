"""A shop's program beside a scripted model: the folder of its author, and the commands that are run there."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.commands import call
from tests.wire.server import WireServer, by_kind

DESKS = ("billing", "tech", "sales")
FEW = ("--test", "0", "--gate", "mean", "--gate-size", "12")


@contextmanager
def open_shop(
    app: str,
    files: Mapping[str, Sequence[Mapping[str, str]]],
    model: Callable[..., Any],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Path]:
    """Stand in a folder with shop_app.py and files of tasks, whose model is served; yields the folder of runs."""
    monkeypatch.chdir(folder)
    Path("shop_app.py").write_text(app, encoding="utf-8")
    for file, rows in files.items():
        Path(file).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with WireServer(by_kind(model)) as server:
        monkeypatch.setenv("MY_MODEL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        yield folder / "home"


def evolve(home: Path, *more: str, model: str = "critic", iterations: int = 1, typed: str = "", code: int = 0) -> Any:
    """Evolve the program on desk.jsonl."""
    critic = ("--model", f"openai:{model}", "--base-url", os.environ["MY_MODEL"], "--retries", "0")
    tasks = ("--benchmark", "desk.jsonl", "--iterations", str(iterations), "--batch", "3", "--name", "desk")
    return call(home, "evolve", "shop_app.py:graph", *tasks, *critic, *more, code=code, stdin=typed)


def score(home: Path, graph: str, tasks: int = 30, file: str = "desk.jsonl") -> float:
    """The score of a graph on tasks of a file."""
    found = json.loads(call(home, "eval", graph, "--benchmark", file, "--json", "--tasks", str(tasks)).stdout)
    return float(found["systems"][-1]["score"])


def make_gradient(
    prompt: str = "", overall: str = "", concerns: str = "none", *, praises: bool = False
) -> dict[str, str]:
    """Make what a critic says of an agent: of its prompt, and of the team; nothing of its tools."""
    return {
        "system_prompt_feedback": prompt,
        "tool_feedback": "",
        "overall_feedback": overall,
        "concerns": concerns,
        "sentiment": "positive" if praises else "critical",
    }
