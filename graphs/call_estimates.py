"""How many model calls a question and an iteration take, estimated before any is made; rates were measured offline."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from selfwire.core.values import FrozenMap
from selfwire.core.workflow import Workflow

LOOP = 1.5
"""Calls of an agent that holds tools, in one turn."""
ROUNDS = 4
"""Rounds of a question that may take ten: confidence, halting or a manager end most runs earlier."""

Calls = Mapping[str, float]
"""Model calls by role; they are means, so they may be fractions."""


class CallEstimate(NamedTuple):
    """Calls that a method takes.

    Attributes:
        question: calls for one question, with a team of that size.
        samples: runs per train question.
        learning: calls of one iteration beside the runs of its batch.
        gate_share: share of the iterations whose candidate is compared with the incumbent.
        tokens: sent and received in a call, beside the text of the question.
    """

    question: Calls
    samples: int = 1
    learning: Calls = FrozenMap()
    gate_share: float = 1.0
    tokens: int = 450


EstimateCalls = Callable[[Any, Workflow, int, float], CallEstimate]
"""Demand of a config and a team, for a number of train questions per iteration and of agents that the team gained."""


def scale_calls(calls: Calls, by: float) -> Calls:
    """The calls, multiplied."""
    return {role: count * by for role, count in calls.items()}


def sum_calls(*some: Calls) -> Calls:
    """All calls together."""
    roles = dict.fromkeys(role for calls in some for role in calls)
    return {role: sum(calls.get(role, 0) for calls in some) for role in roles}


def count_turn_calls(team: Workflow) -> float:
    """Calls of a turn of every node."""
    return sum(LOOP if team.agents_by_id[agent].tools else 1 for agent in team.topology.agents.values())


def estimate_single_run(config: Any, team: Workflow, batch: int, added_agents: float) -> CallEstimate:
    """One turn of every node, and no calls for learning."""
    return CallEstimate({"agent": count_turn_calls(team) + LOOP * added_agents})
