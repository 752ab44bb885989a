"""How many requests and tokens a provider gets a minute: when the next request may start, and what counts already."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Self

MINUTE = 60.0
"""Seconds for which the limits hold."""
PARTS = 60
"""Parts of a minute; tokens count as if all of a part were sent at its end."""


class RateLimits(NamedTuple):
    """Requests that start and tokens that are sent and received a minute; None for no limit."""

    requests: float | None = None
    tokens: int | None = None


class Rate(NamedTuple):
    """What a provider was asked lately; times are seconds on any one clock.

    Starts of requests are spaced evenly. Tokens are counted over the last minute, at first as the most that a call
    can take, then as what it took.

    Attributes:
        next_start: when the next request may start.
        paused_until: until when none may.
        tokens: by the number of the part of a minute in which their calls started.
    """

    next_start: float = 0.0
    paused_until: float = 0.0
    tokens: tuple[tuple[int, int], ...] = ()

    @classmethod
    def read(cls, stored: Iterable[Any]) -> Self:
        """A rate that was written as JSON."""
        next_start, paused_until, *more = stored
        return cls(next_start, paused_until, *(tuple((part, tokens) for part, tokens in one) for one in more))

    def find_start(self, now: float) -> float:
        """The earliest start of a request; its tokens may ask for a later one."""
        return max(now, self.next_start, self.paused_until)

    def has_room(self, tokens: int, limits: RateLimits, start: float) -> bool:
        """Whether a call of some tokens may start then; one above the limit may where no other counts."""
        counted = sum(counted for _, counted in self._list_last_minute(start))
        return limits.tokens is None or not counted or counted + tokens <= limits.tokens

    def add(self, tokens: int, limits: RateLimits, start: float) -> "Rate":
        """The rate with another call."""
        rate = self if limits.tokens is None else self.correct(tokens, start)
        return rate._replace(next_start=start + MINUTE / limits.requests) if limits.requests else rate

    def correct(self, more: int, start: float) -> "Rate":
        """The rate with more tokens for a call that started then, or with fewer."""
        part, counted = int(start * PARTS / MINUTE), dict(self._list_last_minute(start))
        counted[part] = max(0, counted.get(part, 0) + more)
        return self._replace(tokens=tuple(counted.items()))

    def _list_last_minute(self, start: float) -> Iterator[tuple[int, int]]:
        return (one for one in self.tokens if (one[0] + 1) * MINUTE / PARTS + MINUTE > start)


def update_rates(
    known: Mapping[str, Rate], pauses: Mapping[str, float], corrections: Iterable[tuple[str, int, float]]
) -> dict[str, Rate]:
    """The rates by provider after what a process says of pauses, and of tokens that calls have taken."""
    rates = dict(known)
    for name, until in pauses.items():
        rate = rates.get(name, Rate())
        rates[name] = rate._replace(paused_until=max(until, rate.paused_until))
    for name, more, start in corrections:
        rates[name] = rates.get(name, Rate()).correct(more, start)
    return rates
