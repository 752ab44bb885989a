"""How many calls the methods take, by role, before any is made: from knobs and teams, with rates measured offline."""

from collections.abc import Mapping
from typing import Any

from selfwire.core.workflow import Workflow
from selfwire.graphs.configs import parse_config
from selfwire.graphs.demand import Demand
from selfwire.graphs.method_registry import describe_method

FACTOR = 2.5
"""What a method takes lies between the estimate divided by this and the estimate times this."""


def estimate_calls(name: str, config: Mapping[str, Any], team: Workflow, *, batch: int = 0, grown: float = 0) -> Demand:
    """What a method takes with a team.

    Args:
        name: of the method.
        config: knobs that differ from its defaults.
        team: that it starts with.
        batch: train questions per iteration.
        grown: agents that the team has gained meanwhile, where it grows.

    Raises:
        ConfigError: there is no such method, or a knob cannot be used.
    """
    described = describe_method(name)
    return described.demand(parse_config(name, described.config, config), team, batch, grown)
