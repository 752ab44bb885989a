"""The control of random legal edits: a method must gain more than random edits do."""

from collections.abc import Sequence

from selfwire.core.edits import Rewiring
from selfwire.core.errors import ConfigError
from selfwire.graphs.method_protocol import Method
from selfwire.graphs.method_registry import describe_method, installed_methods
from selfwire.runtime.offline.vocabulary import paraphrases


def with_random_edits(method: Method, counts: Sequence[int]) -> Method:
    """The control for a method: every instruction that the stand-in's vocabulary knows may be drawn.

    Raises:
        ConfigError: there is no such control for the method.
    """
    make_control = describe_method(method.name).random_edits
    if make_control is None:
        names = " and ".join(one.name for one in installed_methods() if one.random_edits)
        raise ConfigError(f"random edits are a control for {names}, not for {method.name}")
    instructions = tuple(text for texts in paraphrases().values() for text in texts)
    return make_control(method, tuple(counts), instructions)


def count_edits(applied: Sequence[Sequence[Rewiring]]) -> tuple[int, ...]:
    """Rewirings per iteration that a method asked for, repairs left out."""
    return tuple(sum(one.operation not in ("REPAIR", "PRUNE") for one in rewirings) for rewirings in applied)
