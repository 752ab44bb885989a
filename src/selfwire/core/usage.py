"""The cost of model calls, sums of it, limits on it, and its price in score."""

import ast
import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from selfwire.core.values import FrozenModel, format_count


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

    def __str__(self) -> str:
        """Calls, tokens and price, such as `12 calls, 3,400 tokens, $0.05`; less than a cent is not shown as zero."""
        price = "price unknown" if self.dollars is None else f"${self.dollars:,.2f}"
        if self.dollars is not None and 0 < self.dollars < 0.01:
            price = "under $0.01"
        return f"{format_count(self.calls, 'call')}, {format_count(self.tokens, 'token')}, {price}"

    def __repr__(self) -> str:
        return f"<{self}>"

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


class UsageAccumulator:
    """A running sum of costs; dollars are added exactly, so that their order does not matter."""

    def __init__(self, start: Usage = ZERO_USAGE) -> None:
        self.calls = self.input_tokens = self.output_tokens = 0
        self.seconds, self._dollars, self._priced = 0.0, Fraction(0), True
        self.add(start)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UsageAccumulator) and self.usage == other.usage

    def add(self, cost: Usage) -> None:
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
        if isinstance(given, Mapping) and (other := sorted(set(given).difference(cls.model_fields))):
            names = ", ".join(cls.model_fields)
            raise ValueError(f"a budget has no {other[0]}; its limits are {names}, as in dollars=1")
        return given

    def find_zero(self) -> str:
        """Find the first limit that is 0, so that no call can be made; "" if there is none."""
        return next((name for name in type(self).model_fields if getattr(self, name) == 0), "")


COSTS = ("calls", "tokens", "dollars", "seconds")
"""What an objective may take off the score, beside numbers."""
CHEAPEST = "cheapest"
"""The objective of fewest calls at a loss that is ruled out."""
LONGEST = 200
"""Most characters of an objective."""


class Objective(FrozenModel):
    """The score, less the price of what it costs.

    Args:
        calls, tokens, dollars, seconds: score that one of these costs a task.
        cheapest: whether a change has to make fewer calls, and must not lose more than the margin.
    """

    calls: float = Field(default=0.0, ge=0)
    tokens: float = Field(default=0.0, ge=0)
    dollars: float = Field(default=0.0, ge=0)
    seconds: float = Field(default=0.0, ge=0)
    cheapest: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an objective such as "score - 0.01*calls"; one with a multiple of the score is divided by it.

        Nothing is evaluated as code: names, numbers, + - * / and brackets are read, and no product of names.

        Raises:
            ValueError: it is no such sum, a higher score would lower it, or a cost would raise it.
        """
        if text.strip() == CHEAPEST:
            return cls(cheapest=True)
        way = f"; write a sum of score and costs ({', '.join(COSTS)}), such as 'score - 0.01*calls', or {CHEAPEST!r}"
        if len(text) > LONGEST:
            raise ValueError(f"it has {len(text)} characters, at most {LONGEST} are read{way}")
        try:
            found = _read_weights(ast.parse(text.strip(), mode="eval").body)
        except (ValueError, SyntaxError, RecursionError, MemoryError, OverflowError, ZeroDivisionError) as error:
            said = "it is no formula" if isinstance(error, SyntaxError) else str(error)
            raise ValueError(f"{said}{way}") from None
        score = found.get("score", 0.0)
        prices = {name: -found.get(name, 0.0) / score if score > 0 else 0.0 for name in COSTS}
        if score <= 0 or not all(map(math.isfinite, (score, *prices.values()))):
            raise ValueError(f"a higher score must raise it{way}")
        if rising := [name for name, price in prices.items() if price < 0]:
            raise ValueError(f"{rising[0]} would raise it, and a cost can only lower it{way}")
        return cls(**{name: price or 0.0 for name, price in prices.items()})

    @property
    def prices(self) -> dict[str, float]:
        """The costs that count, with the score that one of each costs."""
        return {name: price for name in COSTS if (price := getattr(self, name))}

    def compute_price(self, before: Usage, after: Usage) -> float:
        """Compute the score that a task's further costs take off; below 0 for what is saved.

        Raises:
            ValueError: dollars count, and a price is not known.
        """
        return math.fsum(price * subtract_cost(name, before, after) for name, price in self.prices.items())


def _check_run_objective(given: str) -> str:
    found = Objective.parse(given)
    if found.cheapest or found.dollars:
        raise ValueError("the objective of a single run counts score, calls, tokens and seconds")
    return given


RunObjective = Annotated[str, AfterValidator(_check_run_objective)]
"""An objective, as text, that is computed within a run: of score, calls, tokens and seconds."""


GIVE_PRICE = "give it in prices.json in the home folder, or on the command line with --prices FILE"
"""What to do for a model without a price."""


def subtract_cost(name: str, before: Usage, after: Usage) -> float:
    """Subtract one of `COSTS` of a usage from another's; raises ValueError where a price in dollars is not known."""
    old, new = getattr(before, name), getattr(after, name)
    if old is None or new is None:
        raise ValueError(f"the price of a model is not known; {GIVE_PRICE}, or count tokens or calls")
    return float(new - old)


def _read_weights(node: ast.expr) -> dict[str, float]:
    """Read a sum as the weight of each name; that of "" is a number by itself."""
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return {"": float(number)}
        case ast.Name(id=name) if name in ("score", *COSTS):
            return {name: 1.0}
        case ast.Name(id=name):
            raise ValueError(f"it has no name {name!r}")
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=part):
            return _scale_weights(_read_weights(part), -1.0 if isinstance(sign, ast.USub) else 1.0)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as sign, right=right):
            first, second = _read_weights(left), _read_weights(right)
            second = _scale_weights(second, -1.0 if isinstance(sign, ast.Sub) else 1.0)
            return {name: first.get(name, 0.0) + second.get(name, 0.0) for name in first | second}
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div() as sign, right=right):
            first, second = _read_weights(left), _read_weights(right)
            if isinstance(sign, ast.Mult) and second.keys() != {""}:
                first, second = second, first
            if second.keys() == {""}:
                return _scale_weights(first, second[""] if isinstance(sign, ast.Mult) else 1 / second[""])
            raise ValueError("names are multiplied with numbers and divided by them, not by each other")
    raise ValueError(f"{ast.unparse(node)[:40]!r} is no name, number or sum")


def _scale_weights(weights: Mapping[str, float], factor: float) -> dict[str, float]:
    return {name: weight * factor for name, weight in weights.items()}
