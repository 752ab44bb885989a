"""Errors that selfwire raises on purpose, and packages that an installation may lack.

`ValueError` (with pydantic's ValidationError) is for a caller's mistake in a value; the errors below are for failures
while selfwire runs. Messages say what happened, the values seen and the way out.
"""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from sysconfig import get_path
from traceback import walk_tb
from typing import Any, Self

from pydantic import ValidationError

from selfwire.core.text import mask_secrets
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import ZERO_USAGE, Usage
from selfwire.core.values import format_fault, replace_surrogates


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

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.line, self.reason), self.__dict__


class TopologyError(SelfwireError):
    """A topology has problems that the caller's policy forbids."""


class ConfigError(SelfwireError):
    """A name, file, option or combination from the user cannot be used."""


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
    """A run or question whose first calls a provider has refused; nothing was answered, and no run is left."""

    @classmethod
    def of(cls, error: RefusedError, what: str) -> Self:
        """Make the error of a refusal; `what` says what is left and what to do again."""
        why = str(error).partition("; it does not answer")[0]
        return cls(f"{why}; nothing was answered, so {what} with the right key, --model or --base-url")


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
    """Format an error's class and message, if it has one, as records of failed steps, rounds and runs store it."""
    return mask_secrets(replace_surrogates(f"{type(error).__name__}: {error}".removesuffix(": ")))


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
    """Put the arguments of a function in place of the options that an error names.

    Options without an argument stay, and so do commands in backticks.

    Args:
        names: of the function's arguments.
    """

    def write(found: re.Match[str]) -> str:
        argument = ARGUMENTS.get(found[0], found[0].removeprefix("--").replace("-", "_"))
        return argument if argument.partition("=")[0] in names else found[0]

    if isinstance(error, SelfwireError | ValueError) and error.args and isinstance(error.args[0], str):
        error.args = (_OPTION.sub(write, error.args[0]), *error.args[1:])


_LIBRARIES = (*map(get_path, ("stdlib", "platstdlib", "purelib", "platlib")), "<")
_PACKAGES = {"site-packages", "dist-packages"}


def format_place(error: BaseException) -> str:
    """Format where the user's code raised an error, as " (shop.py:12)"; "" if that is not known."""
    own = _list_own_lines(error)
    return f" ({Path(own[-1][0]).name}:{own[-1][1]})" if own else ""


def find_error_place(error: BaseException, folder: Path) -> str:
    """Find the innermost line of the user's code that an error came through, as `format_line`; "" if none is known."""
    own = [(error.filename, error.lineno or 1)] if isinstance(error, SyntaxError) and error.filename else []
    own = own or _list_own_lines(error)
    return format_line(*own[-1], folder) if own else ""


def format_line(file: str, line: int, folder: Path) -> str:
    """Show a line of a file, as `shop.py:12` if it is in a folder, and else with the whole path."""
    path = Path(file)
    return f"{(path.relative_to(folder) if path.is_relative_to(folder) else path).as_posix()}:{line}"


def _list_own_lines(error: BaseException) -> list[tuple[str, int]]:
    """List the lines of the user's code that an error came through, by file and number."""
    lines = list[tuple[str, int]]()
    for frame, line in walk_tb(error.__traceback__):
        file, known = frame.f_code.co_filename, frame.f_globals
        module = getattr(known.get("__spec__"), "name", None) or known.get("__name__", "")
        is_library = file.startswith(_LIBRARIES) or not _PACKAGES.isdisjoint(Path(file).parts)
        if module.partition(".")[0] != "selfwire" and not is_library:
            lines.append((file, line))
    return lines


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
