"""The limits of a run, at its start and where it is resumed."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from selfwire.cli import options
from selfwire.cli.options import list_given_options, refuse_unused, to_option
from selfwire.core.budget import Budget
from selfwire.core.errors import ConfigError
from selfwire.runs.run_record import CHANGEABLE_NAMES

LIMITS = {"calls": "budget_calls", "tokens": "budget_tokens", "dollars": "budget_usd", "seconds": "budget_seconds"}
"""Parameter of the command by limit of a budget."""

BESIDE = ("resume", "retry_failed", "home", "workers", "executor", "ray_address", "markdown", "max_errors", "as_json")
"""Options that a run does not remember, as its results do not depend on them."""


@dataclass(frozen=True)
class Limits:
    """The most that may be spent."""

    budget_calls: options.BudgetCalls = None
    budget_tokens: Annotated[int | None, typer.Option(help="Stop after this many tokens.")] = None
    budget_usd: Annotated[float | None, typer.Option(help="Stop after this many US dollars.")] = None
    budget_seconds: Annotated[float | None, typer.Option(help="Stop after this many seconds.")] = None

    @property
    def budget(self) -> Budget:
        """The budget, as requests hold it."""
        return Budget(**{limit: getattr(self, name) for limit, name in LIMITS.items()})


def parse_changes(ctx: typer.Context) -> dict[str, Any]:
    """What is given beside --resume, as arguments of the functions that resume a run.

    Raises:
        ConfigError: another option is given, which the run remembers.
    """
    given = [name for name in list_given_options(ctx) if name not in BESIDE]
    changeable = (*LIMITS.values(), *sorted(CHANGEABLE_NAMES))
    if others := [name for name in given if name not in changeable]:
        raise ConfigError(
            f"--resume remembers its options, so {', '.join(map(to_option, others))} cannot be given beside it; "
            f"only {', '.join(map(to_option, changeable))} can"
        )
    return {
        "limits": {limit: ctx.params[name] for limit, name in LIMITS.items() if name in given},
        "models": {name: ctx.params[name] for name in CHANGEABLE_NAMES.intersection(given)},
        "retry_failed": ctx.params["retry_failed"],
    }


def refuse_without_resume(ctx: typer.Context) -> None:
    """Refuse what only a resumed run heeds.

    Raises:
        ConfigError: it is given.
    """
    refuse_unused(ctx, ["retry_failed"], "a new run has no replies on record; give --resume RUN too")
