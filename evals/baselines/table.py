"""Baselines by name."""

from collections.abc import Mapping
from typing import Any, Protocol

from selfwire.core.errors import ConfigError
from selfwire.core.ports import Model, Toolbox
from selfwire.core.values import FrozenMap
from selfwire.evals.baselines.single import SingleAgent
from selfwire.graphs.method import Solver
from selfwire.nodes.agent import agent_act


class Maker(Protocol):
    """Wires one baseline."""

    def __call__(self, model: Model, toolbox: Toolbox, calls: int | None, config: Mapping[str, Any]) -> Solver:
        """The baseline, which may spend `calls` model calls on a task; None for as many as it takes once."""
        ...


def _single(model: Model, toolbox: Toolbox, calls: int | None, config: Mapping[str, Any]) -> Solver:
    return SingleAgent(agent_act(model, toolbox, temperature=1.0), calls=calls or 1)


BASELINES: Mapping[str, Maker] = {"single": _single}
"""What methods are compared with."""


def baseline(
    name: str, *, model: Model, toolbox: Toolbox, calls: int | None = None, config: Mapping[str, Any] = FrozenMap()
) -> Solver:
    """A baseline, wired, to put questions to.

    Args:
        name: one of `BASELINES`.
        model: plays the agents.
        toolbox: every tool that agents may hold.
        calls: model calls that a task may take; what one answer leaves of them goes into further ones, and a vote.
        config: the baseline's knobs by name.

    Raises:
        ConfigError: there is no such baseline, or a knob is unknown or out of bounds.
    """
    if name not in BASELINES:
        raise ConfigError(f"unknown baseline {name!r}; baselines are {', '.join(BASELINES)}")
    return BASELINES[name](model, toolbox, calls, config)
