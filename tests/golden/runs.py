"""Golden runs: what small offline evolutions leave on disk, to the byte, without times and names of runs.

Everything is driven by the command line and read from the files that it writes, so the runs outlive changes of the
code between both. `python -m tests.golden record` writes them anew after a change of behaviour that is meant.
"""

import hashlib
import json
import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

from selfwire.cli import evolve
from tests import processes

FOLDER = Path(__file__).parents[1] / "fixtures" / "golden"
SIZES = "--iterations 3 --batch 6 --train 18 --gate mean --gate-size 6 --gate-tasks 6 --test 6 --concurrency 6".split()
TRAINING = "--train 6 --test 6 --updates 3 --batch 4".split()
METHODS = ("hiva", "hera", "tacomas", "dytopo", "evomas")
MEASURED = ("tacomas", "dytopo")
"""Methods that learn nothing between questions, which `evolve` refuses; here all of an evolution is run still."""
EVOLVED = {
    "archive": METHODS,
    "plancraft": ("hera", "tacomas"),
    "tariffs": ("hiva",),
}
"""Methods by benchmark: all on one, and on the others those that act or write tools there."""
TIMES = {"seconds", "at", "time", "created", "saved", "elapsed"}
LEARNED = {"evomas-archive", "evomas-trained"}
"""Cases whose router is a trained head: other processors round its weights in another way."""
WEIGHTS = {"router", "episode", "update"}
FINGERPRINT = re.compile(r"\b[0-9a-f]{16,}\b")


def list_cases() -> dict[str, list[str]]:
    """Arguments of the command line by the name of a case."""
    cases = {
        f"{method}-{benchmark}": ["evolve", method, "--benchmark", benchmark, *SIZES]
        for benchmark, methods in EVOLVED.items()
        for method in methods
    }
    cases["evomas-trained"] = ["train", "evomas", "--benchmark", "archive", *TRAINING]
    return cases


def record(name: str, home: Path) -> dict[str, Any]:
    """Run a case in a folder of its own and describe what it left there.

    Raises:
        AssertionError: the command failed.
    """
    run_command([*list_cases()[name], "--name", "team"], home)
    history = json.loads(run_command(["history", "team", "--json"], home))
    del history["tested"]  # a summary for readers, of what the trajectories say
    [journal] = (home / "runs").glob("*/journal.sqlite")
    with closing(sqlite3.connect(journal)) as rows:
        run, learned = journal.parent.name, name in LEARNED
        calls = describe_journal(rows, run, learned=learned, shared=name.startswith("hera"))
        return {"versions": describe(history, run, learned), **calls}


def run_command(arguments: list[str], home: Path) -> str:
    """Standard output of a command of selfwire's."""
    env = {**os.environ, "SELFWIRE_HOME": str(home), "LANGSMITH_TRACING": "false", "OMP_NUM_THREADS": "1"}
    function = "tests.golden.runs:run_measured" if arguments[1] in MEASURED else "tests.processes:run_selfwire"
    return processes.wait_for(processes.start(function, *arguments, cwd=home, env=env))[0]


def run_measured() -> None:
    """Run the command line, which evolves even where that learns nothing."""
    with patch.object(evolve, "refuse_method_that_learns_nothing"):
        processes.run_selfwire()


def describe_journal(rows: sqlite3.Connection, run: str, *, learned: bool, shared: bool) -> dict[str, Any]:
    """Digests of all calls by phase and of all trajectories by phase and task, and the notes of the evolution.

    Args:
        shared: whether places share replies of equal requests; which of them asks first is a matter of time, so that
            calls are compared without their places.
    """
    bodies = dict(rows.execute("SELECT hash, body FROM bodies"))
    calls: dict[str, list[str]] = {}
    query = "SELECT iteration, phase, kind, scope, request, attempt, state, reply FROM calls"
    for iteration, phase, kind, scope, request, attempt, state, reply in rows.execute(query):
        place = {name: value for name, value in json.loads(scope).items() if name != "run" and not shared}
        row = [place, request, attempt, state, describe(json.loads(reply) if reply else None, run)]
        calls.setdefault(f"{iteration}/{'all' if shared else phase}/{kind}", []).append(digest(row))
    notes = dict(rows.execute("SELECT name, value FROM notes WHERE name LIKE 'trajectories/%'"))
    return {
        "calls": {place: [len(found), digest(sorted(found))] for place, found in sorted(calls.items())},
        "trajectories": {
            name: {
                task: digest(describe(json.loads(bodies[body]), run, learned))
                for task, body in sorted(json.loads(value).items())
            }
            for name, value in sorted(notes.items())
        },
    }


def describe(value: Any, run: str, learned: bool = False) -> Any:
    """A value without times; the name of the run has a fixed word in its place, and long texts are digests.

    Args:
        learned: leave out what follows from the bits of learned weights: fractions and fingerprints.
    """
    if isinstance(value, dict):
        left_out = TIMES | WEIGHTS if learned else TIMES
        return {name: describe(inner, run, learned) for name, inner in sorted(value.items()) if name not in left_out}
    if isinstance(value, list):
        return [describe(inner, run, learned) for inner in value]
    if isinstance(value, str):
        value = value.replace(run, "RUN")
        value = FINGERPRINT.sub("FINGERPRINT", value) if learned else value
        return value if len(value) < 200 else digest(value)
    return None if learned and isinstance(value, float) else value


def digest(value: Any) -> str:
    """Twelve hexadecimal digits of a value's JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def list_differences(expected: Any, found: Any, at: str = "") -> list[str]:
    """One line per place at which two descriptions differ."""
    if isinstance(expected, dict) and isinstance(found, dict):
        names = sorted({*expected, *found})
        return [
            line for name in names for line in list_differences(expected.get(name), found.get(name), f"{at}/{name}")
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = enumerate(zip(expected, found, strict=True))
        return [line for number, pair in pairs for line in list_differences(*pair, f"{at}/{number}")]
    return [] if expected == found else [f"{at}: {str(expected)[:100]} -> {str(found)[:100]}"]
