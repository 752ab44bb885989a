"""How errors become a line on stderr and an exit code."""

import asyncio
import errno
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from pydantic import ValidationError

from selfwire.cli.commands import COMMANDS, INTERRUPTED, NO_READER, STOPPED, WRONG
from selfwire.cli.json_output import add_result, format_in_one_line, format_usage_error, print_error
from selfwire.core.errors import ModelError, SelfwireError, StoppedError, UnansweredError
from selfwire.core.text import mask_secrets
from selfwire.core.values import mask_controls

USAGE: Any = typer.BadParameter.__base__
"""Class of the faults of a command line, such as an unknown option; typer prints them and exits with code 2."""
INTERRUPTS = (KeyboardInterrupt, asyncio.CancelledError, typer.Abort)
"""Errors by which a person stops a command."""


SETTING = frozenset({"adopt", "eval", "evolve", "run"})
"""Commands whose `--set` says where a graph of the user's own takes the question and has the answer."""


class ExplainedInterrupt(KeyboardInterrupt):
    """A person has stopped a command, and how it goes on is printed."""


def exit_on(error: BaseException, given: Sequence[str], *, traceback: bool) -> None:
    """Exit with one line and code 2 on an error of ours, with 130 on Ctrl-C; any other error is left to the caller.

    Where nobody reads the output any more, exit without a line.

    Args:
        error: that ended a command.
        given: the command line; with `--json` in it the error is printed as JSON too.
        traceback: whether errors are left as they are, so that one sees where they were raised.
    """
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python writes the rest when it ends
        raise typer.Exit(NO_READER) from None
    ours = format_in_one_line(error) if isinstance(error, SelfwireError | ValueError) else ""
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        ours = f"{str(error.filename)[:60]!r}... is too long for the name of a file or folder; give a shorter one"
    if isinstance(error, USAGE):
        _point_at_way(error, given)
        _name_no_version(error, given)
        ours = format_usage_error(error) if isinstance(error.__cause__, ValidationError) else ""
        print_error(format_usage_error(error), given, COMMANDS)
    else:
        print_error(ours, given, COMMANDS)
    if isinstance(error, INTERRUPTS):
        resumes = any(part.partition("=")[0] == "--resume" for part in given)
        if resumes and not isinstance(error, ExplainedInterrupt):
            typer.echo(f"go on with: {mask_secrets(shlex.join(['selfwire', *given]))}", err=True)
        typer.echo("stopped", err=True)
        raise typer.Exit(INTERRUPTED) from None
    if ours and not traceback:
        typer.echo(f"error: {ours}", err=True)
        raise typer.Exit(WRONG) from None


def _point_at_way(error: Any, given: Sequence[str]) -> None:
    """Have the fault of an option that no command has name how its value is given.

    `--from` is how a saved team is evolved, and `--input` and `--answer` are fields of a graph of the user's own. An
    option of a command may stand before its name.
    """
    option = getattr(error, "option_name", "")
    place = next((place for place, word in enumerate(given) if word.partition("=")[0] == option), None)
    if place is None:
        return
    value, way = given[place].partition("=")[2] or next(iter(given[place + 1 :]), ""), ""
    if option == "--from" and "evolve" in given:
        way = f"selfwire evolve {shlex.quote(value or 'NAME@3')}"
    elif option in ("--input", "--answer") and SETTING & {*given}:
        way = f"--set {shlex.quote(f'{option[2:]}={value}')}"
    command = next((word for word in given[place + 1 :] if word in COMMANDS), "")
    if command and error.ctx and error.ctx.parent is None:
        way = f"selfwire {command} {option} ..."
    if way:
        error.message, error.possibilities = f"{error.message}; did you mean: {way}", None


def _name_no_version(error: Any, given: Sequence[str]) -> None:
    """Have a negative number after `rollback` be no option that is not known."""
    wrong = [word for word in given if word[:1] == "-" and word[1:].isdecimal()]
    if "rollback" in given and wrong and getattr(error, "option_name", None):
        error.message = f"{wrong[0]} is no version; name one as `selfwire history` lists it, its step, or a tag"
        error.possibilities = None


@contextmanager
def print_before_exit(say: Callable[[bool], None], *, on_any_error: bool = False) -> Iterator[None]:
    """Print something where a run ends, whether it finishes or a budget, a provider or Ctrl-C stops it.

    Args:
        say: prints; its argument says whether the run is finished.
        on_any_error: whether it prints after other errors too.
    """
    try:
        yield
    except UnansweredError:  # no run is left
        raise
    except (StoppedError, ModelError) as error:
        typer.echo(f"stopped: {mask_controls(mask_secrets(str(error)))}", err=True)
        add_result(error=format_in_one_line(error))
        say(False)
        raise typer.Exit(STOPPED) from None
    except BaseException as error:
        if on_any_error or isinstance(error, KeyboardInterrupt):
            say(False)
            if isinstance(error, INTERRUPTS):
                raise ExplainedInterrupt from None
        raise
    say(True)
