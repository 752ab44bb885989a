"""How far an evaluation goes beyond its budget of seconds, with quick replies and with a provider that hangs."""

import asyncio
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.harness import CONCURRENCY, make_evaluation
from bench.measuring import Row
from bench.models import CannedChatModel
from selfwire.core.errors import BudgetError
from selfwire.core.usage import Budget
from selfwire.store.journal import Journal

TASKS = 10_000


def measure_deadline(limit: float = 2.0, delays: tuple[float, ...] = (0.05, 600.0)) -> list[Row]:
    """Measure; there are more tasks than can be done."""
    return [row for delay in delays for row in _stop_evaluation(limit, delay)]


def _stop_evaluation(limit: float, delay: float) -> list[Row]:
    sent: list[float] = []
    chat = CannedChatModel(delay=delay, on_call=lambda: sent.append(time.monotonic()))
    with TemporaryDirectory() as folder:
        journal = Journal.create(Path(folder) / "journal.sqlite", run="bench")
        out, budget = Path(folder) / "results.jsonl", Budget(seconds=limit)
        evaluation = make_evaluation(TASKS, chat, journal, out, budget)
        start = time.monotonic() - evaluation.ledger.spent.seconds
        try:
            asyncio.run(evaluation.execute())
        except BudgetError:
            over = time.monotonic() - start - limit
        else:
            raise AssertionError(  # pragma: no cover - a bench is run by hand
                "the bench went wrong: all tasks were done before the budget was used up"
            )
        finally:
            journal.close()
    what = f"{CONCURRENCY} calls of {delay:g} s at once, a budget of {limit:g} s"
    late = max(0.0, max(sent, default=start) - start - limit)
    return [
        Row(what=f"{what}: seconds beyond it", value=over, unit="s", bound=1.0),
        Row(what=f"  its latest call ({len(sent):,} in all): seconds beyond it", value=late, unit="s", bound=1.0),
    ]
