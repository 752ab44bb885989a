"""Limits on the cost of calls, and the cost of failed calls."""

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import Field

from selfwire.core.errors import BudgetError, ModelError
from selfwire.core.usage import ZERO_USAGE, Usage
from selfwire.core.values import FrozenModel


class Budget(FrozenModel):
    """Upper limits; None means no limit.

    Args:
        tokens: tokens sent and received, >= 0.
        dollars: US dollars, >= 0; refused for a model without a price.
    """

    calls: int | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)
    dollars: float | None = Field(default=None, ge=0)
    seconds: float | None = Field(default=None, ge=0)

    def refuse(self, spent: Usage, wanted: Usage, where: str, held: Usage = ZERO_USAGE) -> None:
        """Raise if the spent usage plus the held and the wanted one exceeds a limit.

        Args:
            held: the most that calls and tasks under way may still cost.

        Raises:
            BudgetError: a limit would be exceeded, or there is a limit in dollars and a price is unknown.
        """
        if self.dollars is not None and (spent.dollars is None or wanted.dollars is None):
            raise BudgetError(
                f"the budget of ${self.dollars:,.2f} cannot be kept in {where!r}: the price of a model is not known; "
                "limit calls or tokens instead"
            )
        for name, unit in (("calls", ""), ("tokens", ""), ("dollars", "$"), ("seconds", "")):
            if (limit := getattr(self, name)) is None:
                continue
            have, more, kept = (getattr(one, name) or 0 for one in (spent, wanted, held))
            if have + kept + more > limit + 1e-9:
                under_way = f", {unit}{_format(kept)} held by calls and tasks under way," if kept else ""
                raise BudgetError(
                    f"budget exhausted in {where!r}: {unit}{_format(have)} of {unit}{_format(limit)} {name} "
                    f"spent{under_way} and up to {unit}{_format(more)} more needed; raise the limit on {name} and "
                    "resume the run"
                )


def _format(amount: float) -> str:
    return f"{amount:,}" if isinstance(amount, int) or 0 < amount < 0.01 else f"{amount:,.2f}"


def get_error_cost(error: ModelError) -> Usage:
    """The cost of a call that failed or gave no valid reply; code with a fallback adds it to its own cost."""
    return error.cost or ZERO_USAGE


@contextmanager
def add_cost_on_error(spent: Usage) -> Iterator[None]:
    """Add the usage from before to the cost of a failure inside, so that it is not lost."""
    try:
        yield
    except ModelError as error:
        error.cost = spent + get_error_cost(error)
        raise
