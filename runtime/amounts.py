"""Amounts of calls, tokens and dollars, and the pool from which processes take them."""

from collections.abc import Iterable
from functools import reduce
from operator import sub
from typing import NamedTuple, Protocol, Self

from selfwire.core.usage import CostRecord, Usage
from selfwire.runtime.rates import RateLimits


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


def sum_amounts(amounts: Iterable[ResourceAmount]) -> ResourceAmount:
    """All amounts together."""
    return reduce(ResourceAmount.plus, amounts, ResourceAmount())


class Pool(Protocol):
    """What the ledgers of several processes have spent and reserved under one budget; safe for threads."""

    @property
    def spent(self) -> Usage:
        """The cost of all calls; `seconds` is wall time."""

    def take(self, wanted: ResourceAmount, where: str) -> None:
        """Reserve an amount; blocks. Raises BudgetError where it does not fit now."""

    async def take_for_call(self, wanted: ResourceAmount, where: str) -> None:
        """Reserve the amount of a call, after waiting for calls and other processes where it does not fit yet."""

    def end_call(self) -> None:
        """Say that a call has ended whose amount `take_for_call` had reserved."""

    def settle(self, wanted: ResourceAmount, cost: Usage) -> None:
        """Give back a reserved amount and add the cost."""

    async def take_place(self, provider: str, concurrency: int | None, limits: RateLimits, tokens: int) -> float:
        """Wait for a place among all processes' requests to a provider, and for its start, which is returned."""

    def correct_tokens(self, provider: str, more: int, start: float) -> None:
        """Count more tokens for a request that started then, or fewer."""

    def leave_place(self, provider: str) -> None:
        """Give a place back."""

    def pause(self, provider: str, seconds: float) -> None:
        """Have no process start a request for some seconds."""

    def close(self) -> None:
        """Leave the pool, which keeps what was spent."""
