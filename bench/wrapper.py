"""The cost of the wrapper around models per call, against the bare client.

Bare and wrapped calls of one model, which answers at once, take turns in one process; rows have medians over rounds.
CPU time counts all threads, so it includes the journal's writer.
"""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.measuring import Row, measure_by_turns
from bench.models import CannedChatModel
from selfwire.core.chat import ChatMessage
from selfwire.core.scope import Scope
from selfwire.models.metered_chat import MeteredModel
from selfwire.models.structured import to_langchain
from selfwire.store.journal import Journal

CALLS = 200
AT_ONCE = 16
MESSAGES = (ChatMessage.system("You check claims. " * 40), ChatMessage.user("Is this claim right? " * 40))


def measure_wrapper(rounds: int = 7) -> list[Row]:
    """Measure CPU and wall time per call, bare and wrapped, and the journal's size per call."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "bench.sqlite"
        journal = Journal.create(file, run="bench")
        rows = _measure(CannedChatModel(), journal, rounds)
        calls = journal.spend().calls
        journal.close()
        size = file.stat().st_size / calls
    return [*rows, Row(what="journal, per call", value=size, unit="bytes")]


def _measure(model: CannedChatModel, journal: Journal, rounds: int) -> list[Row]:
    memory, file = MeteredModel(model, journal=Journal.memory()), MeteredModel(model, journal=journal)
    in_memory, in_file, side_by_side = count(), count(), count(-1, -1)  # each batch has calls that are not replayed
    batches: dict[str, Callable[[], Awaitable[None]]] = {
        "bare client": lambda: _call_bare(model),
        "wrapper, journal in memory": lambda: _call_wrapped(memory, next(in_memory)),
        "wrapper, journal in a file": lambda: _call_wrapped(file, next(in_file)),
        f"wrapper, journal in a file, {AT_ONCE} at once": lambda: _call_wrapped(file, next(side_by_side), AT_ONCE),
        "wrapper, replayed": lambda: _call_wrapped(file, 0),  # as recorded in the warm-up
    }
    times = dict(zip(batches, measure_by_turns(*batches.values(), rounds=rounds), strict=True))
    cpu = {what: taken.cpu / CALLS * 1e6 for what, taken in times.items()}
    wall = times["wrapper, journal in a file"].wall / CALLS * 1e6
    own = cpu["wrapper, journal in a file"] - cpu["bare client"]
    return [
        *(Row(what=f"{what}: CPU per call", value=value, unit="µs") for what, value in cpu.items()),
        Row(what="wrapper, journal in a file: wall time per call", value=wall, unit="µs"),
        Row(what="wrapper's own CPU per call", value=own, unit="µs", bound=1000),
    ]


async def _call_bare(model: CannedChatModel) -> None:
    for _ in range(CALLS):
        await model.ainvoke(to_langchain(MESSAGES))


async def _call_wrapped(model: MeteredModel, number: int, at_once: int = 1) -> None:
    async def worker(first: int) -> None:
        for visit in range(first, CALLS, at_once):
            await model.generate(MESSAGES, scope=Scope(run="bench", task=str(number), visit=visit))

    await asyncio.gather(*(worker(first) for first in range(at_once)))
