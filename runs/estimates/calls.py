"""How many calls the methods take, by role, before any is made: from knobs and teams, with rates measured offline."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from selfwire.core.errors import ConfigError
from selfwire.core.values import FrozenMap, FrozenModel
from selfwire.core.workflow import Workflow
from selfwire.evolvers.dytopo.config import DytopoConfig
from selfwire.evolvers.evomas.config import EvomasConfig
from selfwire.evolvers.hera.config import HeraConfig
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.tacomas.config import TacomasConfig
from selfwire.graphs.method_registry import parse_config

FACTOR = 2.5
"""What a method takes lies between the estimate divided by this and the estimate times this."""
LOOP = 1.5
"""Calls of an agent that holds tools, in one turn."""
ROUNDS = 5
"""Of a question, where there may be ten: confidence, halting or a manager end most runs before."""
STAGES = 4
"""Of a question in EvoMAS, where there may be six."""
DRAWN = 4
"""Agents that a stage of EvoMAS runs."""
SETTINGS = 4
"""Settings that DyTopo tries beside the present one."""

Calls = Mapping[str, float]
"""Model calls by role; means, so not whole ones."""


class Demand(NamedTuple):
    """What a method takes.

    Attributes:
        question: calls for one question, with a team of that size.
        samples: runs per train question.
        learning: calls of one iteration beside the runs of its batch.
        gated: share of the iterations whose candidate is compared with the incumbent.
    """

    question: Calls
    samples: int = 1
    learning: Calls = FrozenMap()
    gated: float = 1.0


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
    if name not in _DEMANDS:
        raise ConfigError(f"what {name!r} takes is not known; methods are {', '.join(_DEMANDS)}")
    schema, told = _DEMANDS[name]
    return told(parse_config(name, schema, config), team, batch, grown)


def scale_calls(calls: Calls, by: float) -> Calls:
    """So many times the calls."""
    return {role: count * by for role, count in calls.items()}


def sum_calls(*some: Calls) -> Calls:
    """All calls together."""
    roles = dict.fromkeys(role for calls in some for role in calls)
    return {role: sum(calls.get(role, 0) for calls in some) for role in roles}


def _turns(team: Workflow) -> float:
    """Calls of everybody's turn."""
    return sum(LOOP if team.agents_by_id[agent].tools else 1 for agent in team.topology.agents.values())


def _hiva(config: HivaConfig, team: Workflow, batch: int, grown: float) -> Demand:
    agents = min(len(team.topology.nodes) + grown, config.nodes)
    more = max(0, agents - len(team.topology.nodes))
    question = {"agent": _turns(team) + LOOP * more, "meta": config.kabb + agents / 2}  # with what they hand over
    meta = batch * (1 + 2.5 * agents) + 2 * agents  # a backward pass per task, then prompts and decisions
    return Demand(question, learning={"meta": meta})


def _hera(config: HeraConfig, team: Workflow, batch: int, grown: float) -> Demand:
    run = _turns(team)
    roped = min(config.prompts.agents, batch / 2) if config.rope else 0
    axes = len(config.prompts.axes)
    mutated = batch / 3 if config.mutation else 0
    learning = {
        "agent": roped * (axes + 1) * run + mutated * 2 * run,
        "meta": roped * (axes + 2) + mutated * 2 + (batch if config.library else 0),
    }
    return Demand({"agent": run, "meta": 2}, samples=config.group, learning=learning)


def _tacomas(config: TacomasConfig, team: Workflow, batch: int, grown: float) -> Demand:
    rounds = min(config.rounds, ROUNDS)
    coaching = config.capability * len(team.topology.nodes) + config.topology / config.interval
    question = {"agent": rounds * _turns(team), "judge": 2.2 * rounds, "meta": 1 + (rounds - 1) * coaching}
    return Demand(question, gated=0)  # the team that questions start with stays as it is


def _dytopo(config: DytopoConfig, team: Workflow, batch: int, grown: float) -> Demand:
    rounds = min(config.rounds, ROUNDS) if config.halting else config.rounds
    question = {"agent": rounds * len(team.topology.nodes), "meta": rounds * config.manager}
    settings = SETTINGS if config.search == "near" else 5 * SETTINGS
    return Demand(
        question, learning=scale_calls(question, batch * settings / 2), gated=0.5
    )  # the same rounds are on record


def _evomas(config: EvomasConfig, team: Workflow, batch: int, grown: float) -> Demand:
    stages = min(config.stages, STAGES)
    question = {"agent": stages * DRAWN * LOOP, "judge": stages, "meta": stages * config.task_state}
    return Demand(question, samples=config.samples, gated=0)  # agents and topology stay as they are


_DEMANDS: Mapping[str, tuple[type[FrozenModel], Callable[[Any, Workflow, int, float], Demand]]] = {
    "hiva": (HivaConfig, _hiva),
    "hera": (HeraConfig, _hera),
    "tacomas": (TacomasConfig, _tacomas),
    "dytopo": (DytopoConfig, _dytopo),
    "evomas": (EvomasConfig, _evomas),
}
