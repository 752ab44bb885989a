"""One family of errors, named after the boundary that was crossed.

`ValueError` (with pydantic's ValidationError) is for a caller's mistake in a value; the errors below are for failures
while selfwire runs. Messages say what happened, the values seen and the way out.
"""

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from selfwire.core.secrets import mask_secrets
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.core.values import replace_surrogates


class SelfwireError(RuntimeError):
    """Base of every error that selfwire raises on purpose.

    It is a RuntimeError, as a LangGraph server shows the messages of Python's own errors only.
    """


class EditError(SelfwireError):
    """An edit does not fit the workflow; the message names the edit and what would be legal."""


class ToolSourceError(SelfwireError, ValueError):
    """The source of a tool may not run; it names the line and the reason."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line, self.reason = line, reason


class TopologyError(SelfwireError):
    """A topology has problems that the caller's policy forbids."""


class ConfigError(SelfwireError):
    """A name, file, option or combination from the user cannot be used."""


class StoppedError(SelfwireError):
    """A run must stop in a resumable state, through no fault of its tasks."""

    partial_result: Trajectory | None = None
    """The best trajectory of a question's run until then."""


class BudgetError(StoppedError):
    """A budget would be exceeded; the run stops in a resumable state."""


class TaskBudgetError(BudgetError):
    """A task has used up the calls reserved for it; the other tasks go on."""


class CallError(SelfwireError):
    """A model call failed after its retries."""

    cost: Usage | None = None
    """Billed for its attempts; None if unknown."""
    is_cost_known: bool = False
    """Whether nothing else can have been billed, as the provider refused all other attempts."""


class ModelError(CallError):
    """A model call failed: an infrastructure fault, never an answer."""


class OutageError(StoppedError, CallError):
    """A provider is down, which is not the fault of a task: the run stops in a resumable state."""


class WorkerError(StoppedError):
    """Worker processes died again and again at the same job; the run stops in a resumable state."""


class ReplyError(ModelError):
    """A model gave no valid reply, even after repair and one re-ask."""


class ToolError(SelfwireError):
    """A tool refused its input or failed; agents read the message as its result."""


class GradingError(SelfwireError):
    """An environment or grader failed: the task ends as an error, not as a score of zero."""


class SandboxError(SelfwireError):
    """A sandbox could not run a program, which is not the fault of the program and never a score."""


class TaskError(SelfwireError):
    """A team ended without an answer because its sink failed or received nothing."""


class JournalError(SelfwireError):
    """A run's journal is corrupt, foreign, locked by another process or does not match the config."""


class LibraryError(SelfwireError):
    """A saved workflow is missing, or the library's file is corrupt or foreign."""


def format_error(error: BaseException) -> str:
    """An error's class and message, as records of failed steps, rounds and runs store it."""
    return mask_secrets(replace_surrogates(f"{type(error).__name__}: {error}"))


def format_validation_error(details: ErrorDetails) -> str:
    """One error of a ValidationError: the field, the reason and the value; where it is about all, only the reason."""
    return format_fault(details) + (f", not {details['input']!r}" if details["loc"] else "")


def format_fault(details: ErrorDetails, whole: str = "") -> str:
    """One error of a ValidationError without the value; `whole` stands for the field where it is about all."""
    field = ".".join(map(str, details["loc"])) or whole
    reason = details["msg"].removeprefix("Value error, ")  # pydantic's word before a message of ours
    return f"{field}: {reason}" if field else reason


def format_faults(error: ValidationError, whole: str = "", *, most: int | None = None) -> str:
    """The errors of a ValidationError, or the first of them, in one line; see `format_fault`."""
    return "; ".join(format_fault(one, whole) for one in error.errors()[:most])


def format_first_fault(error: ValidationError, whole: str = "") -> str:
    """The first error of a ValidationError; see `format_fault`."""
    return format_faults(error, whole, most=1)
