"""`--json`: one JSON object on standard output in place of everything that is for people, which goes to standard error.

Every object has `command`; the rest is what the command adds, and `error` where it fails. docs/commands.md lists the
fields.
"""

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import redirect_stdout
from contextvars import ContextVar
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any

import typer
from pydantic_core import to_json

from selfwire.cli.error_words import format_in_one_line
from selfwire.core.errors import SelfwireError
from selfwire.core.values import to_plain_json

_FOUND: ContextVar[dict[str, Any] | None] = ContextVar("found", default=None)

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object; all that is for people goes to standard error.")
]


def add_result(**fields: Any) -> None:
    """Add fields to the object that `--json` prints; does nothing without it."""
    found = _FOUND.get()
    if found is not None:
        found |= fields


def print_error(error: str, given: Sequence[str], commands: Collection[str]) -> None:
    """Print what ended the command line, if `--json` is given and the command has not printed its object itself.

    Args:
        error: "" for what is no error of the command line, such as an exit code.
        given: the command line.
        commands: names of commands.
    """
    printed = _FOUND.get() is not None
    _FOUND.set(None)
    if error and "--json" in given and not printed:
        _print({"command": next((one for one in given if one in commands), ""), "error": error})


def _print(found: Mapping[str, Any]) -> None:
    typer.echo(to_json(found, indent=2, inf_nan_mode="null", fallback=to_plain_json))


def add_json_option(name: str, command: Callable[..., None]) -> Callable[..., None]:
    """The command with `--json` after its other options."""
    asked = signature(command)

    @wraps(command)
    def called(*, as_json: bool, **given: Any) -> None:
        if not as_json:
            command(**given)
            return
        found: dict[str, Any] = {"command": name}
        _FOUND.set(found)
        try:
            with redirect_stdout(sys.stderr):
                command(**given)
        except (SelfwireError, ValueError) as error:
            found["error"] = format_in_one_line(error)
            raise
        finally:
            _print(found)
        _FOUND.set(None)

    parameters = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in asked.parameters.values()]
    option = Parameter("as_json", Parameter.KEYWORD_ONLY, default=False, annotation=JsonOption)
    called.__signature__ = asked.replace(parameters=[*parameters, option])  # type: ignore[attr-defined]  # for typer
    return called
