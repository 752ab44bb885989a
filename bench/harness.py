"""The cost of an evaluation without its model: wall time against the ideal, and CPU.

Ideal is tasks x seconds of a call / concurrency: nothing but waiting. With 64 calls in flight of 50 ms each, the work
around a call may take 0.8 ms of one core before it shows. The benchmark's trivial rule answers every task too, and a
thousand tasks are 16 rounds of calls, which alone take 1.02 of ideal. The comparison is a bare graph of one node: no
journal, no grades, no results, no rule.
"""

import asyncio
import gc
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from bench.measuring import Elapsed, Row, get_median
from bench.models import CannedChatModel
from selfwire.core.task import Splits, Task
from selfwire.evals.baselines import make_baseline
from selfwire.evals.benchmarks.benchmark import Benchmark, TrivialRule
from selfwire.evals.graders import load_grader
from selfwire.evals.table import SystemSummary
from selfwire.models.budget import Ledger
from selfwire.models.embeddings import HashingEmbedder
from selfwire.models.limits import CallSettings
from selfwire.models.metered_chat import MeteredModel
from selfwire.runs.evaluation import OpenEvaluation
from selfwire.runs.inputs import SystemParts
from selfwire.runs.spec import EvaluateSpec, SystemSpec
from selfwire.runs.systems import LoadedTeam
from selfwire.store.journal import Journal

TASKS, CONCURRENCY = 1000, 64
BARE = "a bare graph of one node"


class TimedEvaluation(OpenEvaluation):
    """An evaluation that measures the writing of its results."""

    writing: Elapsed

    async def write_results(self, *, complete: bool) -> tuple[SystemSummary, ...]:
        """Write the results, and measure the time that it takes."""
        start = Elapsed.now()
        lines = await super().write_results(complete=complete)
        self.writing = start.until_now()
        return lines


def measure_evaluation_harness(tasks: int = TASKS, delays: Sequence[float] = (0.05, 0.5), rounds: int = 3) -> list[Row]:
    """Measure; one agent answers each task in one call."""
    rows = []
    for delay in delays:
        is_hardest = delay <= min(delays)
        bare, taken = [], []
        for _ in range(rounds):
            taken.append(_run_evaluation(tasks, delay))
            if is_hardest:
                bare.append(_run_bare(tasks, delay))
        whole, results = zip(*taken, strict=True)
        what = f"{tasks:,} tasks, {CONCURRENCY} at once, {delay * 1e3:.0f} ms per call"
        ideal = tasks * delay / CONCURRENCY
        rows.append(_ratio(what, whole, ideal, bound=1.3 if is_hardest else None))
        if is_hardest:
            rows += [_row(tasks, "all", whole), _row(tasks, "results and table", results)]
            rows += [_ratio(BARE, bare, ideal), _row(tasks, BARE, bare)]
    return rows


def _ratio(what: str, took: Sequence[Elapsed], ideal: float, bound: float | None = None) -> Row:
    return Row(what=f"{what}: wall / ideal", value=get_median(took).wall / ideal, unit="x", bound=bound)


def _row(tasks: int, part: str, took: Sequence[Elapsed]) -> Row:
    wall, cpu = get_median(took)
    return Row(what=f"  CPU per task, {part} ({wall * 1e3:,.0f} ms of wall)", value=cpu / tasks * 1e3, unit="ms")


def _run_evaluation(tasks: int, delay: float) -> tuple[Elapsed, Elapsed]:
    gc.collect()
    with TemporaryDirectory() as folder:
        journal = Journal.create(Path(folder) / "journal.sqlite", run="bench")
        evaluation = make_evaluation(tasks, CannedChatModel(delay=delay), journal, Path(folder) / "results.jsonl")
        start = Elapsed.now()
        lines = asyncio.run(evaluation.execute())
        whole = start.until_now()
        journal.close()
    if lines[-1].errors or lines[-1].spend.calls != tasks:
        raise AssertionError(  # pragma: no cover - a bench is run by hand
            f"the bench went wrong: {lines[-1].errors} errors, {lines[-1].spend.calls} calls"
        )
    return whole, evaluation.writing


def make_evaluation(tasks: int, chat: CannedChatModel, journal: Journal, out: Path) -> TimedEvaluation:
    """An evaluation of one agent that answers each task in one call."""
    ledger = Ledger()
    model = MeteredModel(chat, journal=journal, ledger=ledger, policy=CallSettings(concurrency=CONCURRENCY))
    parts = SystemParts(model, {}, HashingEmbedder(), None)
    return TimedEvaluation(
        request=EvaluateSpec(
            benchmark="bench",
            entries=(SystemSpec(name="direct", target="direct"),),
            tasks=tasks,
            concurrency=CONCURRENCY,
        ),
        benchmark=Benchmark(
            name="bench",
            description="",
            load=lambda seed, train, gate, test: Splits(train=()),
            environment=load_grader("exact"),
            baseline=TrivialRule("empty answer", lambda question: "-"),
        ),
        workflows={"direct": LoadedTeam(workflow=make_baseline("direct").seed())},
        parts=parts,
        evolutions=(),
        tasks=[Task(id=f"t{number}", input=f"What is {number}?", reference="4") for number in range(tasks)],
        journal=journal,
        ledger=ledger,
        embedder="hashing",
        folder=Path(),
        out=out,
    )


class _HarnessState(TypedDict):
    question: str
    answer: str


def _run_bare(tasks: int, delay: float) -> Elapsed:
    gc.collect()
    start = Elapsed.now()
    asyncio.run(_ask_all(_make_graph(CannedChatModel(delay=delay)), tasks))
    return start.until_now()


def _make_graph(model: CannedChatModel) -> "CompiledStateGraph[_HarnessState, None, _HarnessState, _HarnessState]":
    async def answer(state: _HarnessState) -> dict[str, str]:
        reply = await model.ainvoke([("system", "Answer."), ("user", state["question"])])
        return {"answer": reply.text}

    graph = StateGraph(_HarnessState)
    graph.add_node("single", answer)
    graph.add_edge(START, "single")
    graph.add_edge("single", END)
    return graph.compile()


async def _ask_all(graph: "CompiledStateGraph[_HarnessState, None, _HarnessState, _HarnessState]", tasks: int) -> None:
    waiting = iter(range(tasks))

    async def worker() -> None:
        for number in waiting:
            await graph.ainvoke({"question": f"What is {number}?", "answer": ""})

    await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))
