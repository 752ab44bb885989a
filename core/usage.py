"""What calls cost, what they may cost, and the arithmetic between the two."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Protocol, Self

from pydantic import Field

from selfwire.core.errors import BudgetError, ModelError
from selfwire.core.values import Value


class Usage(Value):
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
        """Add two usages; an unknown price stays unknown."""
        if other is NOTHING:
            return self
        known = self.dollars is not None and other.dollars is not None
        return type(self)(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            dollars=(self.dollars or 0.0) + (other.dollars or 0.0) if known else None,
            seconds=self.seconds + other.seconds,
        )

    def without(self, part: "Usage") -> Self:
        """What is left after a part of it, in no respect less than nothing; an unknown price stays unknown."""
        known = self.dollars is not None and part.dollars is not None
        return type(self)(
            calls=max(0, self.calls - part.calls),
            input_tokens=max(0, self.input_tokens - part.input_tokens),
            output_tokens=max(0, self.output_tokens - part.output_tokens),
            dollars=max(0.0, (self.dollars or 0.0) - (part.dollars or 0.0)) if known else None,
            seconds=max(0.0, self.seconds - part.seconds),
        )


NOTHING = Usage()
"""What has cost nothing."""


class Costs(Protocol):
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


class Bill:
    """A sum that grows; dollars are added exactly, so that their order leaves no trace."""

    def __init__(self, before: Costs = NOTHING) -> None:
        self.calls = self.input_tokens = self.output_tokens = 0
        self.seconds, self._dollars, self._known = 0.0, Fraction(0), True
        self.add(before)

    def add(self, cost: Costs) -> None:
        """Add what something cost; an unknown price makes the sum unknown."""
        if cost is NOTHING:
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
        return Usage(
            calls=self.calls,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            dollars=self.dollars,
            seconds=self.seconds,
        )


def total(usages: Iterable[Usage]) -> Usage:
    """Sum of usages."""
    some = list(usages)
    return sum(some[1:], some[0]) if some else NOTHING


def cost_of(error: ModelError) -> Usage:
    """What a call that failed, or brought no valid reply, has cost all the same; whoever falls back counts it."""
    return error.cost or NOTHING


@contextmanager
def having_paid(spent: Usage) -> Iterator[None]:
    """Hand what was spent before on with a failure, which else would take the place of it."""
    try:
        yield
    except ModelError as error:
        error.cost = spent + cost_of(error)
        raise


class Budget(Value):
    """Upper limits; None means no limit.

    Args:
        calls: model calls, >= 0.
        tokens: tokens sent and received, >= 0.
        dollars: US dollars, >= 0; refused for a model without a price.
        seconds: wall time, >= 0.
    """

    calls: int | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)
    dollars: float | None = Field(default=None, ge=0)
    seconds: float | None = Field(default=None, ge=0)

    def refuse(self, spent: Usage, wanted: Usage, where: str) -> None:
        """Raise if what is spent plus what is wanted exceeds a limit.

        Raises:
            BudgetError: naming the limit, what was spent and the way out; or a limit in dollars meets an unknown price.
        """
        if self.dollars is not None and (spent.dollars is None or wanted.dollars is None):
            raise BudgetError(
                f"the budget of ${self.dollars:,.2f} cannot be kept in {where!r}: the price of a model is not known; "
                "limit calls or tokens instead"
            )
        for name, unit in (("calls", ""), ("tokens", ""), ("dollars", "$"), ("seconds", "")):
            if (limit := getattr(self, name)) is None:
                continue
            have, more = getattr(spent, name) or 0, getattr(wanted, name) or 0
            if have + more > limit + 1e-9:
                raise BudgetError(
                    f"budget exhausted in {where!r}: {unit}{_shown(have)} of {unit}{_shown(limit)} {name} spent and "
                    f"up to {unit}{_shown(more)} more needed; raise the limit on {name} and resume the run"
                )


def _shown(amount: float) -> str:
    return f"{amount:,}" if isinstance(amount, int) or 0 < amount < 0.01 else f"{amount:,.2f}"
