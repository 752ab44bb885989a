"""Decisions of one process about a shared pool, from what all have written: what fits, who starts, who is dead."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import NamedTuple

from selfwire.core.budget import Budget
from selfwire.core.errors import BudgetError, StoppedError
from selfwire.core.usage import Usage
from selfwire.runtime.amounts import ResourceAmount, sum_amounts
from selfwire.runtime.pool_store import Holding, Places, Rate

LEASE = 15.0
"""Seconds after which a process that gives no sign of life loses what it holds."""
BEAT = 0.5
"""Most seconds between two signs of life, and by which wall time of the processes differs."""


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
    per_minute: float | None
    done: "Future[float | StoppedError]" = field(default_factory=Future)


class View(NamedTuple):
    """What all have spent and the others hold, as one transaction reads it."""

    budget: Budget
    spent: Usage
    held: ResourceAmount

    @classmethod
    def of(cls, budget: Budget, spent: Usage, others: Iterable[Holding]) -> "View":
        """The view of a process beside others."""
        return cls(budget, spent, sum_amounts(one.held for one in others))

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
            self.budget.refuse(spent, ask.wanted.usage, ask.where, held.usage)
        except BudgetError as error:
            return error
        return None


def choose_start(ask: PlaceAsk, rate: Rate, used: int, others: Iterable[Places], now: float) -> float | None:
    """When a request may start; None if it has to wait until a place is free.

    Where places are short, a process leaves a free one to another that waits and has less than its part of them.

    Args:
        used: places that this process has.
    """
    if ask.concurrency is not None:
        wanting = [one for one in others if one.used or one.waiting]
        if used + sum(one.used for one in wanting) >= ask.concurrency:
            return None
        part = max(1, ask.concurrency // (len(wanting) + 1))
        if used >= part and any(one.waiting and one.used < part for one in wanting):
            return None
    return max(now, rate.next_start, rate.paused_until)


def grant_places(
    asks: Iterable[PlaceAsk], used: Counter[str], others: Collection[Holding], rates: dict[str, Rate], now: float
) -> tuple[list[tuple[PlaceAsk, float]], dict[str, Places]]:
    """The asks that get a place, each with its start, and the places that this process will have.

    Args:
        used: places that this process has, by provider; changed.
        rates: by provider; changed.
    """
    granted, waiting = list[tuple[PlaceAsk, float]](), Counter[str]()
    for ask in asks:
        name, rate = ask.provider, rates.get(ask.provider, Rate())
        start = choose_start(ask, rate, used[name], [one.places.get(name, Places()) for one in others], now)
        if start is None:
            waiting[name] += 1
            continue
        used[name] += 1
        granted.append((ask, start))
        if ask.per_minute:
            rates[name] = rate._replace(next_start=start + 60.0 / ask.per_minute)
    return granted, {name: Places(used[name], waiting[name]) for name in {*used, *waiting}}


class Silence:
    """For how long each of the other processes has given no sign of life, by looks of this one."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._latest = clock, clock()
        self._of: dict[str, tuple[int, float]] = {}

    def is_due(self) -> bool:
        """Whether this process should look, and give a sign of life itself."""
        return self._clock() - self._latest >= BEAT

    def find_dead(self, others: Mapping[str, Holding]) -> dict[str, Holding]:
        """Those that hold something and have been silent for the lease, without what they hold.

        A pause of this process counts as two beats, as the others may have paused with it.
        """
        now = self._clock()
        passed, self._latest = max(0.0, min(now - self._latest, 2 * BEAT)), now
        before, self._of = self._of, {}
        for name, one in others.items():
            beat, silent = before.get(name, (one.beat, 0.0))
            self._of[name] = (one.beat, silent + passed if beat == one.beat else 0.0)
        silent_ones = {name: one for name, one in others.items() if self._of[name][1] > LEASE}
        return {
            name: one._replace(held=ResourceAmount(), places={})
            for name, one in silent_ones.items()
            if any(one.held) or any(map(any, one.places.values()))
        }
