"""Prices of models, and budgets while calls are made: amounts reserved before a call and settled after it.

Prices are list prices, which users can override; an unknown price is None, never 0.
"""

import asyncio
import functools
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple, Self

from pydantic import Field, TypeAdapter, ValidationError

from selfwire.core.errors import BudgetError, ConfigError, TaskBudgetError, format_faults
from selfwire.core.scope import Scope
from selfwire.core.usage import GIVE_PRICE, ZERO_USAGE, Budget, Usage, UsageAccumulator
from selfwire.core.values import FrozenModel, format_object, format_validation_error, read_file_text
from selfwire.models.limits import Pool, ResourceAmount

PER_TOKENS = 1_000_000


def parse_budget(given: Budget | Mapping[str, float] | None) -> Budget:
    """Make a budget of what a user gives: a budget, or its limits by name; None for no limit.

    Raises:
        ConfigError: it is no budget, or a limit is 0, which allows no call.
    """
    try:
        found = Budget.model_validate({} if given is None else given)
    except ValidationError as error:
        raise ConfigError(
            f'budget {format_object(given)} cannot be used: {format_faults(error)}; write it as budget={{"calls": 100}}'
        ) from None
    if nothing := found.find_zero():
        raise ConfigError(f"a budget of 0 {nothing} allows no call; give more, or leave {nothing} out for no limit")
    return found


class Price(FrozenModel):
    """US dollars per million tokens sent (`input`) and received (`output`).

    Args:
        cached: for tokens sent that the provider has in its cache; None for the price of `input`.
    """

    input: float = Field(ge=0, le=1e9)
    output: float = Field(ge=0, le=1e9)
    cached: float | None = Field(default=None, ge=0, le=1e9)

    def cost(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> float:
        """Compute the dollars for tokens; `cached_tokens` is the part of `input_tokens` from the provider's cache."""
        cached = self.input if self.cached is None else self.cached
        fresh = self.input * (input_tokens - cached_tokens)
        return (fresh + cached * cached_tokens + self.output * output_tokens) / PER_TOKENS


_TABLE: TypeAdapter[dict[str, Price]] = TypeAdapter(dict[str, Price])


class Prices(FrozenModel):
    """Prices by "provider:model"; `offline` costs nothing.

    List prices change: the shipped prices are estimates for planning; the provider's bill counts.
    """

    table: Mapping[str, Price]

    @classmethod
    def load(cls, overrides: Path | None = None) -> Self:
        """Load the shipped list prices, overridden by a JSON file; raises ConfigError if the file has no prices."""
        if overrides is None:
            return cls(table=_load_shipped())
        try:
            more = _TABLE.validate_json(read_file_text(overrides))
        except (OSError, UnicodeDecodeError, ValidationError) as error:
            form = '{"openai:my-model": {"input": 0.5, "output": 1.5}} in dollars per million tokens'
            raise ConfigError(f"prices {overrides} cannot be used: {_describe_fault(error)}; write {form}") from None
        return cls(table={**_load_shipped(), **more})

    def cost(self, model: str, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> float | None:
        """Compute the dollars for a model's tokens; None if its price is not known."""
        price = self.find(model)
        return None if price is None else price.cost(input_tokens, output_tokens, cached_tokens)

    def find(self, model: str) -> Price | None:
        """Find the price of a model; None if it is not known."""
        return Price(input=0.0, output=0.0) if model == "offline" else self.table.get(model)

    def require(
        self,
        model: str,
        fault: str = "a budget in dollars cannot bind",
        instead: str = "set --budget-tokens or --budget-calls in its place",
    ) -> None:
        """Check that the price of a model is known.

        Args:
            fault: what cannot be done without it.
            instead: what needs no price.

        Raises:
            ConfigError: the price is not known.
        """
        if self.cost(model, 0, 0) is None:
            raise ConfigError(f"{fault}: the price of {model} is not known; {GIVE_PRICE}, or {instead}")


def _describe_fault(error: OSError | UnicodeDecodeError | ValidationError) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error) if isinstance(error, UnicodeDecodeError) else format_validation_error(error.errors()[0])


@functools.cache
def _load_shipped() -> dict[str, Price]:
    return _TABLE.validate_python(json.loads((files("selfwire.models") / "prices.json").read_text("utf-8")))


@asynccontextmanager
async def enforce_deadline(ledger: "Ledger") -> AsyncIterator[None]:
    """Cancel the block with a BudgetError when the ledger's seconds are used up, even if a provider hangs."""
    limit = ledger.budget.seconds
    left = None if limit is None else max(0.0, limit - ledger.spent.seconds)
    try:
        async with asyncio.timeout(left) as timer:
            yield
    except TimeoutError:
        if not timer.expired():
            raise
        refuse_beyond(ledger.budget, ledger.spent, Usage(seconds=1e-3), "the run")
        raise  # pragma: no cover - `refuse` raises, as the same seconds are over


SHARE_USED_UP = "the task has used up the budget reserved for it"
"""Beginning of the error message of a task that has used up its budget."""
MORE_CALLS = "--calls-per-task sets how many model calls a task may make"
ALL_KINDS = frozenset(ResourceAmount._fields)


class Reservation:
    """A reserved amount; `settle` replaces it by the cost of the call, the end of the `with` block gives it back."""

    def __init__(self, ledger: "Ledger", wanted: ResourceAmount) -> None:
        self._ledger: Ledger | None = ledger
        self._wanted = wanted

    def settle(self, cost: Usage) -> None:
        """Replace the reserved amount by the cost; raises ValueError at the second time."""
        ledger, self._ledger = self._ledger, None
        if ledger is None:
            raise ValueError("this reservation was settled before; make another one for another call")
        ledger.settle(self._wanted, cost)

    def extend(self, more: Usage, where: str) -> bool:
        """Reserve another call's amount in addition; False if it does not fit."""
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
    """The spent and reserved amounts under a budget; safe for threads and tasks.

    Ledgers nest: a reservation in a ledger counts in every ledger above it too, and each may refuse it.

    Args:
        budget: the limits. Its `seconds` are wall time since the ledger was created, plus `elapsed`.
        parent: the ledger above.
        spent: the cost under this budget so far, such as `journal.spend()` on resume; its seconds do not count, as
            they are those of calls, which overlap.
        elapsed: wall time under this budget so far, in seconds.
        clock: a monotonic clock in seconds.
        pool: the budget that this ledger shares with ledgers of other processes.
    """

    def __init__(
        self,
        budget: Budget = Budget(),
        parent: "Ledger | None" = None,
        spent: Usage = ZERO_USAGE,
        *,
        elapsed: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        pool: Pool | None = None,
    ) -> None:
        self.budget = budget
        self.parent = parent
        self._lock: threading.RLock = parent._lock if parent else threading.RLock()
        self._own_pool = pool
        self.pool: Pool | None = parent.pool if parent else pool
        self._limited = pool is None and budget != Budget()
        self._spent, self._reserved_amount = UsageAccumulator(spent), ResourceAmount()
        # of a task's ledger: the kinds that the ledger above has reserved for it, and the part not spent yet
        self._reserved_kinds, self._reserved_rest = frozenset[str](), ResourceAmount()
        self._is_of_task = False
        self._clock, self._since = clock, clock() - elapsed
        self._shares: dict[tuple[int, str, str], Ledger] = {}
        self._under_way = 0
        self._waiters: list[Future[None]] = parent._waiters if parent else []

    @property
    def spent(self) -> Usage:
        """The cost of calls; `seconds` is wall time."""
        if self._own_pool:
            return self._own_pool.spent
        return self.spent_here.replace(seconds=self._clock() - self._since)

    @property
    def spent_here(self) -> Usage:
        """The cost of this process's calls; `seconds` is the sum of their times."""
        with self._lock:
            return self._spent.usage

    @property
    def is_shared(self) -> bool:
        """Whether the budget is shared with other processes, so that a reservation may block."""
        return self.pool is not None

    @property
    def counts_dollars(self) -> bool:
        """Whether this ledger or a ledger above has a limit in dollars."""
        return self.budget.dollars is not None or (self.parent is not None and self.parent.counts_dollars)

    def reserve(self, wanted: Usage, where: str) -> Reservation:
        """Reserve the highest calls, tokens and dollars of a call, here and in the ledgers above.

        Raises:
            BudgetError: a limit would be exceeded, or the seconds are used up; nothing is reserved.
            ConfigError: there is a limit in dollars, and the price of the call is not known.
        """
        amount = self._to_amount(wanted, where)
        with self._take_from_pool(amount, where), self._lock:
            self._refuse(amount, where)
            self._add_reserved(amount)
        return Reservation(self, amount)

    def is_out_of_time(self) -> bool:
        """Whether the seconds are used up."""
        return self.budget.seconds is not None and self.spent.seconds > self.budget.seconds

    def close(self) -> None:
        """Leave the shared budget, if there is one; no call may be under way."""
        if self._own_pool:
            self._own_pool.close()

    def settle(self, wanted: ResourceAmount, cost: Usage) -> None:
        """Give back a reserved amount and add the cost, here and above; called by `Reservation.settle`."""
        with self._lock:
            self._wake_waiters()
            self._spent.add(cost)
            taken = ResourceAmount()
            if self._limited:
                prepaid = ResourceAmount.of(cost).only(self._reserved_kinds)
                taken = ResourceAmount(*map(min, prepaid, self._reserved_rest))
                self._reserved_amount = self._reserved_amount.less(wanted)
                self._reserved_rest = self._reserved_rest.less(taken)
            if self.parent:
                self.parent.settle(wanted.only(ALL_KINDS - self._reserved_kinds).plus(taken), cost)
            elif self._own_pool:
                self._own_pool.settle(wanted, cost)

    def get_task_ledger(self, scope: Scope) -> "Ledger":
        """Find the ledger that pays for calls in a scope: the reserved ledger of its task and phase, else this one."""
        return self._shares.get((scope.iteration, scope.phase, scope.task), self)

    @contextmanager
    def track_call(self) -> Iterator["TrackedCall"]:
        """Track a call until its reply is recorded; other calls wait for its end instead of being refused."""
        call = TrackedCall(self)
        try:
            yield call
        finally:
            call.end()

    def reserve_task(self, scope: Scope, budget: Budget, spent: Usage = ZERO_USAGE) -> "Ledger":
        """Reserve a task's budget before its phase, so that timing does not decide which task is refused.

        Until `release_task`, calls at the scope's (iteration, phase, task) are paid from the task's ledger. This ledger
        reserves the calls, tokens and dollars that the budget limits, minus `spent`.

        Args:
            spent: the task's cost before a resume (`journal.spend_at`), which this ledger has counted.

        Raises:
            BudgetError: there is not enough left.
        """
        task_ledger = Ledger(budget, self, spent, clock=self._clock)
        limits = ResourceAmount(budget.calls or 0, budget.tokens or 0, budget.dollars or 0)
        task_ledger._reserved_kinds = frozenset(name for name in ALL_KINDS if getattr(budget, name) is not None)
        task_ledger._reserved_rest = limits.less(ResourceAmount.of(spent)).only(task_ledger._reserved_kinds)
        where = f"{scope.phase}/{scope.task}"
        with self._take_from_pool(task_ledger._reserved_rest, where), self._lock:
            self._refuse(task_ledger._reserved_rest, where)
            self._add_reserved(task_ledger._reserved_rest)
            return self._replace_task_ledger(scope, task_ledger)

    def limit_task(self, scope: Scope, budget: Budget, spent: Usage = ZERO_USAGE) -> "Ledger":
        """Limit a task as `reserve_task` does, without reserving its budget: each call takes from what this ledger has.

        Args:
            spent: the task's cost before a resume, which this ledger has counted.
        """
        return self._replace_task_ledger(scope, Ledger(budget, self, spent, clock=self._clock))

    def _replace_task_ledger(self, scope: Scope, task_ledger: "Ledger") -> "Ledger":
        task_ledger._is_of_task = True
        with self._lock:
            self.release_task(scope)
            self._shares[scope.iteration, scope.phase, scope.task] = task_ledger
        return task_ledger

    def release_task(self, scope: Scope) -> None:
        """Close the ledger of a task, if there is one, and give back the rest of its budget."""
        with self._lock:
            if task_ledger := self._shares.pop((scope.iteration, scope.phase, scope.task), None):
                self.settle(task_ledger._reserved_rest, ZERO_USAGE)
                task_ledger._reserved_rest = ResourceAmount()

    def _to_amount(self, wanted: Usage, where: str) -> ResourceAmount:
        if wanted.dollars is None and self.counts_dollars:
            raise ConfigError(f"a budget in dollars cannot bind in {where!r}: the model's price is not known")
        return ResourceAmount.of(wanted)

    @contextmanager
    def _take_from_pool(self, wanted: ResourceAmount, where: str) -> Iterator[None]:
        """Take an amount from the shared budget, if there is one; an error in the block gives the amount back."""
        if self.pool is None:
            yield
            return
        taken = self._get_amount_at_root(wanted)
        self.pool.take(taken, where)
        try:
            yield
        except BaseException:
            self.pool.settle(taken, ZERO_USAGE)
            raise

    def _get_amount_at_root(self, wanted: ResourceAmount) -> ResourceAmount:
        """Reduce an amount to the part that no ledger below the root has reserved already."""
        return self.parent._get_amount_at_root(wanted.only(ALL_KINDS - self._reserved_kinds)) if self.parent else wanted

    def _refuse(self, wanted: ResourceAmount, where: str) -> None:
        if refusal := self._find_refusal(wanted, where):
            raise refusal.error

    def _find_refusal(self, wanted: ResourceAmount, where: str) -> "_BudgetRefusal | None":
        """Find the ledger, this one or one above, that refuses an amount, with its error; None if all accept it."""
        if self._limited and (error := self._try_to_refuse(wanted, where)):
            return _BudgetRefusal(self, error)
        return self.parent._find_refusal(wanted.only(ALL_KINDS - self._reserved_kinds), where) if self.parent else None

    def _try_to_refuse(self, wanted: ResourceAmount, where: str) -> BudgetError | None:
        spent = self._spent.usage.replace(dollars=self._spent.dollars or 0.0, seconds=self._clock() - self._since)
        try:
            refuse_beyond(self.budget, spent, wanted.usage, where, self._reserved_amount.usage)
        except BudgetError as error:
            if not self._is_of_task:
                return error
            return TaskBudgetError(f"{SHARE_USED_UP}: {str(error).partition(';')[0]}; {MORE_CALLS}")
        return None

    def _add_reserved(self, wanted: ResourceAmount) -> None:
        if self._limited:
            self._reserved_amount = self._reserved_amount.plus(wanted)
        if self.parent:
            self.parent._add_reserved(wanted.only(ALL_KINDS - self._reserved_kinds))

    def _get_chain(self) -> Iterator["Ledger"]:
        """Iterate over this ledger and those above."""
        yield self
        if self.parent:
            yield from self.parent._get_chain()

    def _wake_waiters(self) -> None:
        woken = [*self._waiters]
        self._waiters.clear()
        for waiting in woken:
            waiting.set_result(None)


class _BudgetRefusal(NamedTuple):
    ledger: Ledger
    error: BudgetError


class TrackedCall:
    """A call from before its reservation until its reply is recorded; made by `Ledger.track_call`.

    Reservations of calls under way are not spent yet, so a call that does not fit waits until other calls end. A
    waiting call has reserved nothing and is not under way, so no two calls wait for each other.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._is_under_way = False

    async def reserve(self, wanted: Usage, where: str) -> Reservation:
        """Reserve as `Ledger.reserve` does; if the amount does not fit, wait for calls under way.

        Raises:
            BudgetError: the amount does not fit although no call is under way, or the seconds are used up.
        """
        ledger, pool = self._ledger, self._ledger.pool
        amount, is_paid = ledger._to_amount(wanted, where), pool is None
        while True:
            with ledger._lock:
                refusal = ledger._find_refusal(amount, where)
                if refusal is None and is_paid:
                    return self._begin(amount)
                if refusal and pool and is_paid:
                    self._give_back(pool, amount)
                    is_paid = False
                waiting = self._wait_or_raise(refusal) if refusal else None
            if waiting:
                await asyncio.wrap_future(waiting)
            elif pool:
                await pool.take_for_call(ledger._get_amount_at_root(amount), where)
                is_paid = True

    def _wait_or_raise(self, refusal: _BudgetRefusal) -> Future[None]:
        """Return a future that ends when a refused call may try again; raise the error if no call is under way."""
        if not refusal.ledger._under_way or refusal.ledger.is_out_of_time():
            raise refusal.error
        waiting = Future[None]()
        waiting.set_running_or_notify_cancel()  # a waiting task cannot cancel it
        self._ledger._waiters.append(waiting)
        return waiting

    def _begin(self, amount: ResourceAmount) -> Reservation:
        self._ledger._add_reserved(amount)
        self._is_under_way = True
        for ledger in self._ledger._get_chain():
            ledger._under_way += 1
        return Reservation(self._ledger, amount)

    def _give_back(self, pool: Pool, amount: ResourceAmount) -> None:
        pool.settle(self._ledger._get_amount_at_root(amount), ZERO_USAGE)
        pool.end_call()

    def end(self) -> None:
        """Report the end of the call."""
        if self._is_under_way:
            with self._ledger._lock:
                for ledger in self._ledger._get_chain():
                    ledger._under_way -= 1
                self._ledger._wake_waiters()
            if self._ledger.pool:
                self._ledger.pool.end_call()


def refuse_beyond(budget: Budget, spent: Usage, wanted: Usage, where: str, reserved: Usage = ZERO_USAGE) -> None:
    """Raise BudgetError if spent, reserved and wanted usage together exceed a limit.

    Args:
        reserved: the most that calls and tasks under way may still cost.

    Raises:
        BudgetError: a limit would be exceeded, or there is a limit in dollars and a price is unknown.
    """
    if budget.dollars is not None and (spent.dollars is None or wanted.dollars is None):
        raise BudgetError(
            f"the budget of ${budget.dollars:,.2f} cannot be kept in {where!r}: the price of a model is not known; "
            "limit calls or tokens instead"
        )
    for name in ("calls", "tokens", "dollars", "seconds"):
        if (limit := getattr(budget, name)) is None:
            continue
        have, more, kept = (getattr(usage, name) or 0 for usage in (spent, wanted, reserved))
        if have + kept + more - limit > NOTHING:
            under_way = f", {_format(name, kept)} held by calls and tasks under way," if kept > NOTHING else ""
            option = f"--budget-{'usd' if name == 'dollars' else name}"
            raise BudgetError(
                f"budget exhausted in {where!r}: {_format(name, have)} of {_format(name, limit)} {name} "
                f"spent{under_way} and up to {_format(name, more)} more needed; raise the limit on {name} ({option})"
            )


NOTHING = 1e-9
"""Amounts up to this are rounding errors of sums of dollars."""


def _format(name: str, amount: float) -> str:
    """Format an amount; less than a cent with the digits of millionths of a dollar."""
    unit = "$" if name == "dollars" else ""
    if isinstance(amount, int):
        return f"{unit}{amount:,}"
    if unit and NOTHING < amount < 0.01:
        return f"{unit}{max(amount, 1e-6):.6f}".rstrip("0")
    return f"{unit}{amount:,.2f}"
