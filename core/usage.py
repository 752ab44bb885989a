"""What calls cost, and sums of it."""

from collections.abc import Iterable
from fractions import Fraction
from typing import Protocol, Self

from pydantic import Field

from selfwire.core.values import FrozenModel


class Usage(FrozenModel):
    """What calls have cost.

    Args:
        calls: model calls.
        input_tokens: tokens sent.
        output_tokens: tokens received.
        dollars: price in US dollars; None if a model without a known price took part.
        seconds: wall time, where it was measured.
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
        known = self.dollars is not None and other.dollars is not None
        return type(self)(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            dollars=(self.dollars or 0.0) + (other.dollars or 0.0) if known else None,
            seconds=self.seconds + other.seconds,
        )

    def subtract(self, part: "Usage") -> Self:
        """What is left after a part of it, in no respect less than nothing; an unknown price stays unknown."""
        known = self.dollars is not None and part.dollars is not None
        return type(self)(
            calls=max(0, self.calls - part.calls),
            input_tokens=max(0, self.input_tokens - part.input_tokens),
            output_tokens=max(0, self.output_tokens - part.output_tokens),
            dollars=max(0.0, (self.dollars or 0.0) - (part.dollars or 0.0)) if known else None,
            seconds=max(0.0, self.seconds - part.seconds),
        )


ZERO_USAGE = Usage()
"""What has cost nothing."""


class CostRecord(Protocol):
    """What says what something cost: a usage, or a row of results."""

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
        """Price in US dollars; None if it is not known."""

    @property
    def seconds(self) -> float:
        """Time that the calls took."""


class UsageAccumulator:
    """A sum that grows; dollars are added exactly, so that their order leaves no trace."""

    def __init__(self, before: CostRecord = ZERO_USAGE) -> None:
        self.calls = self.input_tokens = self.output_tokens = 0
        self.seconds, self._dollars, self._known = 0.0, Fraction(0), True
        self.add(before)

    def add(self, cost: CostRecord) -> None:
        """Add what something cost; an unknown price makes the sum unknown."""
        if cost is ZERO_USAGE:
            return
        self.calls += cost.calls
        self.input_tokens += cost.input_tokens
        self.output_tokens += cost.output_tokens
        self.seconds += cost.seconds
        if cost.dollars is None:
            self._known = False
        elif cost.dollars:
            self._dollars += Fraction(cost.dollars)

    @property
    def dollars(self) -> float | None:
        """The sum of prices; None once one was unknown."""
        return float(self._dollars) if self._known else None

    @property
    def usage(self) -> Usage:
        """The sum until now."""
        return Usage(**{name: getattr(self, name) for name in Usage.model_fields})


def sum_usages(usages: Iterable[Usage]) -> Usage:
    """Sum of usages."""
    some = list(usages)
    return sum(some[1:], some[0]) if some else ZERO_USAGE
