"""The control of random legal edits: evolution's gain beyond it comes from its reasons."""

from collections.abc import Sequence

from selfwire.core.edits import Rewiring
from selfwire.core.errors import ConfigError
from selfwire.graphs.hera.method import Hera
from selfwire.graphs.hera.random_edits import RandomPool
from selfwire.graphs.hiva.method import Hiva
from selfwire.graphs.hiva.random_edits import RandomEdits
from selfwire.graphs.method_protocol import Method
from selfwire.runtime.offline.vocabulary import paraphrases


def with_random_edits(method: Method, counts: Sequence[int]) -> Method:
    """The control for a method, with every instruction of the offline model's vocabulary to draw from.

    Raises:
        ConfigError: the method has no such control.
    """
    instructions = tuple(text for texts in paraphrases().values() for text in texts)
    if isinstance(method, Hiva):
        return RandomEdits.of(method, tuple(counts), instructions)
    if isinstance(method, Hera):
        return RandomPool.of(method, tuple(counts), instructions)
    raise ConfigError(f"random edits are a control for hiva and hera, not for {method.name}")


def count_edits(applied: Sequence[Sequence[Rewiring]]) -> tuple[int, ...]:
    """Rewirings per iteration that a method asked for, without repairs."""
    return tuple(sum(one.operation not in ("REPAIR", "PRUNE") for one in rewirings) for rewirings in applied)
