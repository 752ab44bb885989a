"""Budget ledgers: an amount is reserved before each call and settled after it."""

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
    """An amount of calls, tokens and dollars."""

    calls: float = 0
    tokens: float = 0
    dollars: float = 0

    @classmethod
    def of(cls, cost: CostRecord) -> Self:
        """The amount of a cost; an unknown price counts 0, as no dollar budget is allowed with one."""
        return cls(cost.calls, cost.input_tokens + cost.output_tokens, cost.dollars or 0)

    def plus(self, other: "ResourceAmount") -> "ResourceAmount":
        """Both amounts together."""
        return ResourceAmount(self.calls + other.calls, self.tokens + other.tokens, self.dollars + other.dollars)

    def less(self, other: "ResourceAmount") -> "ResourceAmount":
        """This amount minus another one, never below 0."""
        return ResourceAmount(*map(max, (0, 0, 0), map(sub, self, other)))

    def only(self, names: frozenset[str]) -> "ResourceAmount":
        """The named amounts, with the others 0."""
        return ResourceAmount(**{name: getattr(self, name) for name in names})


@asynccontextmanager
async def enforce_deadline(ledger: "Ledger") -> AsyncIterator[None]:
    """Cancel the block with a BudgetError when the ledger's seconds are over, as a provider may hang for longer."""
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
    """A reserved amount; settle it with the cost of the call, or leave the `with` block to give it back."""

    def __init__(self, ledger: "Ledger", wanted: ResourceAmount) -> None:
        self._ledger: Ledger | None = ledger
        self._wanted = wanted

    def settle(self, cost: Usage) -> None:
        """Replace the reserved amount by the cost; raises ValueError if it was settled before."""
        ledger, self._ledger = self._ledger, None
        if ledger is None:
            raise ValueError("this reservation was settled before; make another one for another call")
        ledger.settle(self._wanted, cost)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._ledger is not None:
            self.settle(ZERO_USAGE)


class Ledger:
    """Keeps what was spent and reserved under a budget; safe for threads and tasks.

    Ledgers nest: a reservation in a child is one in every ledger above it too, and each may refuse it.

    Args:
        budget: the limits. Its `seconds` are wall time since the ledger was created, plus `elapsed`.
        parent: the ledger above.
        spent: the cost under this budget so far, such as `journal.spend()` on resume; its seconds are
            those of calls, which overlap, and do not count.
        elapsed: wall time under this budget so far, in seconds.
        clock: a monotonic clock in seconds.
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
        """The cost of calls; `seconds` is wall time."""
        with self._lock:
            spent = self._spent.usage
        return spent.replace(seconds=self._clock() - self._since)

    @property
    def counts_dollars(self) -> bool:
        """Whether there is a limit in dollars, here or above."""
        return self.budget.dollars is not None or (self.parent is not None and self.parent.counts_dollars)

    def reserve(self, wanted: Usage, where: str) -> Reservation:
        """Reserve the highest calls, tokens and dollars of a call, here and above; seconds are read from the clock.

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
        """Give back a reserved amount and add the cost, here and above; `Reservation.settle` calls it."""
        with self._lock:
            self._spent.add(cost)
            taken = ResourceAmount()
            if self._limited:
                taken = ResourceAmount(*map(min, ResourceAmount.of(cost).only(self._reserved), self._left))
                self._held, self._left = self._held.less(wanted), self._left.less(taken)
            if self.parent:
                self.parent.settle(wanted.only(ALL - self._reserved).plus(taken), cost)

    def get_task_ledger(self, scope: Scope) -> "Ledger":
        """The ledger for calls in a scope: that of its task in its phase if it was reserved, else this one."""
        return self._shares.get((scope.iteration, scope.phase, scope.task), self)

    @asynccontextmanager
    async def track_call(self) -> AsyncIterator[None]:
        """Track a call under a task's ledger while it runs.

        A refused call ends its task, so it first waits for the task's other calls: they are paid for, and would be
        cancelled with the task.
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

        Until `release_task`, calls at the scope's (iteration, phase, task) are paid from the task's ledger. The calls,
        tokens and dollars that the budget limits are reserved here, without `spent`, the task's cost before a resume
        (`journal.spend_at`), which this ledger's `spent` contains. Raises BudgetError if there is not that much left.
        """
        task_ledger = Ledger(budget, self, spent, clock=self._clock)
        limits = ResourceAmount(budget.calls or 0, budget.tokens or 0, budget.dollars or 0)
        task_ledger._reserved = frozenset(name for name in ALL if getattr(budget, name) is not None)
        task_ledger._left = limits.less(ResourceAmount.of(spent)).only(task_ledger._reserved)
        with self._lock:
            self._refuse(task_ledger._left, f"{scope.phase}/{scope.task}")
            self._hold(task_ledger._left)
            self.release_task(scope)
            self._shares[scope.iteration, scope.phase, scope.task] = task_ledger
        return task_ledger

    def release_task(self, scope: Scope) -> None:
        """Close the ledger of a task and give back the rest of it; does nothing if there is none."""
        with self._lock:
            if task_ledger := self._shares.pop((scope.iteration, scope.phase, scope.task), None):
                self.settle(task_ledger._left, ZERO_USAGE)
                task_ledger._left = ResourceAmount()

    def _refuse(self, wanted: ResourceAmount, where: str) -> None:
        if self._limited:
            self._refuse_here(wanted, where)
        if self.parent:
            self.parent._refuse(wanted.only(ALL - self._reserved), where)

    def _refuse_here(self, wanted: ResourceAmount, where: str) -> None:
        calls, tokens, dollars = self._held.plus(ResourceAmount.of(self._spent))
        seconds = self._clock() - self._since
        spent = Usage(calls=int(calls), input_tokens=int(tokens), dollars=dollars, seconds=seconds)
        wanted_usage = Usage(calls=int(wanted.calls), input_tokens=int(wanted.tokens), dollars=wanted.dollars)
        try:
            self.budget.refuse(spent, wanted_usage, where)
        except BudgetError as error:
            if not self._reserved:
                raise
            raise TaskBudgetError(f"the task has used up the budget reserved for it: {error}") from None

    def _hold(self, wanted: ResourceAmount) -> None:
        if self._limited:
            self._held = self._held.plus(wanted)
        if self.parent:
            self.parent._hold(wanted.only(ALL - self._reserved))
