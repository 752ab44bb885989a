"""Budget ledgers: an amount is reserved before each call and settled after it."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
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

    @property
    def usage(self) -> Usage:
        """The amount as a usage, with all tokens as sent ones."""
        return Usage(calls=int(self.calls), input_tokens=int(self.tokens), dollars=self.dollars)

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
        raise  # pragma: no cover - `refuse` raises, as the same seconds are over


SHARE_USED_UP = "the task has used up the budget reserved for it"
"""Beginning of the error of a task whose share is used up."""
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

    def extend(self, more: Usage, where: str) -> bool:
        """Reserve another call's amount beside the first; False where it does not fit."""
        if self._ledger is None:
            return False
        try:
            self._ledger.reserve(more, where)._ledger = None  # held until this reservation is settled
        except BudgetError:
            return False
        self._wanted = self._wanted.plus(ResourceAmount.of(more))
        return True

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
        self._under_way = 0
        self._waiters: list[Future[None]] = parent._waiters if parent else []

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

    def is_out_of_time(self) -> bool:
        """Whether the seconds are used up."""
        return self.budget.seconds is not None and self._clock() - self._since > self.budget.seconds

    def settle(self, wanted: ResourceAmount, cost: Usage) -> None:
        """Give back a reserved amount and add the cost, here and above; `Reservation.settle` calls it."""
        with self._lock:
            self._wake_waiters()
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

    @contextmanager
    def track_call(self) -> Iterator["TrackedCall"]:
        """Track a call until its reply is recorded: others of this ledger are not refused before it ends."""
        call = TrackedCall(self)
        try:
            yield call
        finally:
            call.end()

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
        if refusal := self._find_refusal(wanted, where):
            raise refusal.error

    def _find_refusal(self, wanted: ResourceAmount, where: str) -> "_Refusal | None":
        """Who refuses an amount, this ledger or one above, and why; None if nobody does."""
        if self._limited and (error := self._try_to_refuse(wanted, where)):
            return _Refusal(self, error)
        return self.parent._find_refusal(wanted.only(ALL - self._reserved), where) if self.parent else None

    def _try_to_refuse(self, wanted: ResourceAmount, where: str) -> BudgetError | None:
        spent = self._spent.usage.replace(dollars=self._spent.dollars or 0.0, seconds=self._clock() - self._since)
        try:
            self.budget.refuse(spent, wanted.usage, where, self._held.usage)
        except BudgetError as error:
            if not self._reserved:
                return error
            return TaskBudgetError(f"{SHARE_USED_UP}: {str(error).partition(';')[0]}")
        return None

    def _hold(self, wanted: ResourceAmount) -> None:
        if self._limited:
            self._held = self._held.plus(wanted)
        if self.parent:
            self.parent._hold(wanted.only(ALL - self._reserved))

    def _get_chain(self) -> Iterator["Ledger"]:
        """This ledger and those above."""
        yield self
        if self.parent:
            yield from self.parent._get_chain()

    def _wake_waiters(self) -> None:
        woken = [*self._waiters]
        self._waiters.clear()
        for waiting in woken:
            waiting.set_result(None)


class _Refusal(NamedTuple):
    ledger: Ledger
    error: BudgetError


class TrackedCall:
    """A call from before its reservation until its reply is recorded; made by `Ledger.track_call`.

    What calls under way hold is not spent, so a call that does not fit waits until they end. A waiting call holds
    nothing and is not under way itself, so no two calls wait for each other.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._is_under_way = False

    async def reserve(self, wanted: Usage, where: str) -> Reservation:
        """Reserve as `Ledger.reserve`, after waiting for calls under way where it does not fit beside them.

        Raises:
            BudgetError: it does not fit though no call is under way any more, or the seconds are over.
        """
        while True:
            with self._ledger._lock:
                refusal = self._ledger._find_refusal(ResourceAmount.of(wanted), where)
                if refusal is None or not refusal.ledger._under_way or refusal.ledger.is_out_of_time():
                    return self._begin(wanted, where)
                waiting = Future[None]()
                waiting.set_running_or_notify_cancel()  # a cancelled call leaves it to whoever wakes it
                self._ledger._waiters.append(waiting)
            await asyncio.wrap_future(waiting)

    def _begin(self, wanted: Usage, where: str) -> Reservation:
        reservation = self._ledger.reserve(wanted, where)
        self._is_under_way = True
        for ledger in self._ledger._get_chain():
            ledger._under_way += 1
        return reservation

    def end(self) -> None:
        """Say that the call is over."""
        if self._is_under_way:
            with self._ledger._lock:
                for ledger in self._ledger._get_chain():
                    ledger._under_way -= 1
                self._ledger._wake_waiters()
