"""What the wrapper around models costs per call, beside the bare client.

Bare and wrapped calls of one scripted model, which answers at once, take turns in one process; medians over
rounds are told. CPU time counts all threads, so the journal's writer is in it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from selfwire.bench.team import Row
from selfwire.core.chat import ChatMessage
from selfwire.core.scope import Scope
from selfwire.runtime.journal import Journal
from selfwire.runtime.messages import to_langchain
from selfwire.runtime.metered import MeteredModel

CALLS = 200
AT_ONCE = 16
ASKED = (ChatMessage.system("You check claims. " * 40), ChatMessage.user("Is this claim right? " * 40))
Batch = Callable[[int], Awaitable[None]]


class Scripted(BaseChatModel):
    """Answers at once with a text of usual length."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        usage: Any = {"input_tokens": 400, "output_tokens": 100, "total_tokens": 500}
        return ChatResult(generations=[ChatGeneration(message=AIMessage("It is. " * 60, usage_metadata=usage))])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._generate(messages)


def measure_wrapper(rounds: int = 7) -> list[Row]:
    """Measure CPU and wall time per call, bare and wrapped, and the journal's size per call."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "bench.sqlite"
        journal = Journal.create(file, run="bench")
        rows = asyncio.run(_measured(Scripted(), journal, rounds))
        calls = journal.spend().calls
        journal.close()
        size = file.stat().st_size / calls
    return [*rows, Row(what="journal, per call", value=size, unit="bytes")]


async def _measured(model: BaseChatModel, journal: Journal, rounds: int) -> list[Row]:
    memory, file = MeteredModel(model, journal=Journal.memory()), MeteredModel(model, journal=journal)
    batches: dict[str, Batch] = {
        "bare client": lambda _: _bare(model),
        "wrapper, journal in memory": lambda number: _wrapped(memory, number),
        "wrapper, journal in a file": lambda number: _wrapped(file, number),
        f"wrapper, journal in a file, {AT_ONCE} at once": lambda number: _wrapped(file, -number, AT_ONCE),
        "wrapper, replayed": lambda _: _wrapped(file, 0),
    }
    took: dict[str, list[tuple[float, float]]] = {what: [] for what in batches}
    for number in range(rounds + 1):  # round 0 warms up, and records what is replayed
        for what, batch in batches.items():
            took[what].append(await _timed(batch, number))
    cpu = {what: median(cpu for cpu, _ in times[1:]) for what, times in took.items()}
    rows = [Row(what=f"{what}: CPU per call", value=seconds, unit="µs") for what, seconds in cpu.items()]
    own = cpu["wrapper, journal in a file"] - cpu["bare client"]
    wall = median(wall for _, wall in took["wrapper, journal in a file"][1:])
    return [
        *rows,
        Row(what="wrapper, journal in a file: wall time per call", value=wall, unit="µs"),
        Row(what="wrapper's own CPU per call", value=own, unit="µs", bound=1000),
    ]


async def _timed(batch: Batch, number: int) -> tuple[float, float]:
    """CPU and wall time per call in microseconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    await batch(number)
    return (time.process_time() - cpu) / CALLS * 1e6, (time.perf_counter() - wall) / CALLS * 1e6


async def _bare(model: BaseChatModel) -> None:
    for _ in range(CALLS):
        await model.ainvoke(to_langchain(ASKED))


async def _wrapped(model: MeteredModel, number: int, at_once: int = 1) -> None:
    async def worker(first: int) -> None:
        for visit in range(first, CALLS, at_once):
            await model.generate(ASKED, scope=Scope(run="bench", task=str(number), visit=visit))

    await asyncio.gather(*(worker(first) for first in range(at_once)))
