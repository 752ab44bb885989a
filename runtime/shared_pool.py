"""A budget that several processes share, on one machine or on many; `shared_ledger` opens it by its address.

Each process has a thread that writes its row of the pool, as `PoolStore` says: what it has spent and holds. An amount
is held when the transaction that found it to fit has ended. What is settled is written soon after, so others may see
too much held, and never too little.

A process that has not changed its row for `LEASE` seconds is taken for dead and loses what it holds. Each of the others
measures that time by itself, and counts no pause of its own, so clocks need not agree and may jump.
"""

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from selfwire.core.budget import Budget
from selfwire.core.errors import BudgetError, OutageError, StoppedError
from selfwire.core.usage import ZERO_USAGE, Usage, UsageAccumulator
from selfwire.runtime.amounts import ResourceAmount, sum_amounts
from selfwire.runtime.pool_store import Changes, Holding, PoolState, PoolStore, StaleError

LEASE = 15.0
"""Seconds after which a process that gives no sign of life loses what it holds."""
BEAT = 0.5
"""Most seconds between two signs of life, and by which wall time of the processes differs."""
RETRY = 0.05
"""Seconds between two tries to hold what does not fit yet, and to reach a server that is away."""
SETTLING = 3 * RETRY
"""Seconds within which others write what they have settled."""
PATIENCE = 30.0
"""Seconds for which a server that is away is waited for."""


@dataclass(frozen=True, eq=False)
class _Ask:
    """An amount that is to be held; `done` ends with None when it is, or with the error that refuses it."""

    wanted: ResourceAmount
    where: str
    is_call: bool
    since: float
    done: "Future[StoppedError | None]" = field(default_factory=Future)


class SharedPool:
    """What this process has spent and holds of a shared budget, and what it knows of the others; see `Pool`."""

    def __init__(
        self,
        store: PoolStore,
        budget: Budget,
        *,
        is_owner: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._budget, self._is_owner, self._clock = store, budget, is_owner, clock
        self._limited = frozenset(name for name in ResourceAmount._fields if getattr(budget, name) is not None)
        self._process, self._beat = secrets.token_hex(8), 0
        self._lock = threading.Lock()
        self._spent, self._held, self._under_way = UsageAccumulator(), ResourceAmount(), 0
        self._others, self._since = ZERO_USAGE, clock()
        self._asks: dict[_Ask, None] = {}
        self._silence = _Silence(clock)
        self._stale: BudgetError | None = None
        self._is_dirty = self._is_closing = self._is_closed = False
        self._wake = threading.Event()
        self._persist(self._exchange)
        self._thread = threading.Thread(target=self._work, name="shared budget", daemon=True)
        self._thread.start()

    @property
    def spent(self) -> Usage:
        """The cost of all calls, those of others as of the latest exchange; `seconds` is wall time."""
        with self._lock:
            return (self._others + self._spent.usage).replace(seconds=self._clock() - self._since)

    def take(self, wanted: ResourceAmount, where: str) -> None:
        """Reserve an amount; blocks. Raises BudgetError where it does not fit beside what is held."""
        if error := self._ask(wanted, where, is_call=False).done.result():
            raise error

    async def take_for_call(self, wanted: ResourceAmount, where: str) -> None:
        """Reserve the amount of a call, after waiting where it may fit when calls end or other processes give back.

        Raises:
            BudgetError: it does not fit.
            OutageError: the sums cannot be reached.
        """
        wanted = wanted.only(self._limited)
        if not any(wanted) and self._budget.seconds is None and not self._is_closing:
            with self._lock:
                self._under_way += 1
            return
        ask = self._ask(wanted, where, is_call=True)
        try:
            error = await asyncio.wrap_future(ask.done)
        except asyncio.CancelledError:
            self._drop(ask)
            raise
        if error:
            raise error

    def end_call(self) -> None:
        """Say that a call has ended whose amount `take_for_call` had reserved."""
        with self._lock:
            self._under_way -= 1
            self._note_change()

    def settle(self, wanted: ResourceAmount, cost: Usage) -> None:
        """Give back a reserved amount and add the cost."""
        with self._lock:
            self._spent.add(cost)
            self._held = self._held.less(wanted)
            self._note_change()

    def close(self) -> None:
        """Leave the pool, which keeps what was spent; the process that started it ends it.

        Raises:
            OutageError: the sums cannot be reached.
        """
        if self._is_closed:
            return
        self._is_closed = self._is_closing = True
        self._wake.set()
        self._thread.join()
        try:
            self._persist(self._store.remove if self._is_owner else self._leave)
        finally:
            self._store.close()

    def _leave(self) -> None:
        with suppress(StaleError):
            self._store.leave(self._process, self._spent.usage)

    def _note_change(self) -> None:
        self._is_dirty = True
        if self._asks:  # else it is written with the next ask, or after `RETRY` seconds
            self._wake.set()

    def _ask(self, wanted: ResourceAmount, where: str, *, is_call: bool) -> _Ask:
        ask = _Ask(wanted, where, is_call, self._clock())
        ask.done.set_running_or_notify_cancel()  # a cancelled call is dropped by `_drop`
        with self._lock:
            if self._is_closing:
                ask.done.set_result(self._stale or BudgetError(f"the shared budget {self._store.name} is closed"))
            else:
                self._asks[ask] = None
        self._wake.set()
        return ask

    def _drop(self, ask: _Ask) -> None:
        """Take back what a cancelled call asked for."""
        with self._lock:
            is_waiting = ask in self._asks
            self._asks.pop(ask, None)
        if not is_waiting and ask.done.result() is None:
            self.settle(ask.wanted, ZERO_USAGE)
            self.end_call()

    def _answer(self, ask: _Ask, error: StoppedError | None) -> None:
        """End an ask, unless it was dropped meanwhile; the lock is held."""
        if ask in self._asks:
            del self._asks[ask]
            if error is None:
                self._held = self._held.plus(ask.wanted)
                self._under_way += ask.is_call
            ask.done.set_result(error)

    def _work(self) -> None:
        try:
            while not self._is_closing:
                self._wake.wait(RETRY)
                self._wake.clear()
                if self._asks or self._is_dirty or self._silence.is_due():
                    self._try_exchange()
        finally:
            self._is_closing = True
            with self._lock:
                for ask in [*self._asks]:
                    self._answer(ask, BudgetError(f"the shared budget {self._store.name} is closed"))

    def _try_exchange(self) -> None:
        try:
            self._exchange()
        except StaleError as error:
            self._stale, self._is_closing = BudgetError(str(error)), True
            with self._lock:
                for ask in [*self._asks]:
                    self._answer(ask, self._stale)
        except self._store.faults as error:
            with self._lock:
                for ask in [*self._asks]:
                    if self._clock() - ask.since > PATIENCE:
                        self._answer(ask, self._explain_outage(error))
            time.sleep(RETRY)

    def _persist(self, act: Callable[[], None]) -> None:
        """Act, again and again while the server is away."""
        begun = self._clock()
        while True:
            try:
                act()
            except self._store.faults as error:
                if self._clock() - begun > PATIENCE:
                    raise self._explain_outage(error) from None
                time.sleep(RETRY)
            else:
                return

    def _explain_outage(self, error: Exception) -> OutageError:
        outage = OutageError(
            f"the shared budget at {self._store.address} cannot be used: {error}; see to it, then resume"
        )
        outage.is_cost_known = True
        return outage

    def _exchange(self) -> None:
        """Write this process's row, read those of the others, and decide about what is asked for."""
        answers: list[tuple[_Ask, BudgetError | None]] = []

        def decide(state: PoolState) -> Changes:
            answers.clear()
            with self._lock:
                self._is_dirty = False
                return self._decide(state, answers)

        try:
            self._store.exchange(decide)
        except BaseException:
            self._is_dirty = True
            raise
        with self._lock:
            for ask, error in answers:
                if error is None and ask not in self._asks:
                    self._is_dirty = True  # it was dropped, and the row says that it is held
                self._answer(ask, error)

    def _decide(self, state: PoolState, answers: "list[tuple[_Ask, BudgetError | None]]") -> Changes:
        """What to write; `answers` get what becomes of asks, but for those that wait. The lock is held."""
        others = {name: one for name, one in state.holdings.items() if name != self._process}
        dead = {name: one._replace(held=ResourceAmount()) for name, one in self._silence.find_dead(others)}
        others |= dead
        now, known = self._clock(), state.elapsed
        self._since = min(self._since, now - known)
        self._others = sum((one.spent for one in others.values()), state.spent)
        view = _View(self._budget, self._others + self._spent.usage, sum_amounts(one.held for one in others.values()))
        held, under_way = self._held, self._under_way
        for ask in self._asks:
            is_busy = ask.is_call and under_way > 0
            error, may_wait = view.find_refusal(ask, held, is_busy=is_busy, seconds=now - self._since)
            if error is None:
                held, under_way = held.plus(ask.wanted), under_way + ask.is_call
            if error is None or not may_wait or not (ask.is_call or now - ask.since < SETTLING):
                answers.append((ask, error))
        self._beat += 1
        elapsed = now - self._since
        mine = Holding(self._beat, held, self._spent.usage)
        return Changes({self._process: mine, **dead}, elapsed if elapsed - known > BEAT / 2 else None)


class _View(NamedTuple):
    """What all have spent and the others hold, as one transaction reads it."""

    budget: Budget
    spent: Usage
    held: ResourceAmount

    def find_refusal(
        self, ask: _Ask, held: ResourceAmount, *, is_busy: bool, seconds: float
    ) -> tuple[BudgetError | None, bool]:
        """Why an amount does not fit, and whether it may fit later.

        Args:
            held: by this process.
            is_busy: whether calls of this process are under way.
        """
        if (error := self._refuse(ask, held.plus(self.held), seconds)) is None:
            return None, False
        stays = ResourceAmount() if is_busy else held
        return error, self._refuse(ask, stays, seconds) is None

    def _refuse(self, ask: _Ask, held: ResourceAmount, seconds: float) -> BudgetError | None:
        spent = self.spent.replace(dollars=self.spent.dollars or 0.0, seconds=seconds)
        try:
            self.budget.refuse(spent, ask.wanted.usage, ask.where, held.usage)
        except BudgetError as error:
            return error
        return None


class _Silence:
    """For how long each of the other processes has given no sign of life, by looks of this one."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._latest = clock, clock()
        self._of: dict[str, tuple[int, float]] = {}

    def is_due(self) -> bool:
        """Whether this process should look, and give a sign of life itself."""
        return self._clock() - self._latest >= BEAT

    def find_dead(self, others: Mapping[str, Holding]) -> list[tuple[str, Holding]]:
        """Those that hold something and have been silent for the lease; a pause of this process counts as two beats."""
        now = self._clock()
        passed, self._latest = min(now - self._latest, 2 * BEAT), now
        before, self._of = self._of, {}
        for name, one in others.items():
            beat, silent = before.get(name, (one.beat, 0.0))
            self._of[name] = (one.beat, silent + passed if beat == one.beat else 0.0)
        return [(name, one) for name, one in others.items() if any(one.held) and self._of[name][1] > LEASE]
