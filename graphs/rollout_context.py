"""Environment, journal and limits of rollouts, and the calls that are reserved for each of their tasks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass

from selfwire.core.budget import Budget
from selfwire.core.errors import BudgetError
from selfwire.core.protocols import Environment
from selfwire.core.scope import Scope
from selfwire.core.usage import Usage
from selfwire.runtime.journal import Journal
from selfwire.runtime.ledger import Ledger
from selfwire.runtime.threads import run_in_thread

ONE_CALL = Usage(calls=1)
JUDGED = Budget(calls=2)
"""Budget of a judge per answer: it is called again if its reply is not a score."""


@dataclass(frozen=True)
class RolloutContext:
    """Environment, journal and limits of rollouts.

    Attributes:
        calls_per_task: model calls that are reserved for each run of a task before it starts, under a budget of calls.
        samples: runs of a task, which share its calls.
        capped: whether a task may never take more than `calls_per_task`, budget or not, resumed or not.
        keep_errors_below: share of the trajectories that may end as infrastructure errors before all are refused.
        replays_grades: whether grades are rows of the journal; off where trajectories are kept with their grades.
        judge: pays for a model that grades, whose calls do not count as the task's; None where `ledger` pays.
    """

    environment: Environment
    journal: Journal
    ledger: Ledger
    concurrency: int
    calls_per_task: int
    keep_errors_below: float
    samples: int = 1
    capped: bool = False
    replays_grades: bool = True
    judge: Ledger | None = None


class TaskReservations:
    """Reserves the calls of a task before it starts, strictly in the order of the tasks.

    A task waits while earlier ones may still give back unused calls. Once none of them runs it has all that is left,
    and no other task starts before it ends; it is refused where nothing is left. So spending decides which task is
    refused, and timing does not.
    """

    def __init__(self, rollout_context: RolloutContext) -> None:
        self.rollout_context, self.running = rollout_context, 0
        self.turn, self.freed = asyncio.Lock(), asyncio.Event()

    def of(self, place: Scope) -> AbstractAsyncContextManager[None]:
        """The reservation of a task while it runs; entering it may wait, and raises BudgetError where calls run out."""
        is_bound = self.rollout_context.capped or self.rollout_context.ledger.budget.calls is not None
        return self._share(place) if is_bound else nullcontext()

    @asynccontextmanager
    async def _share(self, place: Scope) -> AsyncIterator[None]:
        async with self.turn:
            if not await self._reserve(place):
                yield  # alone, on what is left
                return
            self.running += 1
        try:
            yield
        finally:
            self._release(place)
            self.running -= 1
            self.freed.set()

    async def _reserve(self, place: Scope) -> bool:
        """Reserve a task's calls; False where fewer are left, which the task may have."""
        before = await self.rollout_context.journal.spend_at(
            run=place.run, iteration=place.iteration, phase=place.phase, task=place.task
        )
        calls = self.rollout_context.calls_per_task * self.rollout_context.samples
        share = Budget(calls=calls + (0 if self.rollout_context.capped else before.calls))
        while True:
            self.freed.clear()
            try:
                if self.rollout_context.ledger.is_shared:
                    await run_in_thread(self._reserve_now, place, share, before)
                else:
                    self._reserve_now(place, share, before)
            except BudgetError:
                self._release(place)
                if not self.running:
                    with self.rollout_context.ledger.track_call() as call:  # it may wait for other processes
                        (await call.reserve(ONE_CALL, f"{place.phase}/{place.task}")).settle(Usage())
                    return False
                await self.freed.wait()
            else:
                return True

    def _reserve_now(self, place: Scope, share: Budget, before: Usage) -> None:
        self.rollout_context.ledger.reserve_task(place, share, before)
        if self.rollout_context.judge:
            self.rollout_context.judge.reserve_task(place, JUDGED)

    def _release(self, place: Scope) -> None:
        for ledger in (self.rollout_context.ledger, self.rollout_context.judge):
            if ledger:
                ledger.release_task(place)
