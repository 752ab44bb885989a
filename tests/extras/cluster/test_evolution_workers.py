"""Evolutions and trainings whose tasks run on workers end as those of one process."""

import asyncio
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing, nullcontext, suppress
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from selfwire.core.errors import BudgetError, ConfigError, WorkerError
from selfwire.core.usage import Budget
from selfwire.extras.cluster import evolution_workers
from selfwire.extras.cluster.child_processes import ProcessExecutor
from selfwire.extras.cluster.evolution_workers import Workers, roll_out
from selfwire.extras.cluster.jobs import Ended, Event, Job, JobSettings
from selfwire.graphs.evolve import EvolutionConfig
from selfwire.models.sync import run_sync
from selfwire.runs.evolution import HERE, OpenEvolution, TaskPlace, resume_evolution, start_evolution
from selfwire.runs.record import JOURNAL, PARTS, ResumeChanges, get_runs_folder
from selfwire.runs.spec import EvolveSpec, Models, Sizes, WorkerOptions
from selfwire.runs.training import start_training
from tests.extras.cluster.interrupted import APP, InterruptedExecutor

pytestmark = pytest.mark.slow  # worker processes take seconds to start


def make_request(method: str = "hiva", **more: Any) -> EvolveSpec:
    return EvolveSpec(
        method=method,
        benchmark="archive",
        models=Models(embedder="hashing"),
        sizes=Sizes(train=8, gate=6, test=4),
        evolution=EvolutionConfig(name="team", iterations=1, batch=6, gate="mean", gate_tasks=4, calls_per_task=20),
        baselines=False,
        **more,
    )


def on_workers(workers: int = 2, **more: Any) -> TaskPlace:
    return Workers(WorkerOptions(workers=workers), **more)


def read_run(home: Path) -> tuple[set[tuple[Any, ...]], list[str]]:
    """Calls and trajectories of run r, without times."""
    with closing(sqlite3.connect(get_runs_folder(home) / "r" / JOURNAL)) as found:
        rows = found.execute("SELECT kind, scope, request, attempt, state, reply, calls, input_tokens FROM calls")
        calls = {tuple(_drop_times(value) for value in row) for row in rows}
        listed = found.execute("SELECT name FROM notes WHERE name LIKE 'trajectories/%' ORDER BY name").fetchall()
    return calls, [name for (name,) in listed]


def _drop_times(value: Any) -> Any:
    return re.sub(r'"seconds":[\d.e-]+', "", value) if isinstance(value, str) else value


def finish(run: OpenEvolution) -> dict[str, Any]:
    """What an evolution ends with, but for times."""
    final = run_sync(run.execute())
    head = run_sync(run.library.head("team"))
    sides = {side: (one["workflow"], one["scores"]) for side, one in final["test"].items()}
    return {"head": head.fingerprint, "verdict": final["verdict"], "train": final["train"], "test": sides}


def evolve(home: Path, request: EvolveSpec, place: TaskPlace) -> dict[str, Any]:
    with start_evolution(request, home, run="r", place=place) as run:
        return finish(run)


@pytest.mark.parametrize("method", ["hiva", "hera"])
def test_an_evolution_ends_the_same_on_workers(method: str, tmp_path: Path) -> None:
    alone = evolve(tmp_path / "one", make_request(method), HERE)
    assert evolve(tmp_path / "two", make_request(method), on_workers()) == alone
    assert read_run(tmp_path / "two") == read_run(tmp_path / "one")
    assert not [*(get_runs_folder(tmp_path / "two") / "r" / PARTS).glob("*")]


class SilentExecutor:
    """Workers that never end."""

    workers = 2

    def __init__(self) -> None:
        self.started = 0

    def start(self, job: Job) -> None:
        self.started += 1

    def wait(self) -> Sequence[Event | Ended]:
        time.sleep(0.01)
        return ()


async def test_an_evolution_is_cancelled_while_its_workers_are_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = SilentExecutor()
    monkeypatch.setattr(evolution_workers, "open_workers", lambda options: nullcontext(silent))
    with start_evolution(make_request(), tmp_path, place=on_workers()) as run:
        running = asyncio.create_task(run.execute())
        while not silent.started:  # noqa: ASYNC110 - in a thread
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(running, 5)


def test_a_worker_that_does_not_see_the_folder_says_so(tmp_path: Path) -> None:
    path = tmp_path / "elsewhere" / JOURNAL
    phase = {"scope": {}, "explores": False, "samples": 1}
    settings = JobSettings(home=None).model_dump(mode="json")
    with pytest.raises(ConfigError, match=f"{path} is not there on .*; name a folder with --home that all machines"):
        roll_out(lambda event: None, str(path), "evolve", [], phase, settings)


def test_a_training_ends_the_same_on_workers(tmp_path: Path) -> None:
    train = {"updates": 2, "batch": 4, "checkpoint_every": 1}
    request = make_request("evomas", config={"stages": 1, "samples": 2, "train": train}).replace(
        sizes=Sizes(train=2, gate=0, test=2), evolution=EvolutionConfig(name="team", iterations=0, gate="off")
    )
    found = []
    for name, place in (("one", TaskPlace()), ("two", on_workers())):
        with start_training(request, tmp_path / name, run="r", place=place) as training:
            team = run_sync(training.execute())
            found.append((team.fingerprint, [line.score for line in run_sync(training.tested(team))]))
    assert found[0] == found[1]
    assert read_run(tmp_path / "two") == read_run(tmp_path / "one")


def test_a_budget_binds_all_workers_and_a_resume_ends_the_same(tmp_path: Path) -> None:
    alone = evolve(tmp_path / "one", make_request(), TaskPlace())
    most = sum(row[-2] or 0 for row in read_run(tmp_path / "one")[0]) // 2
    request = make_request(budget=Budget(calls=most))
    with start_evolution(request, tmp_path / "two", run="r", place=on_workers()) as run:
        with pytest.raises(BudgetError, match="calls"):
            run_sync(run.execute())
        assert 0 < run.ledger.spent.calls <= run.spent.calls <= most
        stopped = run.spent
    with resume_evolution("r", tmp_path / "two", changes=ResumeChanges({"calls": 10_000}), place=on_workers(3)) as run:
        assert run.spent.calls == stopped.calls
        assert finish(run) == alone
    assert read_run(tmp_path / "two")[0] == read_run(tmp_path / "one")[0]


def test_a_worker_that_dies_gives_its_tasks_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start, started = ProcessExecutor.start, count(1)

    def start_and_kill(self: ProcessExecutor, job: Job) -> None:
        start(self, job)
        if next(started) in (2, 5):
            worker, _ = [*self._busy.values()][-1]
            os.kill(worker.process.pid, signal.SIGKILL)

    alone = evolve(tmp_path / "one", make_request(), TaskPlace())
    monkeypatch.setattr(ProcessExecutor, "start", start_and_kill)
    assert evolve(tmp_path / "two", make_request(), on_workers()) == alone
    assert read_run(tmp_path / "two") == read_run(tmp_path / "one")


def test_workers_that_always_die_stop_the_run_which_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = ProcessExecutor.start

    def start_and_kill(self: ProcessExecutor, job: Job) -> None:
        start(self, job)
        worker, _ = [*self._busy.values()][-1]
        os.kill(worker.process.pid, signal.SIGKILL)

    with monkeypatch.context() as patched:
        patched.setattr(ProcessExecutor, "start", start_and_kill)
        with (
            start_evolution(make_request(), tmp_path / "two", run="r", place=on_workers()) as run,
            pytest.raises(WorkerError, match="3 workers in a row have died"),
        ):
            run_sync(run.execute())
    with resume_evolution("r", tmp_path / "two") as run:
        resumed = finish(run)
    assert resumed == evolve(tmp_path / "one", make_request(), TaskPlace())


KILLED = """
from pathlib import Path
from tests.extras.cluster.test_evolution_workers import evolve, make_request, on_workers

if __name__ == "__main__":
    evolve(Path({home!r}), make_request(), on_workers())
"""


def test_killed_beside_its_workers_it_goes_on_and_ends_the_same(tmp_path: Path) -> None:
    home, program = tmp_path / "two", tmp_path / "killed.py"
    program.write_text(KILLED.format(home=str(home)))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[3]), *sys.path])}
    with subprocess.Popen([sys.executable, str(program)], env=env) as process:
        parts = get_runs_folder(home) / "r" / PARTS
        while process.poll() is None and not any(_count_calls(path) for path in parts.glob(f"*/{JOURNAL}")):
            time.sleep(0.01)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    with resume_evolution("r", home, place=on_workers()) as run:
        assert finish(run) == evolve(tmp_path / "one", make_request(), TaskPlace())
    assert read_run(home) == read_run(tmp_path / "one")


def interrupt_own_graph(folder: Path, signal_number: int) -> None:
    """Evolve a graph of one's own until its first slice is done."""
    os.chdir(folder)
    interrupted = InterruptedExecutor(signal_number)
    pytest.MonkeyPatch().setattr(evolution_workers, "open_workers", lambda options: nullcontext(interrupted))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        evolve(folder / "home", make_request("app.py:graph"), on_workers())


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGKILL])
def test_tasks_of_a_graph_that_were_done_before_the_run_was_stopped_are_not_run_again(
    signal_number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    for folder in (whole, stopped):
        folder.mkdir()
        (folder / "app.py").write_text(APP)
    monkeypatch.chdir(whole)
    expected = evolve(whole / "home", make_request("app.py:graph"), TaskPlace())
    process = get_context("spawn").Process(target=interrupt_own_graph, args=(stopped, signal_number))
    process.start()
    process.join()
    asked = (stopped / "asked.txt").read_text().splitlines()
    assert 0 < len(asked) < len((whole / "asked.txt").read_text().splitlines())
    monkeypatch.chdir(stopped)
    with resume_evolution("r", stopped / "home") as run:
        assert finish(run) == expected
    lines = ((folder / "asked.txt").read_text().splitlines() for folder in (whole, stopped))
    assert sorted(next(lines)) == sorted(next(lines))


def _count_calls(path: Path) -> int:
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(path)) as found:
        return int(found.execute("SELECT count(*) FROM calls WHERE state = 'settled'").fetchone()[0])
    return 0
