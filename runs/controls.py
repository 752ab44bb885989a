"""The control of random legal edits: a method must gain more than random edits do."""

from collections.abc import Mapping, Sequence
from typing import Any

from selfwire.core.edits import Rewiring
from selfwire.core.errors import ConfigError
from selfwire.graphs.method_protocol import Method
from selfwire.graphs.method_registry import describe_method, installed_methods
from selfwire.runtime.offline.vocabulary import paraphrases

UNMATCHED = ("REPAIR", "PRUNE", "ADD_EXAMPLES")
"""Kinds of rewirings without a random counterpart: the control has the method's own, or nothing that runs changes."""


def with_random_edits(method: Method, operations: Sequence[Sequence[str]]) -> Method:
    """The control for a method: every instruction that the stand-in's vocabulary knows may be drawn.

    Args:
        operations: kinds of edits per iteration.

    Raises:
        ConfigError: there is no such control for the method.
    """
    make_control = describe_method(method.name).random_edits
    if make_control is None:
        names = " and ".join(one.name for one in installed_methods() if one.random_edits)
        raise ConfigError(f"random edits are a control for {names}, not for {method.name}")
    instructions = tuple(text for texts in paraphrases().values() for text in texts)
    return make_control(method, operations, instructions)


def list_operations(applied: Sequence[Rewiring], notes: Mapping[str, Any]) -> tuple[str, ...]:
    """Kinds of the edits that a method made in an iteration, and of those that failed its own test, in its notes."""
    made = (*(one.operation for one in applied), *notes.get("tried", ()))
    return tuple(one for one in made if one not in UNMATCHED)
