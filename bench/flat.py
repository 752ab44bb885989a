"""Memory, file descriptors and threads over many tasks of an evaluation, and over as many invocations of one graph.

The first fifth warms up: caches fill, and the allocator finds its size. What grows after it grows with every task. An
evaluation keeps its tasks and the grades of the answers until the end, so a part of its growth is meant.
"""

import asyncio
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bench.harness import make_evaluation
from bench.measuring import Row, map_in_processes
from bench.models import CannedChatModel
from selfwire.core.plugins import DEFAULT_METHOD
from selfwire.graphs.build import build_graph
from selfwire.graphs.method import find_method
from selfwire.store.journal import Journal

TITLE = "flat: memory, file descriptors and threads"
MANY = 10_000
SAMPLES = 10
WARM = SAMPLES // 5
AT_ONCE = 8
"""Invocations of the graph at the same time."""


class Held(NamedTuple):
    """Resources of this process: megabytes, open files, threads."""

    memory: float
    files: int
    threads: int

    @classmethod
    def now(cls) -> "Held":
        """By Linux's files on processes."""
        said = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        return cls(int(said["VmRSS"].split()[0]) / 1024, len(os.listdir("/proc/self/fd")), int(said["Threads"]))


class Sampler:
    """Counts events and takes `SAMPLES` samples at even distances."""

    def __init__(self, many: int) -> None:
        self.many, self.seen = many, 0
        self.found: list[Held] = []

    def __call__(self) -> None:
        """Count one."""
        self.seen += 1
        if self.seen % max(1, self.many // SAMPLES) == 0:
            self.found.append(Held.now())


def measure(many: int = MANY) -> list[Row]:
    """Measure each in a fresh process."""
    parts = {f"an evaluation of {many:,} tasks": sample_evaluation, f"{many:,} invocations of one graph": sample_graph}
    rows = []
    for what, sample in parts.items():
        [sampled] = map_in_processes(sample, [many], workers=1)
        rows += make_rows(what, many, sampled)
    return rows


def make_rows(what: str, many: int, found: list[Held]) -> list[Row]:
    """Resources after the first fifth and at the end."""
    warm, last = found[WARM - 1], found[-1]
    grown = (last.memory - warm.memory) * 1024 / (many * (1 - WARM / SAMPLES))
    return [
        Row(what=f"{what}: memory after a fifth", value=warm.memory, unit="MB"),
        Row(what=f"{what}: memory at the end", value=last.memory, unit="MB"),
        Row(what=f"{what}: growth after the first fifth", value=grown, unit="kB each"),
        Row(what=f"{what}: open files at the end", value=last.files, unit="files", bound=warm.files),
        Row(what=f"{what}: threads at the end", value=last.threads, unit="threads", bound=warm.threads),
    ]


def sample_evaluation(many: int) -> list[Held]:
    """Evaluate; a sample at every tenth of the calls."""
    sampler = Sampler(many)
    with TemporaryDirectory() as folder:
        journal = Journal.create(Path(folder) / "journal.sqlite", run="bench")
        asyncio.run(make_evaluation(many, CannedChatModel(on_call=sampler), journal, Path(folder) / "rows").execute())
        journal.close()
    return sampler.found


def sample_graph(many: int) -> list[Held]:
    """Invoke a compiled graph, half of the time by `invoke` from threads and half by `ainvoke`."""
    sampler, graph = Sampler(many), build_graph(find_method(DEFAULT_METHOD)).compile()
    questions = iter(range(many))

    async def work(ask: Callable[[dict[str, str]], object]) -> None:
        for number in questions:
            given = {"question": f"What is {number} plus 4?"}
            await (asyncio.to_thread(partial(ask, given)) if ask == graph.invoke else graph.ainvoke(given))
            sampler()

    async def work_all() -> None:
        await asyncio.gather(*(work(graph.invoke if number % 2 else graph.ainvoke) for number in range(AT_ONCE)))

    asyncio.run(work_all())
    return sampler.found
