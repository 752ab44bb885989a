"""The object that `--json` prints, and errors in one line.

The object has `command`; the rest is what the command adds, and `error` where it fails. docs/commands.md lists the
fields. Nothing here imports a framework, so that commands which only read begin at once.
"""

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from pydantic_core import ErrorDetails, to_json

from selfwire.core.errors import SelfwireError
from selfwire.core.text import mask_secrets
from selfwire.core.values import format_validation_error, mask_controls, to_plain_json

OPTIONS: dict[str, dict[str, str]] = {
    "Models": {"agent": "--model", "meta": "--meta-model", "judge": "--judge-model"},
    "Sizes": {"gate": "--gate-size"},
    "PreEvolutionSpec": {"names": "--evolve"},
    "Budget": {
        "calls": "--budget-calls",
        "tokens": "--budget-tokens",
        "dollars": "--budget-usd",
        "seconds": "--budget-seconds",
    },
    "EvolutionConfig": {},
    "EvolveSpec": {},
    "EvaluateSpec": {},
    "SystemSpec": {"name": "the name before ="},
    "PruningConfig": {},
    "Study": {},
    "TraceRules": {},
    "TrainConfig": {},
}
"""By the class of a request: options whose names differ from the names of their fields."""
REASONS = {
    "greater_than_equal": "must be {ge:g} or more",
    "greater_than": "must be more than {gt:g}",
    "less_than_equal": "must be {le:g} or less",
    "less_than": "must be less than {lt:g}",
    "literal_error": "must be {expected}",
    "finite_number": "must be a finite number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "string_pattern_mismatch": "must be at most 64 letters, digits, _ and -, and begin with a letter or a digit",
}
"""Reasons by the kind of fault, as pydantic names it."""


def _format_fault(title: str, found: ErrorDetails) -> str:
    if not found["loc"]:
        return format_validation_error(found)
    if title not in OPTIONS or len(found["loc"]) > 1:
        return f"{title}.{format_validation_error(found)}"
    field = str(found["loc"][0])
    return _format_option_fault(OPTIONS[title].get(field) or f"--{field.replace('_', '-')}", found)


def format_usage_error(error: Any) -> str:
    """Format an error of typer in one line, and one that pydantic has found in a value as an option and its fault."""
    fault, param = error.__cause__, getattr(error, "param", None)
    if isinstance(fault, ValidationError) and param is not None:
        return _format_option_fault(max(param.opts, key=len), fault.errors()[0])
    return " ".join(str(error.format_message()).split())


def _format_option_fault(option: str, found: ErrorDetails) -> str:
    reason = REASONS.get(found["type"])
    if reason is None:
        return f"{option}: {format_validation_error(found).partition(': ')[2]}"
    is_number = found["type"].startswith(("greater", "less"))  # a text of the command line too
    given = str(found["input"]) if is_number else repr(found["input"])
    return f"{option} {reason.format(**found.get('ctx', {}))}, not {given}"


def format_in_one_line(error: Exception) -> str:
    """Format an error in one line; a ValidationError as options and their faults."""
    said = str(error)
    found = error.__context__
    if isinstance(found, ValidationError) and said.startswith(f"{found.title}: "):
        error = found  # which `FrozenModel` has made clear for Python
    if isinstance(error, ValidationError):
        said = "; ".join(_format_fault(error.title, fault) for fault in error.errors()[:3])
    return mask_controls(mask_secrets(" ".join(said.split()))) or type(error).__name__


_FOUND: ContextVar[dict[str, Any] | None] = ContextVar("found", default=None)
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object; all that is for people goes to standard error.")
]


def add_result(**fields: Any) -> None:
    """Add fields to the object that `--json` prints; does nothing without it."""
    found = _FOUND.get()
    if found is not None:
        found |= fields


@contextmanager
def keep_results() -> Iterator[None]:
    """Take back what a block adds to the object that `--json` prints; what a failing block has added stays."""
    found = _FOUND.get()
    before = dict(found or {})
    yield
    if found is not None:
        found.clear()
        found |= before


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
        _print({"command": next((word for word in given if word in commands), ""), "error": error})


def _print(found: Mapping[str, Any]) -> None:
    text = to_json(found, indent=2, inf_nan_mode="null", fallback=to_plain_json)
    if sys.stdout.isatty():
        print_text(text.decode())
    else:
        typer.echo(text)  # UTF-8, whatever the encoding of the locale


def print_text(text: str) -> None:
    """Print a text that a model may have written: unchanged for other programs, with controls masked in a terminal."""
    typer.echo(mask_controls(text) if sys.stdout.isatty() else text, color=True)  # else click cuts some


def add_json_option(name: str, command: Callable[..., None]) -> Callable[..., None]:
    """Add `--json` to a command, after its other options."""
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

    parameters = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in asked.parameters.values()]
    option = Parameter("as_json", Parameter.KEYWORD_ONLY, default=False, annotation=JsonOption)
    called.__signature__ = asked.replace(parameters=[*parameters, option])  # type: ignore[attr-defined]  # for typer
    return called
