"""The one place where errors become a line on stderr and an exit code."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from pydantic import ValidationError

from selfwire.cli.exit_codes import INTERRUPTED, STOPPED, WRONG
from selfwire.core.errors import BudgetError, ModelError, OutageError, SelfwireError, format_validation_error
from selfwire.core.secrets import mask_secrets
from selfwire.core.values import mask_controls


def exit_on(error: BaseException, *, traceback: bool) -> None:
    """Exit with one line and code 2 on an error of ours, with 130 on Ctrl-C; any other error is left to the caller.

    Args:
        error: that ended a command.
        traceback: whether errors are left as they are, so that one sees where they were raised.
    """
    if isinstance(error, KeyboardInterrupt | asyncio.CancelledError | typer.Abort):
        typer.echo("stopped", err=True)
        raise typer.Exit(INTERRUPTED) from None
    if isinstance(error, SelfwireError | ValueError) and not traceback:
        typer.echo(f"error: {format_in_one_line(error)}", err=True)
        raise typer.Exit(WRONG) from None


@contextmanager
def print_before_exit(say: Callable[[bool], None], *, on_any_error: bool = False) -> Iterator[None]:
    """Print something where a run ends, whether it finishes or a budget, a provider or Ctrl-C stops it.

    Args:
        say: prints; its argument says whether the run is finished.
        on_any_error: whether it prints after other errors too.
    """
    try:
        yield
    except (BudgetError, OutageError, ModelError) as error:
        typer.echo(f"stopped: {mask_controls(mask_secrets(str(error)))}", err=True)
        say(False)
        raise typer.Exit(STOPPED) from None
    except BaseException as error:
        if on_any_error or isinstance(error, KeyboardInterrupt):
            say(False)
        raise
    say(True)


def format_in_one_line(error: Exception) -> str:
    """An error's message in one line; of a ValidationError the fields and their faults."""
    said = str(error)
    if isinstance(error, ValidationError):
        said = "; ".join(
            f"{error.title}." * bool(found["loc"]) + format_validation_error(found) for found in error.errors()[:3]
        )
    return mask_controls(mask_secrets(" ".join(said.split()))) or type(error).__name__
