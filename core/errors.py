"""Errors of a running selfwire; a ValueError is a caller's mistake in a value. Messages name the way out."""

from pydantic_core import ErrorDetails

from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.core.values import replace_surrogates


class SelfwireError(RuntimeError):
    """Base of every error that selfwire raises on purpose.

    A RuntimeError, as a LangGraph server shows people the messages of Python's own errors only.
    """


class EditError(SelfwireError):
    """An edit does not fit the workflow; the message names the edit and what would be legal."""


class TopologyError(SelfwireError):
    """A topology has problems that the caller's policy forbids."""


class ConfigError(SelfwireError):
    """A name, file, option or combination that the user gave cannot be used."""


class StoppedError(SelfwireError):
    """A run must stop in a resumable state, through no fault of its tasks."""

    partial_result: Trajectory | None = None
    """What a question's run had come to before, if anything."""


class BudgetError(StoppedError):
    """A budget would be exceeded; the run stops in a resumable state."""


class TaskBudgetError(BudgetError):
    """A task has used up the calls that were set aside for it; the other tasks go on."""


class ModelError(SelfwireError):
    """A model call failed after its retries: an infrastructure fault, never an answer."""

    cost: Usage | None = None
    """What its attempts were billed, if that is known."""


class OutageError(StoppedError):
    """A provider answers nobody: no fault of one task, so the run stops in a resumable state."""


class ReplyError(ModelError):
    """A model answered, but not with what was asked for, even after repair and one re-ask."""


class ToolError(SelfwireError):
    """A tool refused its input or failed; agents read the message as the tool's result."""


class GradingError(SelfwireError):
    """An environment or grader failed: the task ends as an error, not as a score of zero."""


class SandboxError(SelfwireError):
    """A sandbox could not run a program: no fault of the program, and never a score."""


class TaskError(SelfwireError):
    """A team ended without an answer because its sink failed or received nothing."""


class JournalError(SelfwireError):
    """A run's journal is corrupt, foreign, held by another process or does not match the config."""


class LibraryError(SelfwireError):
    """A saved workflow is missing or the library's file is corrupt or foreign."""


def format_error(error: BaseException) -> str:
    """An error's kind and message, as records of failed steps, rounds and runs have it."""
    return replace_surrogates(f"{type(error).__name__}: {error}")


def format_validation_error(found: ErrorDetails) -> str:
    """One of a ValidationError's complaints: the field, what is wrong with it, and the value."""
    return f"{'.'.join(map(str, found['loc']))}: {found['msg']}, not {found['input']!r}"
