"""Workers against one process: wall time of an evaluation that only computes, and the CPU that dealing out costs.

The stand-in answers, so a task is nothing but computing. The times of two workers include their start, so a short
evaluation gains less: one line says how many seconds they take beside half of one process's time. Two processors that
share a core or its caches are not twice as quick as one: the control says what is left to gain, by separate
evaluations at once in processes that run already.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from bench.measuring import Elapsed, Row
from selfwire.core.plugins import DEFAULT_METHOD
from selfwire.extras.cluster.evaluation_workers import run_on_workers
from selfwire.extras.cluster.executors import prepare_workers
from selfwire.models.sync import run_sync
from selfwire.runs.evaluation import start_evaluation
from selfwire.runs.spec import EvaluateSpec, SystemSpec, WorkerOptions
from selfwire.tools.sandbox.sandbox_waiting import ProcessTimer

SYSTEMS, TASKS, WORKERS = 24, 1000, 2
AIM = 1.8
"""Times as quick as one process, on processors that do nothing else."""


def measure_workers(systems: int = SYSTEMS, tasks: int = TASKS, rounds: int = 1) -> list[Row]:
    """Measure one process, separate ones, two workers, and a Ray cluster of one node where Ray is installed."""
    places = [("processes", WorkerOptions(workers=WORKERS))]
    with _open_ray() as address, ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as separate:
        if address:
            places.append(("Ray", WorkerOptions(workers=WORKERS, executor="ray", ray_address=address)))
        _run_separately(separate, WORKERS, 1)  # they start, and import what they need
        turns = [
            (_run_separately(separate, systems, tasks), *_measure_round(systems, tasks, places)) for _ in range(rounds)
        ]
        least, single, *others = zip(*turns, strict=True)
    alone = median(took.wall for took in single)
    rows = [Row(what=f"one process, {systems} x {tasks:,} tasks", value=alone, unit="s")]
    best = median(took.wall / base.wall for took, base in zip(least, single, strict=True))
    rows.append(
        Row(what=f"control, {WORKERS} separate evaluations of a part each: wall / one process", value=best, unit="x")
    )
    for (name, _), taken in zip(places, others, strict=True):
        wall = median(took.wall / base.wall for took, base in zip(taken, single, strict=True))
        rows.append(Row(what=f"{WORKERS} workers by {name}: wall / one process", value=wall, unit="x", bound=1 / AIM))
    more = median(took.wall - base.wall / WORKERS for took, base in zip(others[0], single, strict=True))
    rows.append(Row(what=f"{WORKERS} processes: wall beside 1/{WORKERS} of one process", value=more, unit="s"))
    cpu = median(took.cpu / base.cpu for took, base in zip(others[0], single, strict=True))
    return [*rows, Row(what=f"{WORKERS} processes: CPU / one process", value=cpu, unit="x")]


def _measure_round(systems: int, tasks: int, places: list[tuple[str, WorkerOptions]]) -> list[Elapsed]:
    return [_run(systems, tasks, WorkerOptions(workers=1)), *(_run(systems, tasks, options) for _, options in places)]


def _run_separately(processes: ProcessPoolExecutor, systems: int, tasks: int) -> Elapsed:
    """An evaluation in each process, with its part of the systems, at once."""
    start, part = Elapsed.now(), systems // WORKERS
    for running in [processes.submit(_run, part, tasks, WorkerOptions(workers=1)) for _ in range(WORKERS)]:
        running.result()
    return start.until_now()


def _run(systems: int, tasks: int, options: WorkerOptions) -> Elapsed:
    entries = tuple(SystemSpec(name=f"s{number}", target=DEFAULT_METHOD) for number in range(systems))
    request = EvaluateSpec(benchmark="archive", tasks=tasks, entries=entries)
    start, cpu = Elapsed.now(), ProcessTimer(os.getpid())
    prepare_workers(options)
    with TemporaryDirectory() as home, start_evaluation(request, Path(home), run="bench") as run:
        lines = run_sync(run.execute()) if options.is_local else run_on_workers(run, Path(home), options)
    took = Elapsed(start.until_now().wall, cpu.look(0))
    if any(line.errors or line.tasks != tasks for line in lines):
        raise AssertionError("the bench went wrong: a task ended as an error")  # pragma: no cover - run by hand
    return took


@contextmanager
def _open_ray() -> Iterator[str]:
    """The address of a cluster of one node; "" where Ray is not installed."""
    if find_spec("ray") is None:
        yield ""
        return
    node: Any = import_module("ray.cluster_utils").Cluster(
        initialize_head=True, head_node_args={"num_cpus": WORKERS, "include_dashboard": False}
    )
    try:
        yield node.address
    finally:
        node.shutdown()
