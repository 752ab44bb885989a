"""The kinds of runs that chaos disturbs: how each begins and is resumed, and what must be equal after it."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from selfwire.evals.table import read_results
from selfwire.runs.evaluation import RESULTS
from selfwire.runs.record import JOURNAL, PARTS, list_run_names
from selfwire.store.journal import Journal
from tests import kills, machines
from tests.journals import read_journal

Result = dict[str, Any]
"""What must be equal, by name."""
STUDY = "study.jsonl"
TINY_TRAINING = ("--updates", "2", "--batch", "4", "--train", "4", "--test", "2", "--set", "stages=1")
SHARED = ("--concurrency", "2", "--budget-calls", "9999")
SMALL_EVALUATION = ("--benchmark", "archive", *SHARED)
TINY_EVOLUTION = tuple("--gate mean --iterations 1 --batch 2 --gate-tasks 2 --train 4 --gate-size 4".split())
SHARED_EVOLUTION = tuple(
    "--gate mean --iterations 1 --batch 8 --gate-tasks 6 --train 12 --gate-size 8 --test 6".split()
)
SHARED_TRAINING = (
    "--updates", "2", "--batch", "8", "--train", "4", "--test", "4", "--set", "stages=1", "--set", "samples=2",
)  # fmt: skip
TRAINING = ("train", "evomas", "--benchmark", "archive", "--name", kills.NAME)


@dataclass(frozen=True)
class Kind:
    """A kind of run.

    Attributes:
        arguments: of the command line, without those about the model.
        read: reads what must be equal out of a home and what was printed.
        resumes: whether `--resume` goes on with it; it is begun anew otherwise.
        wired: whether its model is behind a server, which counts requests; offline otherwise.
        weight: how often it is drawn.
        machines: where its workers run and share their budget, if its workers are disturbed: processes with a file or
            PostgreSQL, or a Ray cluster with PostgreSQL.
    """

    name: str
    arguments: tuple[str, ...]
    read: Callable[[Path, str], Result]
    resumes: bool = True
    wired: bool = True
    weight: int = 4
    machines: Literal["", "file", "server", "ray"] = ""

    def begin(self, url: str, home: Path) -> tuple[str, ...]:
        """Arguments that begin a run with a server's model."""
        model = ("--model", "openai:gpt-4o-mini", "--base-url", url, "--retries", "8", "--embedder", "hashing")
        return (*(word.format(home=home) for word in self.arguments), *(model if self.wired else ()))

    def resume(self, home: Path, run: str) -> tuple[str, ...]:
        """Arguments that resume a run."""
        workers = self.arguments[-2:] if "--workers" in self.arguments else ()
        return (self.arguments[0], "--resume", run, *workers)


def read_evolution(home: Path, printed: str) -> Result:
    """What an evolution or a training leaves behind."""
    folder = home / "runs" / kills.run_of(home)
    with closing(read_journal(folder / JOURNAL)) as journal:
        calls, trajectories = Counter(read_places(journal)), asyncio.run(kills.trajectories(journal))
    found = asyncio.run(kills.result(home))._asdict()
    return {**found, "calls": calls, "trajectories": trajectories, "leftover": list_leftover(folder)}


def read_evaluation(home: Path, printed: str) -> Result:
    """What an evaluation leaves behind."""
    folder = home / "runs" / list_run_names(home)[0]
    header, rows = read_results(folder / RESULTS)
    assert header.complete
    assert len({(row.target, row.task) for row in rows}) == len(rows)
    calls = Counter(place for journal in journals(home) for place in read_places(journal))
    plain = [row.replace(seconds=0, trajectory="") for row in rows]
    return {"rows": plain, "spend": read_spend(home), "calls": calls, "leftover": list_leftover(folder)}


def list_leftover(folder: Path) -> list[str]:
    """What workers have left in the folder of a run, which is nothing if all went well."""
    return sorted(one.name for one in (*folder.glob(f"{PARTS}/*"), *folder.glob("budget*")))


def read_places(journal: Journal) -> list[tuple[str, ...]]:
    """Each call of a journal, where and how it ended.

    Not its phase: of equal requests of two phases at once, as of replays of two prompts, the first is sent, for both.
    """
    rows = asyncio.run(journal.rows())
    return [(row.kind, row.state, row.scope.task, row.scope.node, row.request) for row in rows]


def read_study(home: Path, printed: str) -> Result:
    """What a study leaves behind; its seeds come as they are done."""
    _, *rows = [json.loads(line) for line in (home / STUDY).read_text().splitlines()]
    return {"rows": sorted(({**row, "seconds": 0} for row in rows), key=lambda row: int(row["seed"]))}


def read_answer(home: Path, printed: str) -> Result:
    """What one question leaves behind."""
    return {"answer": printed}


def journals(home: Path) -> Iterator[Journal]:
    """All journals below a home, also those of worker processes and of evolutions inside of comparisons."""
    for path in sorted(home.rglob(JOURNAL)):
        with closing(read_journal(path)) as journal:
            yield journal


def read_spend(home: Path) -> tuple[int, int]:
    """Calls and tokens of all journals below a home."""
    spent = [journal.spend() for journal in journals(home)]
    return sum(one.calls for one in spent), sum(one.tokens for one in spent)


def count_open_calls(home: Path) -> int:
    """Model calls that were reserved and neither settled nor failed."""
    return machines.count_open_calls(home.rglob(JOURNAL))


def make_evolution(method: str) -> Kind:
    """An evolution of a method."""
    return Kind(f"evolve {method}", (*name_evolution(method), *TINY_EVOLUTION, "--test", "2"), read_evolution)


def make_evolution_on_processes(method: str) -> Kind:
    """An evolution of a method with several tasks per phase; a single one would go to no worker."""
    arguments = (*name_evolution(method), *SHARED_EVOLUTION, *SHARED)
    return Kind(f"evolve {method} on processes", arguments, read_evolution, weight=1, machines="file")


def name_evolution(method: str) -> tuple[str, ...]:
    """Arguments that evolve a method."""
    return ("evolve", method, "--benchmark", "archive", "--name", kills.NAME)


KINDS = (
    *(make_evolution(method) for method in ("hiva", "hera", "evomas")),
    *(
        Kind(f"eval {method}", ("eval", method, "--benchmark", "archive", "--tasks", "3"), read_evaluation)
        for method in ("dytopo", "tacomas")
    ),
    Kind("train", (*TRAINING, *TINY_TRAINING), read_evolution),
    Kind("eval", ("eval", "hiva", "--benchmark", "archive", "--tasks", "6"), read_evaluation),
    Kind(
        "compare",
        ("compare", "hiva", "single", "--benchmark", "archive", "--tasks", "3", "--calls-per-task", "30",
         *TINY_EVOLUTION),
        read_evaluation,
    ),
    Kind("run", ("run", "hera", "Which year is it?", "--benchmark", "archive"), read_answer, resumes=False),
    Kind(
        "compare --workers",
        ("compare", "single", "cot", "--benchmark", "archive", "--tasks", "40", "--budget-calls", "9999",
         "--calls-per-task", "30", "--workers", "2"),
        read_evaluation,
        wired=False,
        weight=1,
    ),
    Kind(
        "eval on processes",
        ("eval", "self-refine", *SMALL_EVALUATION, "--tasks", "24"),
        read_evaluation,
        weight=2,
        machines="file",
    ),
    Kind(
        "compare on processes",
        ("compare", "hiva", "self-refine", *SMALL_EVALUATION, "--tasks", "6", *TINY_EVOLUTION),
        read_evaluation,
        weight=2,
        machines="server",
    ),
    *(make_evolution_on_processes(method) for method in ("hiva", "hera")),
    Kind("train on processes", (*TRAINING, *SHARED_TRAINING, *SHARED), read_evolution, weight=1, machines="file"),
    Kind(
        "compare on Ray",
        ("compare", "hiva", "self-refine", *SMALL_EVALUATION, "--tasks", "8", "--evolve", "none"),
        read_evaluation,
        weight=1 if find_spec("ray") else 0,
        machines="ray",
    ),
    Kind(
        "ablate --workers",
        ("ablate", "dytopo", "--variants", "full", "--seeds", "2", "--test", "2", "--embedder", "hashing",
         "--out", f"{{home}}/{STUDY}", "--workers", "2"),
        read_study,
        resumes=False,
        wired=False,
        weight=1,
    ),
)  # fmt: skip
