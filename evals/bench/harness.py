"""What an evaluation costs beside its model: wall time against the ideal, and memory over many tasks.

Ideal is tasks x seconds of a call / concurrency: nothing but waiting. At 64 calls in flight of 50 ms each, all that
happens beside a call may take 0.8 ms of one core until it shows.
"""

import asyncio
import gc
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult

from selfwire.core.task import Splits, Task
from selfwire.evals.baselines.table import baseline
from selfwire.evals.bench.team import Row
from selfwire.evals.bench.wrapper import Scripted
from selfwire.evals.benchmarks.benchmark import Baseline, Benchmark
from selfwire.evals.evaluation.contestants import Found, Wiring, entrant
from selfwire.evals.evaluation.request import Entry, EvaluationRequest
from selfwire.evals.evaluation.run import Evaluation
from selfwire.evals.graders import load_grader
from selfwire.runtime.budget import Ledger
from selfwire.runtime.embeddings import HashingEmbedder
from selfwire.runtime.journal import Journal
from selfwire.runtime.metered import CallPolicy, MeteredModel

TASKS, MANY, CONCURRENCY = 1000, 10_000, 64
PEAK = 1024.0 if sys.platform != "darwin" else 1024.0**2
"""Units of ru_maxrss in a megabyte."""


class Slow(Scripted):
    """Answers after `delay` seconds."""

    delay: float = 0.05

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        await asyncio.sleep(self.delay)
        return self._generate(messages)


def run(tasks: int = TASKS, many: int = MANY, delays: Sequence[float] = (0.05, 0.5)) -> list[Row]:
    """Measure; one agent answers each task in one call."""
    rows = []
    for delay in delays:
        wall, cpu = _evaluated(tasks, delay)
        what = f"{tasks:,} tasks, {CONCURRENCY} at once, {delay * 1e3:.0f} ms per call"
        bound = 1.3 if delay <= min(delays) else None
        ideal = tasks * delay / CONCURRENCY
        rows.append(Row(what=f"{what}: wall / ideal", value=wall / ideal, unit="x", bound=bound))
        rows.append(Row(what=f"{what}: CPU per task", value=cpu / tasks * 1e3, unit="ms"))
    before = _peak()
    _evaluated(many, 0.0)
    grown = (_peak() - before) / (many - tasks) * 1e3
    return [*rows, Row(what=f"memory, from {tasks:,} to {many:,} tasks, tasks among it", value=grown, unit="kB/task")]


def _evaluated(tasks: int, delay: float) -> tuple[float, float]:
    """Wall and CPU seconds of an evaluation, its file of results among them."""
    gc.collect()
    with TemporaryDirectory() as folder:
        journal = Journal.create(Path(folder) / "journal.sqlite", run="bench")
        evaluation = _evaluation(tasks, delay, journal, Path(folder) / "results.jsonl")
        wall, cpu = time.perf_counter(), time.process_time()
        lines = asyncio.run(evaluation.go())
        took = time.perf_counter() - wall, time.process_time() - cpu
        journal.close()
    if lines[-1].errors or lines[-1].spend.calls != tasks:
        raise AssertionError(f"the bench went wrong: {lines[-1].errors} errors, {lines[-1].spend.calls} calls")
    return took


def _evaluation(tasks: int, delay: float, journal: Journal, out: Path) -> Evaluation:
    ledger = Ledger()
    model = MeteredModel(Slow(delay=delay), journal=journal, ledger=ledger, policy=CallPolicy(concurrency=CONCURRENCY))
    wiring = Wiring(model, {}, HashingEmbedder(), None)
    return Evaluation(
        request=EvaluationRequest(
            benchmark="bench", entries=(Entry(name="direct", target="direct"),), tasks=tasks, concurrency=CONCURRENCY
        ),
        benchmark=Benchmark(
            name="bench",
            description="",
            load=lambda seed, train, gate, test: Splits(train=()),
            environment=load_grader("exact"),
            toolbox={},
            tools=(),
            baseline=Baseline("empty answer", lambda question: "-"),
        ),
        workflows={"direct": Found(workflow=baseline("direct", model=model, toolbox={}).seed(()))},
        entered=lambda entry, one: entrant(entry, one, wiring),
        evolutions=(),
        tasks=[Task(id=f"t{number}", input=f"What is {number}?", reference="4") for number in range(tasks)],
        journal=journal,
        ledger=ledger,
        embedder="hashing",
        out=out,
    )


def _peak() -> float:
    """Most megabytes that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / PEAK
