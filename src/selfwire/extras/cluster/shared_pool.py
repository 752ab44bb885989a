"""A pool that several processes share, on one machine or on many; `shared_ledger` opens it by its address.

Each process has a thread that writes its row of the pool, as `PoolStore` says: what it has spent and holds. An amount
is held when the transaction that found it to fit has ended. What is settled is written soon after, so others may see
too much held, and never too little. Places for requests to a provider are shared in the same way.

A process that has not changed its row for `LEASE` seconds is taken for dead and loses what it holds. Each of the others
measures that time by itself, and counts no pause of its own, so clocks need not agree and may jump.
"""

import asyncio
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import NamedTuple, TypeVar

from selfwire.core.errors import BudgetError, StoppedError
from selfwire.core.usage import ZERO_USAGE, Budget, Usage, UsageAccumulator
from selfwire.extras.cluster.pool_store import Changes, Holding, PoolState, PoolStore, ProviderPlaces, StaleError
from selfwire.models.budget import refuse_beyond
from selfwire.models.limits import Rate, RateLimits, ResourceAmount, update_rates

LEASE = 15.0
"""Seconds after which a process that gives no sign of life loses what it holds."""
BEAT = 0.5
"""Most seconds between two signs of life, and by which wall time of the processes differs."""

TURN = 1.0
"""Seconds for which a process may take free places that another waits for."""


@dataclass(frozen=True, eq=False)
class AmountAsk:
    """An amount that is to be held; `done` ends with None when it is, or with the error that refuses it."""

    wanted: ResourceAmount
    where: str
    is_call: bool
    since: float
    done: "Future[StoppedError | None]" = field(default_factory=Future)


@dataclass(frozen=True, eq=False)
class PlaceAsk:
    """A place for a request to a provider; `done` ends with the wall time, as `elapsed`, at which it may start."""

    provider: str
    concurrency: int | None
    limits: RateLimits
    tokens: int
    since: float
    done: "Future[float | StoppedError]" = field(default_factory=Future)


class View(NamedTuple):
    """Cost of all processes and reservations of the others, as one transaction reads them."""

    budget: Budget
    spent: Usage
    held: ResourceAmount

    @classmethod
    def of(cls, budget: Budget, spent: Usage, others: Iterable[Holding]) -> "View":
        """The view of a process beside others."""
        return cls(budget, spent, reduce(ResourceAmount.plus, (holding.held for holding in others), ResourceAmount()))

    def find_refusal(
        self, ask: AmountAsk, held: ResourceAmount, *, is_busy: bool, seconds: float
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

    def _refuse(self, ask: AmountAsk, held: ResourceAmount, seconds: float) -> BudgetError | None:
        spent = self.spent.replace(dollars=self.spent.dollars or 0.0, seconds=seconds)
        try:
            refuse_beyond(self.budget, spent, ask.wanted.usage, ask.where, held.usage)
        except BudgetError as error:
            return error
        return None


class Granted(NamedTuple):
    """Results of asks if the transaction succeeds; waiting asks are left out."""

    amounts: list[tuple[AmountAsk, BudgetError | None]]
    places: list[tuple[PlaceAsk, float]]


def has_place(ask: PlaceAsk, used: int, others: Iterable[ProviderPlaces]) -> bool:
    """Whether a place is free for a request.

    Where places are short, a process leaves a free one to another that waits and has less than its part of them. If it
    has less itself, it does so for one that has waited for longer, by more than a turn.

    Args:
        used: places that this process has.
    """
    if ask.concurrency is None:
        return True
    wanting = [holding for holding in others if holding.used or holding.waiting]
    free = ask.concurrency - used - sum(holding.used for holding in wanting)
    part = max(1, ask.concurrency // (len(wanting) + 1))
    short = [holding for holding in wanting if holding.waiting and holding.used < part]
    if used >= part:
        return free > 0 and not short
    return free > sum(0 < holding.short_since < ask.since - TURN for holding in short)


def has_room(ask: PlaceAsk, rate: Rate, others: Iterable[ProviderPlaces], start: float) -> bool:
    """Whether the tokens of a request fit, and no other process has waited longer for tokens."""
    is_first = ask.limits.tokens is None or not any(0 < holding.since < ask.since for holding in others)
    return is_first and rate.has_room(ask.tokens, ask.limits, start)


def grant_places(
    asks: Iterable[PlaceAsk], used: Counter[str], others: Collection[Holding], rates: dict[str, Rate], now: float
) -> tuple[list[tuple[PlaceAsk, float]], dict[str, ProviderPlaces]]:
    """The asks that get a place, each with its start, and the places that this process will have.

    Args:
        used: places that this process has, by provider; changed.
        rates: by provider; changed.
    """
    granted, waiting = list[tuple[PlaceAsk, float]](), Counter[str]()
    since, short_since = dict[str, float](), dict[str, float]()
    for ask in asks:
        name, rate = ask.provider, rates.get(ask.provider, Rate())
        beside = [holding.places.get(name, ProviderPlaces()) for holding in others]
        start = rate.find_start(now)
        if not has_place(ask, used[name], beside):
            waiting[name] += 1
            short_since[name] = min(ask.since, short_since.get(name, ask.since))
        elif not has_room(ask, rate, beside, start):
            waiting[name] += 1
            since.setdefault(name, ask.since)
        else:
            used[name] += 1
            granted.append((ask, start))
            if any(ask.limits):
                rates[name] = rate.add(ask.tokens, ask.limits, start)
    return granted, {
        name: ProviderPlaces(used[name], waiting[name], since.get(name, 0.0), short_since.get(name, 0.0))
        for name in {*used, *waiting}
    }


class Silence:
    """For how long each of the other processes has given no sign of life, by looks of this one."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._latest = clock, clock()
        self._of: dict[str, tuple[int, float]] = {}

    def is_due(self) -> bool:
        """Whether this process should look, and give a sign of life itself."""
        return self._clock() - self._latest >= BEAT

    def find_dead(self, others: Mapping[str, Holding]) -> dict[str, Holding]:
        """Processes that hold something and have been silent for the lease, with their reservations removed.

        A pause of this process counts as two beats, as the others may have paused with it.
        """
        now = self._clock()
        passed, self._latest = max(0.0, min(now - self._latest, 2 * BEAT)), now
        before, self._of = self._of, {}
        for name, holding in others.items():
            beat, silent = before.get(name, (holding.beat, 0.0))
            self._of[name] = (holding.beat, silent + passed if beat == holding.beat else 0.0)
        silent_ones = {name: holding for name, holding in others.items() if self._of[name][1] > LEASE}
        return {
            name: holding._replace(held=ResourceAmount(), places={})
            for name, holding in silent_ones.items()
            if any(holding.held) or any(map(any, holding.places.values()))
        }


RETRY = 0.05
"""Seconds between two tries to get what is not free yet, and to reach a server that is away."""
SETTLING = 3 * RETRY
"""Seconds within which others write what they have settled."""
PATIENCE = 30.0
"""Seconds for which a server that is away is waited for."""
AnyAsk = AmountAsk | PlaceAsk
T = TypeVar("T")


class SharedPool:
    """Cost and reservations of this process in a shared budget, and its knowledge of the others; see `Pool`."""

    def __init__(self, store: PoolStore, budget: Budget, *, is_owner: bool = False) -> None:
        self._store, self._budget, self._is_owner = store, budget, is_owner
        self._limited = frozenset(name for name in ResourceAmount._fields if getattr(budget, name) is not None)
        self._process, self._beat = secrets.token_hex(8), 0
        self._lock, self._exchanging = threading.Lock(), threading.Lock()
        self._spent, self._held, self._under_way = UsageAccumulator(), ResourceAmount(), 0
        self._places, self._pauses = Counter[str](), dict[str, float]()
        self._corrections: list[tuple[str, int, float]] = []
        self._others, self._since = ZERO_USAGE, time.monotonic()
        self._reached = time.monotonic()
        self._asks: dict[AnyAsk, None] = {}
        self._silence = Silence(time.monotonic)
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
            return (self._others + self._spent.usage).replace(seconds=self._elapsed)

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._since

    def take(self, wanted: ResourceAmount, where: str) -> None:
        """Reserve an amount; blocks. Raises BudgetError where it does not fit beside what is held."""
        ask = AmountAsk(wanted, where, is_call=False, since=time.monotonic())
        self._submit(ask)
        if error := ask.done.result():
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
        ask = AmountAsk(wanted, where, is_call=True, since=time.monotonic())
        if error := await self._wait_for(ask, ask.done, lambda error: None if error else self._give_back(wanted)):
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

    async def take_place(self, provider: str, concurrency: int | None, limits: RateLimits, tokens: int) -> float:
        """Wait for a place among all processes' requests to a provider, and for its start, which is returned.

        Raises:
            StoppedError: the pool cannot be used.
        """
        asked = self._elapsed
        while True:
            ask = PlaceAsk(provider, concurrency, limits, tokens, asked)
            start, may_start = await self._ask_for_place(ask), False
            try:
                while (delay := start - self._elapsed) > 0:  # noqa: ASYNC110 - it waits for the clock
                    await asyncio.sleep(delay)
                may_start = self._pauses.get(provider, 0.0) <= self._elapsed
            finally:
                if not may_start:  # it is cancelled, or the provider has asked for a pause since
                    self._give_place_back(ask, start)
            if may_start:
                return start

    def correct_tokens(self, provider: str, more: int, start: float) -> None:
        """Count more tokens for a request that started then, or fewer."""
        with self._lock:
            self._corrections.append((provider, more, start))
            self._note_change()

    async def _ask_for_place(self, ask: PlaceAsk) -> float:
        if ask.concurrency is None and not any(ask.limits):
            with self._lock:
                self._places[ask.provider] += 1
                return self._pauses.get(ask.provider, 0.0)
        start = await self._wait_for(ask, ask.done, partial(self._give_place_back, ask))
        if isinstance(start, StoppedError):
            raise start
        return start

    def _give_place_back(self, ask: PlaceAsk, start: float | StoppedError) -> None:
        """Leave a place without having sent a request."""
        if not isinstance(start, StoppedError):
            self.leave_place(ask.provider)
            if ask.limits.tokens:
                self.correct_tokens(ask.provider, -ask.tokens, start)

    def leave_place(self, provider: str) -> None:
        """Give a place back."""
        with self._lock:
            self._places[provider] -= 1
            self._note_change()

    def pause(self, provider: str, seconds: float) -> None:
        """Have no process start a request for some seconds."""
        with self._lock:
            self._pauses[provider] = max(self._pauses.get(provider, 0.0), self._elapsed + seconds)
            self._is_dirty = True
        self._wake.set()

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
            if self._is_owner:
                with suppress(*self._store.faults):  # nobody needs the rest, and a resume starts anew
                    self._store.remove()
            else:
                self._persist(lambda: self._store.leave(self._process, self._spent.usage))
        finally:
            self._store.close()

    def _give_back(self, wanted: ResourceAmount) -> None:
        self.settle(wanted, ZERO_USAGE)
        self.end_call()

    def _note_change(self) -> None:
        self._is_dirty = True
        if self._asks:  # else it is written with the next ask, or after `RETRY` seconds
            self._wake.set()

    def _submit(self, ask: AnyAsk) -> None:
        ask.done.set_running_or_notify_cancel()  # a call that is cancelled gives back what it gets
        with self._lock:
            if self._is_closing:
                ask.done.set_result(self._closed)
            else:
                self._asks[ask] = None
        self._wake.set()

    async def _wait_for(self, ask: AnyAsk, done: "Future[T]", undo: Callable[[T], None]) -> T:
        """Result of an ask; `undo` gets it where no caller waits for it any more."""
        self._submit(ask)
        try:
            return await asyncio.wrap_future(done)
        except asyncio.CancelledError:
            with self._lock:
                was_waiting = ask in self._asks
                self._asks.pop(ask, None)
                self._note_change()  # the row may say that it waits
            if not was_waiting:
                undo(done.result())
            raise

    @property
    def _closed(self) -> StoppedError:
        return self._stale or BudgetError(f"the shared budget {self._store.name} is closed")

    def _work(self) -> None:
        try:
            while not self._is_closing:
                self._wake.wait(RETRY)
                self._wake.clear()
                if self._asks or self._is_dirty or self._silence.is_due():
                    self._try_exchange()
        finally:
            self._is_closing = True
            self._refuse_asks(self._closed)

    def _try_exchange(self) -> None:
        try:
            self._exchange()
        except StaleError as error:
            self._stale, self._is_closing = BudgetError(str(error)), True
        except self._store.faults as error:
            if self._is_hopeless(error, since=self._reached):
                self._refuse_asks(self._store.explain_outage(error))
            time.sleep(RETRY)

    def _refuse_asks(self, error: StoppedError) -> None:
        with self._lock:
            for ask in self._asks:
                ask.done.set_result(error)
            self._asks.clear()

    def _persist(self, act: Callable[[], None]) -> None:
        """Act, again and again while the server is away."""
        begun = time.monotonic()
        while True:
            try:
                act()
            except self._store.faults as error:
                if self._is_hopeless(error, since=begun):
                    raise self._store.explain_outage(error) from None
                time.sleep(RETRY)
            else:
                return

    def _is_hopeless(self, error: Exception, since: float) -> bool:
        return not self._store.may_pass(error) or time.monotonic() - since > PATIENCE

    def _exchange(self) -> None:
        """Write this process's row, read those of the others, and decide about what is asked for."""
        granted = Granted([], [])

        def decide(state: PoolState) -> Changes:
            for some in granted:
                some.clear()
            with self._lock:
                self._is_dirty = False
                return self._decide(state, granted)

        try:
            with self._exchanging:  # a connection has one transaction at a time, whichever thread asks
                self._store.exchange(decide)
        except BaseException:
            self._is_dirty = True
            raise
        self._reached = time.monotonic()
        with self._lock:
            self._grant(granted)

    def _grant(self, granted: Granted) -> None:
        """End asks, but for those whose callers have gone, who get nothing."""
        for ask, error in granted.amounts:
            if ask in self._asks and error is None:
                self._held = self._held.plus(ask.wanted)
                self._under_way += ask.is_call
            self._end(ask, ask.done, error)
        for place, start in granted.places:
            self._places[place.provider] += place in self._asks
            self._end(place, place.done, start)

    def _end(self, ask: AnyAsk, done: "Future[T]", result: T) -> None:
        if ask in self._asks:
            del self._asks[ask]
            done.set_result(result)
        else:
            self._is_dirty = True  # the row may say that it was granted

    def _decide(self, state: PoolState, granted: Granted) -> Changes:
        """Changes to write; `granted` gets the results of asks, but for waiting ones. The lock is held."""
        others = {name: holding for name, holding in state.holdings.items() if name != self._process}
        dead = self._silence.find_dead(others)
        others |= dead
        self._since = min(self._since, time.monotonic() - state.elapsed)
        spent = UsageAccumulator(state.spent)
        for holding in others.values():
            spent.add(holding.spent)
        self._others = spent.usage
        held = self._decide_amounts(others, granted)
        places, rates = self._decide_places(others, state.rates, granted)
        self._beat += 1
        mine = Holding(self._beat, held, self._spent.usage, places)
        is_news = rates != state.rates or self._elapsed - state.elapsed > BEAT / 2
        return Changes({self._process: mine, **dead}, self._elapsed if is_news else state.elapsed, rates)

    def _decide_amounts(self, others: Mapping[str, Holding], granted: Granted) -> ResourceAmount:
        """Reservations that this process will hold."""
        view = View.of(self._budget, self._others + self._spent.usage, others.values())
        held, under_way, now = self._held, self._under_way, time.monotonic()
        for ask in self._asks:
            if isinstance(ask, AmountAsk):
                is_busy = ask.is_call and under_way > 0
                error, may_wait = view.find_refusal(ask, held, is_busy=is_busy, seconds=self._elapsed)
                if error is None:
                    held, under_way = held.plus(ask.wanted), under_way + ask.is_call
                if error is None or not may_wait or not (ask.is_call or now - ask.since < SETTLING):
                    granted.amounts.append((ask, error))
        return held

    def _decide_places(
        self, others: Mapping[str, Holding], known: Mapping[str, Rate], granted: Granted
    ) -> tuple[dict[str, ProviderPlaces], dict[str, Rate]]:
        """The places that this process will have, and the rates of all providers."""
        rates = update_rates(known, self._pauses, self._corrections)
        self._corrections.clear()  # if it is not written, too much counts for a minute
        self._pauses = {name: rate.paused_until for name, rate in rates.items()}
        asks = [ask for ask in self._asks if isinstance(ask, PlaceAsk)]
        starts, places = grant_places(asks, self._places.copy(), others.values(), rates, self._elapsed)
        granted.places.extend(starts)
        return places, rates
