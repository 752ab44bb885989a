"""The cost of a reservation and its settlement: in memory, in SQLite, and in PostgreSQL if `SELFWIRE_BUDGET` is set."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.measuring import Row, measure_by_turns
from selfwire.core.usage import Budget, Usage
from selfwire.extras.cluster.shared_ledger import FILE, SERVER, open_ledger, share_ledger
from selfwire.models.budget import Ledger

BUDGET = Budget(calls=10**9, tokens=10**12)
CALL = Usage(calls=1, input_tokens=500, output_tokens=500)
CALLS, ROUNDS = 192, 5
AT_ONCE = 16
OTHERS = 15
"""Further processes whose rows are read."""


def measure_budgets() -> list[Row]:
    """Measure calls one after another, and several at once, each beside the rows of other processes."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        ledgers = {"in memory": Ledger(BUDGET)}
        for name, address in list_addresses(Path(folder)):
            stack.enter_context(closing(share_ledger(address, BUDGET)))
            for _ in range(OTHERS - 1):
                stack.enter_context(closing(open_ledger(address)))
            ledgers[name] = stack.enter_context(closing(open_ledger(address)))
        return [row for at_once in (1, AT_ONCE) for row in _measure(ledgers, at_once)]


def list_addresses(folder: Path) -> Iterator[tuple[str, str]]:
    """Names and addresses of the stores."""
    yield "SQLite", str(folder / FILE)
    if server := os.environ.get(SERVER):
        yield "PostgreSQL", f"{server}#bench"


def _measure(ledgers: dict[str, Ledger], at_once: int) -> Iterator[Row]:
    acts = [_make_act(ledger, at_once) for ledger in ledgers.values()]
    for name, took in zip(ledgers, measure_by_turns(*acts, rounds=ROUNDS), strict=True):
        what = f"reserve and settle, {name}, {at_once} at once"
        yield Row(what=what, value=took.wall / CALLS * 1e6, unit="us of wall time")
        yield Row(what=what, value=took.cpu / CALLS * 1e6, unit="us of CPU")


def _make_act(ledger: Ledger, at_once: int) -> Callable[[], Coroutine[Any, Any, None]]:
    async def work() -> None:
        for _ in range(CALLS // at_once):
            with ledger.track_call() as call:
                (await call.reserve(CALL, "bench")).settle(CALL)

    async def act() -> None:
        await asyncio.gather(*(work() for _ in range(at_once)))

    return act
