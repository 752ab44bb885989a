"""Decisions of one process about a shared pool, from what all have written: what fits, who starts, who is dead."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import NamedTuple

from selfwire.core.errors import BudgetError, StoppedError
from selfwire.core.usage import Budget, Usage
from selfwire.extras.cluster.pool_store import Holding, ProviderPlaces
from selfwire.models.budget import refuse_beyond
from selfwire.models.limits import Rate, RateLimits, ResourceAmount, sum_amounts

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
        return cls(budget, spent, sum_amounts(holding.held for holding in others))

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
