"""The cost of model calls, sums of it, and limits on it."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Protocol, Self

from pydantic import Field, model_validator

from selfwire.core.values import FrozenModel


class Usage(FrozenModel):
    """The cost of model calls.

    Args:
        dollars: price in US dollars; None if the price of a model is unknown.
        seconds: wall time, if measured.
    """

    calls: int = Field(default=0, ge=0)
    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    dollars: float | None = Field(default=0.0, ge=0)
    seconds: float = Field(default=0.0, ge=0)

    @property
    def tokens(self) -> int:
        """Tokens sent and received."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> Self:
        if other is ZERO_USAGE:
            return self
        priced = self.dollars is not None and other.dollars is not None
        return type(self)(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            dollars=(self.dollars or 0.0) + (other.dollars or 0.0) if priced else None,
            seconds=self.seconds + other.seconds,
        )

    def subtract(self, part: "Usage") -> Self:
        """Subtract a part, with no field below 0; an unknown price stays unknown."""
        priced = self.dollars is not None and part.dollars is not None
        return type(self)(
            calls=max(0, self.calls - part.calls),
            input_tokens=max(0, self.input_tokens - part.input_tokens),
            output_tokens=max(0, self.output_tokens - part.output_tokens),
            dollars=max(0.0, (self.dollars or 0.0) - (part.dollars or 0.0)) if priced else None,
            seconds=max(0.0, self.seconds - part.seconds),
        )


ZERO_USAGE = Usage()
"""No cost."""


class CostRecord(Protocol):
    """An object with a cost, such as a usage or a row of results."""

    @property
    def calls(self) -> int:
        """Model calls."""

    @property
    def input_tokens(self) -> int:
        """Tokens sent."""

    @property
    def output_tokens(self) -> int:
        """Tokens received."""

    @property
    def dollars(self) -> float | None:
        """Price in US dollars; None if unknown."""

    @property
    def seconds(self) -> float:
        """Wall time of the calls."""


class UsageAccumulator:
    """A running sum of costs; dollars are added exactly, so that their order does not matter."""

    def __init__(self, start: CostRecord = ZERO_USAGE) -> None:
        self.calls = self.input_tokens = self.output_tokens = 0
        self.seconds, self._dollars, self._priced = 0.0, Fraction(0), True
        self.add(start)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UsageAccumulator) and self.usage == other.usage

    def add(self, cost: CostRecord) -> None:
        """Add a cost; an unknown price makes the sum unknown."""
        if cost is ZERO_USAGE:
            return
        self.calls += cost.calls
        self.input_tokens += cost.input_tokens
        self.output_tokens += cost.output_tokens
        self.seconds += cost.seconds
        if cost.dollars is None:
            self._priced = False
        elif cost.dollars:
            self._dollars += Fraction(cost.dollars)

    @property
    def dollars(self) -> float | None:
        """The sum of prices; None if one was unknown."""
        return float(self._dollars) if self._priced else None

    @property
    def usage(self) -> Usage:
        """The sum so far."""
        return Usage(**{name: getattr(self, name) for name in Usage.model_fields})


def sum_usages(usages: Iterable[Usage]) -> Usage:
    """Add up usages."""
    terms = list(usages)
    return sum(terms[1:], terms[0]) if terms else ZERO_USAGE


class Budget(FrozenModel):
    """Upper limits on the cost of calls; None means no limit.

    Args:
        tokens: tokens sent and received, >= 0.
        dollars: US dollars, >= 0; refused for a model without a price.
    """

    calls: int | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)
    dollars: float | None = Field(default=None, ge=0)
    seconds: float | None = Field(default=None, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _explain_other_names(cls, given: object) -> object:
        if isinstance(given, Mapping) and (other := sorted({"usd", "budget_usd", "cost"}.intersection(given))):
            names = ", ".join(cls.model_fields)
            raise ValueError(f"a budget has no {other[0]}; its limits are {names}, as in dollars=1")
        return given

    def find_zero(self) -> str:
        """Find the first limit that is 0, so that no call can be made; "" if there is none."""
        return next((name for name in type(self).model_fields if getattr(self, name) == 0), "")
