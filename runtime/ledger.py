"""Ledgers: what a run may still spend, held before each call and settled after it."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from operator import sub
from typing import NamedTuple, Self

from selfwire.core.budget import Budget
from selfwire.core.errors import BudgetError, ConfigError, TaskBudgetError
from selfwire.core.scope import Scope
from selfwire.core.usage import ZERO_USAGE, CostRecord, Usage, UsageAccumulator


class ResourceAmount(NamedTuple):
    """An amount that is held: calls, tokens, dollars."""

    calls: float = 0
    tokens: float = 0
    dollars: float = 0

    @classmethod
    def of(cls, cost: CostRecord) -> Self:
        """The amount of a cost; an unknown price counts 0, as such models are refused a dollar budget."""
        return cls(cost.calls, cost.input_tokens + cost.output_tokens, cost.dollars or 0)

    def plus(self, other: "ResourceAmount") -> "ResourceAmount":
        """Both amounts together."""
        return ResourceAmount(self.calls + other.calls, self.tokens + other.tokens, self.dollars + other.dollars)

    def less(self, other: "ResourceAmount") -> "ResourceAmount":
        """What is left after another amount was taken, never below 0."""
        return ResourceAmount(*map(max, (0, 0, 0), map(sub, self, other)))

    def upto(self, other: "ResourceAmount") -> "ResourceAmount":
        """The smaller of both, one by one."""
        return ResourceAmount(*map(min, self, other))

    def only(self, names: frozenset[str]) -> "ResourceAmount":
        """The named amounts; the others are 0."""
        return ResourceAmount(
            *(amount if name in names else 0 for name, amount in zip(self._fields, self, strict=True))
        )


@asynccontextmanager
async def enforce_deadline(ledger: "Ledger") -> AsyncIterator[None]:
    """Cut off what waits when the ledger's seconds are over: a provider that hangs would outlast them.

    Raises:
        BudgetError: the seconds were over.
    """
    limit = ledger.budget.seconds
    left = None if limit is None else max(0.0, limit - ledger.spent.seconds)
    try:
        async with asyncio.timeout(left) as timer:
            yield
    except TimeoutError:
        if not timer.expired():
            raise
        ledger.budget.refuse(ledger.spent, Usage(seconds=1e-3), "the run")
        raise


ALL = frozenset(ResourceAmount._fields)


class Reservation:
    """A reservation; settle it with what the call cost, or leave the `with` block to give it back."""

    def __init__(self, ledger: "Ledger", wanted: ResourceAmount) -> None:
        self._ledger: Ledger | None = ledger
        self._wanted = wanted

    def settle(self, cost: Usage) -> None:
        """Replace what was held by what it cost.

        Raises:
            ValueError: it was settled before.
        """
        ledger, self._ledger = self._ledger, None
        if ledger is None:
            raise ValueError("this hold was settled before; hold again for another call")
        ledger.settle(self._wanted, cost)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._ledger is not None:
            self.settle(ZERO_USAGE)


class Ledger:
    """What was spent and is held under a budget; safe for threads and tasks.

    Ledgers nest: what is held in a child is held in every ledger above it, and each may refuse.

    Args:
        budget: the limits. Its `seconds` are wall time since the ledger was made, `elapsed` included.
        parent: the ledger above.
        spent: what was spent under this budget before, such as `journal.spend()` on resume; its seconds are
            those of calls, which overlap, and do not count.
        elapsed: wall time under this budget before, in seconds.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        budget: Budget = Budget(),
        parent: "Ledger | None" = None,
        spent: Usage = ZERO_USAGE,
        *,
        elapsed: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.budget = budget
        self.parent = parent
        self._lock: threading.RLock = parent._lock if parent else threading.RLock()
        self._limited = budget != Budget()
        self._spent, self._held = UsageAccumulator(spent), ResourceAmount()
        self._reserved, self._left = frozenset[str](), ResourceAmount()
        self._clock, self._since = clock, clock() - elapsed
        self._shares: dict[tuple[int, str, str], Ledger] = {}
        self._under_way: set[asyncio.Future[None]] = set()

    @property
    def spent(self) -> Usage:
        """What calls have cost; `seconds` is wall time."""
        with self._lock:
            spent = self._spent.usage
        return spent.replace(seconds=self._clock() - self._since)

    @property
    def counts_dollars(self) -> bool:
        """Whether a limit in dollars binds here or above."""
        return self.budget.dollars is not None or (self.parent is not None and self.parent.counts_dollars)

    def reserve(self, wanted: Usage, where: str) -> Reservation:
        """Reserve what a call may cost at most, here and above.

        Args:
            wanted: calls, tokens and dollars at most; seconds are not held but looked up on the clock.
            where: the place that the message names.

        Raises:
            BudgetError: it would exceed a limit; nothing is reserved.
            ConfigError: there is a limit in dollars, and the price of the call is not known.
        """
        if wanted.dollars is None and self.counts_dollars:
            raise ConfigError(f"a budget in dollars cannot bind in {where!r}: the model's price is not known")
        amount = ResourceAmount.of(wanted)
        with self._lock:
            self._refuse(amount, where)
            self._hold(amount)
        return Reservation(self, amount)

    def settle(self, wanted: ResourceAmount, cost: Usage) -> None:
        """Give back what was held and book what it cost, here and above; `Hold.settle` calls it."""
        with self._lock:
            self._spent.add(cost)
            drawn = ResourceAmount()
            if self._limited:
                drawn = ResourceAmount.of(cost).only(self._reserved).upto(self._left)
                self._held, self._left = self._held.less(wanted), self._left.less(drawn)
            if self.parent:
                self.parent.settle(wanted.only(ALL - self._reserved).plus(drawn), cost)

    def get_task_ledger(self, scope: Scope) -> "Ledger":
        """The ledger that pays for calls in a scope: the share of its task in its phase, or this one."""
        return self._shares.get((scope.iteration, scope.phase, scope.task), self)

    @asynccontextmanager
    async def track_call(self) -> AsyncIterator[None]:
        """While a call of a task's share is made: one that is refused ends the task, so it waits for the others.

        They are paid for, and would be cut off with the task.
        """
        loop = asyncio.get_running_loop()
        ended = loop.create_future()
        self._under_way.add(ended)
        try:
            yield
        except TaskBudgetError:
            self._under_way.discard(ended)
            if others := [one for one in self._under_way if one.get_loop() is loop]:
                await asyncio.wait(others)
            raise
        finally:
            self._under_way.discard(ended)
            ended.set_result(None)

    def reserve_task(self, scope: Scope, budget: Budget, spent: Usage = ZERO_USAGE) -> "Ledger":
        """Reserve a task's budget before its phase, so that timing does not decide which task is refused.

        Until `release`, calls at the scope's (iteration, phase, task) are paid out of the share.

        Args:
            scope: names iteration, phase and task.
            budget: limits of the task; calls, tokens and dollars that it names are reserved here, others not.
            spent: what the journal says was spent on the task before a resume (`journal.spend_at`); it is in
                this ledger's own `spent` already, so only the rest is reserved.

        Raises:
            BudgetError: this ledger cannot give that much.
        """
        share = Ledger(budget, self, spent, clock=self._clock)
        limits = ResourceAmount(budget.calls or 0, budget.tokens or 0, budget.dollars or 0)
        share._reserved = frozenset(name for name in ALL if getattr(budget, name) is not None)
        share._left = limits.less(ResourceAmount.of(spent)).only(share._reserved)
        with self._lock:
            self._refuse(share._left, f"{scope.phase}/{scope.task}")
            self._hold(share._left)
            self.release_task(scope)
            self._shares[scope.iteration, scope.phase, scope.task] = share
        return share

    def release_task(self, scope: Scope) -> None:
        """End the share of a task and give back what is left of it; does nothing where there is none."""
        with self._lock:
            if share := self._shares.pop((scope.iteration, scope.phase, scope.task), None):
                self.settle(share._left, ZERO_USAGE)
                share._left = ResourceAmount()

    def _refuse(self, wanted: ResourceAmount, where: str) -> None:
        if self._limited:
            self._refuse_here(wanted, where)
        if self.parent:
            self.parent._refuse(wanted.only(ALL - self._reserved), where)

    def _refuse_here(self, wanted: ResourceAmount, where: str) -> None:
        calls, tokens, dollars = self._held.plus(ResourceAmount.of(self._spent))
        seconds = self._clock() - self._since
        spent = Usage(calls=int(calls), input_tokens=int(tokens), dollars=dollars, seconds=seconds)
        asked = Usage(calls=int(wanted.calls), input_tokens=int(wanted.tokens), dollars=wanted.dollars)
        try:
            self.budget.refuse(spent, asked, where)
        except BudgetError as error:
            if not self._reserved:
                raise
            raise TaskBudgetError(f"the task has used up what was set aside for it: {error}") from None

    def _hold(self, wanted: ResourceAmount) -> None:
        if self._limited:
            self._held = self._held.plus(wanted)
        if self.parent:
            self.parent._hold(wanted.only(ALL - self._reserved))
