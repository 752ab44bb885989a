"""A run while its page is open: it must be as quick as without an open page."""

import asyncio
import contextlib
import os
import threading
import time
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from urllib.error import HTTPError
from urllib.request import urlopen

from bench.harness import CONCURRENCY, make_evaluation
from bench.measuring import Row
from bench.models import CannedChatModel
from selfwire.extras.pages.view.server import ViewServer
from selfwire.runs.record import JOURNAL, REQUEST, get_runs_folder
from selfwire.store.journal import Journal

TASKS, DELAY, PAIRS = 1000, 0.5, 5
STEP = 0.02


def measure_view(tasks: int = TASKS, delay: float = DELAY, pairs: int = PAIRS) -> list[Row]:
    """Measure runs with and without an open page by turns, each pair in the other order than the one before."""
    walls: dict[bool, list[float]] = {True: [], False: []}
    spawn = get_context("spawn")
    with TemporaryDirectory() as folder, ProcessPoolExecutor(1, mp_context=spawn) as runner:
        ours, theirs = spawn.Pipe()
        viewer = spawn.Process(target=_serve, args=(Path(folder), theirs), daemon=True)
        viewer.start()
        url = str(ours.recv())
        runner.submit(_run, Path(folder), "first", CONCURRENCY, 0.0).result()
        ours.send("")
        before = float(ours.recv())
        for pair in range(pairs):
            for opened in (True, False) if pair % 2 else (False, True):
                name = f"run-{pair}-{opened}"
                run = runner.submit(_run, Path(folder), name, tasks, delay)
                if opened:
                    _read_along(f"{url}runs/{name}", run)
                walls[opened].append(run.result())
        ours.send("")
        spent = float(ours.recv()) - before
        viewer.terminate()
    ratios = [seen / unseen for seen, unseen in zip(walls[True], walls[False], strict=True)]
    what = f"{tasks:,} tasks, {CONCURRENCY} at once, {delay * 1e3:.0f} ms per call"
    return [
        Row(what=f"{what}: without a page", value=median(walls[False]), unit="s"),
        Row(what=f"{what}: with an open page", value=median(walls[True]), unit="s"),
        Row(what=f"with a page / without, median of {pairs} pairs", value=median(ratios), unit="x", bound=1.02),
        Row(what="with a page / without, lowest pair", value=min(ratios), unit="x"),
        Row(what="with a page / without, highest pair", value=max(ratios), unit="x"),
        Row(what="the server while a page is open", value=spent / sum(walls[True]) * 100, unit="% of a processor"),
    ]


def _run(home: Path, name: str, tasks: int, delay: float) -> float:
    """Wall time of an evaluation whose journal is that of a run."""
    folder = get_runs_folder(home) / name
    with closing(Journal.create(folder / JOURNAL, run=name)) as journal:
        evaluation = make_evaluation(tasks, CannedChatModel(delay=delay), journal, folder / "results.jsonl")
        asyncio.run(journal.put_note(REQUEST, evaluation.request.model_dump(mode="json")))
        start = time.perf_counter()
        asyncio.run(evaluation.execute())
        return time.perf_counter() - start


def _serve(home: Path, asked: Connection) -> None:
    """Serve pages as the command does; tell the address, and the CPU seconds so far whenever they are asked for."""
    if hasattr(os, "nice"):
        os.nice(10)
    with ViewServer(home, port=0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        asked.send(server.url)
        with contextlib.suppress(EOFError):
            while True:
                asked.recv()
                asked.send(time.process_time())


def _read_along(page: str, run: "Future[float]") -> None:
    """Follow a run as an open page does until its end: hear of changes and fetch them."""
    while not run.done():
        try:
            with urlopen(f"{page}/events?stamp=", timeout=60) as events:
                for line in events:
                    if line.startswith(b"event: page"):
                        with urlopen(page, timeout=60) as fetched:
                            fetched.read()
                    if run.done():
                        return
        except HTTPError:  # it has not begun
            time.sleep(STEP)
