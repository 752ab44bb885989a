"""Limits on the cost of calls, and the cost of failed calls."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pydantic import Field, model_validator

from selfwire.core.errors import BudgetError, ModelError
from selfwire.core.usage import ZERO_USAGE, Usage
from selfwire.core.values import FrozenModel


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

    def refuse(self, spent: Usage, wanted: Usage, where: str, reserved: Usage = ZERO_USAGE) -> None:
        """Raise BudgetError if spent, reserved and wanted usage together exceed a limit.

        Args:
            reserved: the most that calls and tasks under way may still cost.

        Raises:
            BudgetError: a limit would be exceeded, or there is a limit in dollars and a price is unknown.
        """
        if self.dollars is not None and (spent.dollars is None or wanted.dollars is None):
            raise BudgetError(
                f"the budget of ${self.dollars:,.2f} cannot be kept in {where!r}: the price of a model is not known; "
                "limit calls or tokens instead"
            )
        for name in ("calls", "tokens", "dollars", "seconds"):
            if (limit := getattr(self, name)) is None:
                continue
            have, more, kept = (getattr(usage, name) or 0 for usage in (spent, wanted, reserved))
            if have + kept + more > limit + NOTHING:
                under_way = f", {_format(name, kept)} held by calls and tasks under way," if kept > NOTHING else ""
                raise BudgetError(
                    f"budget exhausted in {where!r}: {_format(name, have)} of {_format(name, limit)} {name} "
                    f"spent{under_way} and up to {_format(name, more)} more needed; raise the limit on {name} and "
                    "resume the run"
                )


NOTHING = 1e-9
"""Amounts up to this are rounding errors of sums of dollars."""


def _format(name: str, amount: float) -> str:
    """Format an amount; less than a cent with the digits of millionths of a dollar."""
    unit = "$" if name == "dollars" else ""
    if isinstance(amount, int):
        return f"{unit}{amount:,}"
    if unit and NOTHING < amount < 0.01:
        return f"{unit}{max(amount, 1e-6):.6f}".rstrip("0")
    return f"{unit}{amount:,.2f}"


def get_error_cost(error: ModelError) -> Usage:
    """Return the cost of a call that failed or gave no valid reply; code with a fallback adds it to its own cost."""
    return error.cost or ZERO_USAGE


@contextmanager
def add_cost_on_error(spent: Usage) -> Iterator[None]:
    """Add `spent` to the cost of an error raised in the block, so that earlier calls still count."""
    try:
        yield
    except ModelError as error:
        error.cost = spent + get_error_cost(error)
        raise
