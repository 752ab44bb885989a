"""Errors that selfwire raises on purpose, and packages that an installation may lack.

`ValueError` (with pydantic's ValidationError) is for a caller's mistake in a value; the errors below are for failures
while selfwire runs. Messages say what happened, the values seen and the way out.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from numbers import Integral, Real
from pathlib import PurePath
from reprlib import Repr

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from selfwire.core.text import mask_secrets
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import ZERO_USAGE, Usage
from selfwire.core.values import is_id, replace_surrogates


class SelfwireError(RuntimeError):
    """Base of every error that selfwire raises on purpose.

    A LangGraph server shows only messages of Python's built-in errors, so the base is RuntimeError.
    """


class EditError(SelfwireError):
    """An edit does not fit the team; the message names the edit and what would be legal."""


class ToolSourceError(SelfwireError, ValueError):
    """The source of a tool is not allowed; the message names the line and the reason."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line, self.reason = line, reason


class TopologyError(SelfwireError):
    """A topology has problems that the caller's policy forbids."""


class ConfigError(SelfwireError):
    """A name, file, option or combination from the user cannot be used."""


ARGUMENTS = {
    "--train": "trainset",
    "--gate-size": "valset",
    "--test": "testset",
    "--tasks": "limit",
    "--meta-model": "meta",
    "--judge-model": "judge",
    "--budget-calls": 'budget={"calls": ...}',
    "--budget-tokens": 'budget={"tokens": ...}',
    "--budget-usd": 'budget={"dollars": ...}',
    "--budget-seconds": 'budget={"seconds": ...}',
    "--anyway": "anyway=True",
    "--prune": "prune=True",
    "--gate mean": 'gate="mean"',
    "--gate off": 'gate="off"',
    "--grader judge": 'grader="judge"',
    "--method hera": 'method="hera"',
    "--method router": 'method="router"',
}
"""Arguments of Python by option of the command line, where they are called or written in another way."""
_OPTION = re.compile(rf"`[^`]*`|{'|'.join(option for option in ARGUMENTS if ' ' in option)}|--[a-z]+(?:-[a-z]+)*")


def name_arguments(error: Exception, names: Collection[str]) -> None:
    """Put the arguments of a function in place of the options that an error names; options without one stay.

    So does what stands in backticks, as that is a command.

    Args:
        names: of the function's arguments.
    """

    def write(found: re.Match[str]) -> str:
        argument = ARGUMENTS.get(found[0], found[0].removeprefix("--").replace("-", "_"))
        return argument if argument.partition("=")[0] in names else found[0]

    if isinstance(error, SelfwireError | ValueError) and error.args and isinstance(error.args[0], str):
        error.args = (_OPTION.sub(write, error.args[0]), *error.args[1:])


_KINDS: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "int": (Integral, "a whole number"),
    "float": (Real, "a number"),
    "bool": (bool, "True or False"),
    "str": (str, "a text"),
    "str | Path": ((str, PurePath), "a path"),
    "Callable[[Event], None]": (Callable, "a function"),  # type: ignore[dict-item]
}
"""Types of values by annotation, and their names in messages."""


def require_kinds(annotations: Mapping[str, object], given: Mapping[str, object]) -> None:
    """Check the arguments of a function that are numbers, texts, paths or functions by its annotations.

    Args:
        annotations: as text, by the argument's name.
        given: values by the argument's name.

    Raises:
        ConfigError: one of them is a value of another kind.
    """
    for name, value in given.items():
        kind, optional, _ = str(annotations.get(name, "")).partition(" | None")
        if kind not in _KINDS or (optional and value is None):
            continue
        types, described = _KINDS[kind]
        if not isinstance(value, types) or (isinstance(value, bool) and types is not bool):
            raise ConfigError(f"{name} must be {described}{' or None' if optional else ''}, not {value!r}")


def require_names(what: str, names: Iterable[object]) -> None:
    """Check names of runs, teams or models.

    Args:
        what: they name, such as "a run".

    Raises:
        ConfigError: one of them is no name.
    """
    for name in names:
        if not is_id(name):
            raise ConfigError(f"{what} is called by up to 64 letters, digits, _ and -, not {name!r}")


class StoppedError(SelfwireError):
    """A run must stop in a resumable state, through no fault of its tasks."""

    partial_result: Trajectory | None = None
    """The best trajectory before the stop, of a run on a single question."""


class BudgetError(StoppedError):
    """A budget would be exceeded; the run stops in a resumable state."""


class TaskBudgetError(BudgetError):
    """A task has used up the calls reserved for it; the other tasks go on."""


class CallError(SelfwireError):
    """A model call failed after its retries."""

    cost: Usage | None = None
    """Cost of the billed attempts; None if unknown."""
    is_cost_known: bool = False
    """Whether `cost` is complete, because the provider refused all other attempts."""


class ModelError(CallError):
    """A model call failed: an infrastructure fault, never an answer."""


class OutageError(StoppedError, CallError):
    """A provider is down; no task is to blame, and the run stops in a resumable state."""


class RefusedError(OutageError):
    """A provider refuses the key, the model's name or the address of every call; only other options can help."""


class UnansweredError(ConfigError):
    """A run whose first calls a provider has refused; nothing was answered, and the run is removed."""


class UngradedError(StoppedError):
    """A grader fails on every answer; the run stops in a resumable state."""


class WorkerError(StoppedError):
    """Worker processes died repeatedly at the same job; the run stops in a resumable state."""


class ReplyError(ModelError):
    """A model gave no valid reply, even after JSON repair and a second request."""


class ToolError(SelfwireError):
    """A tool refused its input or failed; the agent reads the message as the tool's result."""


class GradingError(SelfwireError):
    """An environment or grader failed: the task ends as an error, not as a score of zero."""


class SandboxError(SelfwireError):
    """A sandbox could not run a program; this never counts against the program's score."""


class TaskError(SelfwireError):
    """A team ended without an answer because its sink failed or received nothing."""


class JournalError(SelfwireError):
    """A run's journal is corrupt, foreign, locked by another process or does not match the config."""


class LibraryError(SelfwireError):
    """A saved team is missing, or the library's file is corrupt or foreign."""


def format_error(error: BaseException) -> str:
    """Format an error's class and message, as records of failed steps, rounds and runs store it."""
    return mask_secrets(replace_surrogates(f"{type(error).__name__}: {error}"))


UNKNOWN = "extra_forbidden"
"""Pydantic's name for the error of a field that does not exist."""
_VALUES = Repr()
_VALUES.maxstring = _VALUES.maxother = 60


def format_validation_error(details: ErrorDetails) -> str:
    """Format an error of a ValidationError with field, reason and value, if the field is known and has one."""
    has_value = details["loc"] and details["type"] not in ("missing", UNKNOWN)
    return format_fault(details) + (f", not {_VALUES.repr(details['input'])}" if has_value else "")


def format_fault(details: ErrorDetails, whole: str = "") -> str:
    """Format an error of a ValidationError with field and reason; `whole` replaces the field if there is none."""
    field = ".".join(map(str, details["loc"])) or whole
    reason = details["msg"].removeprefix("Value error, ")  # pydantic's word before a message of ours
    reason = "there is no such field" if details["type"] == UNKNOWN else reason
    return f"{field}: {reason}" if field else reason


def format_faults(error: ValidationError, whole: str = "", *, most: int | None = None) -> str:
    """Format the errors of a ValidationError, at most `most`, in one line; see `format_fault`."""
    return "; ".join(format_fault(details, whole) for details in error.errors()[:most])


def format_first_fault(error: ValidationError, whole: str = "") -> str:
    """Format the first error of a ValidationError; see `format_fault`."""
    return format_faults(error, whole, most=1)


def refuse_missing(package: str, user: str) -> None:
    """Check that a package is installed, without importing it.

    Args:
        package: its name on PyPI; its module has the same name with underscores.
        user: the feature that needs it, as the subject of a sentence.

    Raises:
        ConfigError: it is not installed; the message has the command that installs it.
    """
    if find_spec(package.replace("-", "_")) is None:
        raise ConfigError(f"{user} needs {package}, which is not installed: pip install {package}")


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
