"""Baselines by name."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from selfwire.core.errors import ConfigError
from selfwire.core.protocols import Model, Toolbox
from selfwire.core.scope import Scope
from selfwire.core.values import FrozenMap
from selfwire.core.workflow import Workflow
from selfwire.evals.baselines import single, teams
from selfwire.evals.baselines.config import RandomConfig, RefineConfig, SamplingConfig, TeamConfig
from selfwire.evals.baselines.single import SingleAgent
from selfwire.evals.baselines.teams import FixedTeam
from selfwire.evolvers.random_edits import edit_at_random
from selfwire.graphs.configs import parse_config
from selfwire.graphs.method_protocol import Solver
from selfwire.nodes.agent import make_agent_runner
from selfwire.runtime.offline.vocabulary import paraphrases

Config = TypeVar("Config", RefineConfig, TeamConfig)


class Maker(Protocol):
    """Makes one baseline."""

    def __call__(self, model: Model, toolbox: Toolbox, calls: int | None, config: Mapping[str, Any]) -> Solver:
        """The baseline with at most `calls` model calls per task; None for as many as one answer takes."""
        ...


def _sampled(name: str, prompt: str) -> Maker:
    def make_workflow(tools: Sequence[str]) -> Workflow:
        return single.make_team_of_one(name, single.load_prompt(prompt), tools if name == "single" else ())

    def maker(model: Model, toolbox: Toolbox, calls: int | None, config: Mapping[str, Any]) -> Solver:
        chosen = parse_config(name, SamplingConfig, {"samples": SAMPLED[name], **config})
        act = make_agent_runner(model, toolbox, temperature=chosen.temperature)
        most = float("inf") if chosen.samples and calls is None else float(calls or 1)
        return SingleAgent(act, calls=most, samples=chosen.samples, name=name, make_workflow=make_workflow)

    return maker


def _fixed(name: str, schema: type[Config], team: Callable[[Config], Workflow], **defaults: Any) -> Maker:
    def maker(model: Model, toolbox: Toolbox, calls: int | None, config: Mapping[str, Any]) -> Solver:
        chosen = parse_config(name, schema, {**defaults, **config})
        act = make_agent_runner(model, toolbox, temperature=chosen.temperature)
        return FixedTeam(name, act, lambda tools: teams.with_tools(team(chosen), tools))

    return maker


def _random(model: Model, toolbox: Toolbox, calls: int | None, config: Mapping[str, Any]) -> Solver:
    """The control for evolved teams: the pair worker -> summary after random legal rewirings."""
    chosen = parse_config("random", RandomConfig, config)
    instructions = tuple(text for texts in paraphrases().values() for text in texts)
    act = make_agent_runner(model, toolbox, temperature=chosen.temperature)
    scope = Scope(seed=chosen.seed)
    return FixedTeam(
        "random", act, lambda tools: edit_at_random(teams.make_pair(tools), chosen.edits, instructions, scope=scope)[0]
    )


SAMPLED: Mapping[str, int | None] = {"direct": None, "cot": None, "self-consistency": 5, "single": None}
"""Samples of a lone agent by default; None for as many as its calls allow."""

BASELINES: Mapping[str, Maker] = {
    "direct": _sampled("direct", "direct"),
    "cot": _sampled("cot", "reasoned"),  # Wei et al., 2022
    "self-consistency": _sampled("self-consistency", "reasoned"),  # Wang et al., 2023
    "single": _sampled("single", "single"),
    "self-refine": _fixed("self-refine", RefineConfig, teams.self_refine),
    "debate": _fixed("debate", TeamConfig, teams.debate, rounds=3),
    "independent": _fixed("independent", TeamConfig, teams.independent),
    "centralised": _fixed("centralised", TeamConfig, teams.centralised),
    "decentralised": _fixed("decentralised", TeamConfig, teams.decentralised),
    "hybrid": _fixed("hybrid", TeamConfig, teams.hybrid),
    "random": _random,
}


def make_baseline(
    name: str, *, model: Model, toolbox: Toolbox, calls: int | None = None, config: Mapping[str, Any] = FrozenMap()
) -> Solver:
    """One of `BASELINES`, ready to solve questions.

    Args:
        calls: most model calls per task; a lone agent spends those that its first answer leaves on further samples, and
            votes.
        config: the baseline's config fields by name.

    Raises:
        ConfigError: there is no such baseline, or a config field is unknown or out of bounds.
    """
    if name not in BASELINES:
        raise ConfigError(f"unknown baseline {name!r}; baselines are {', '.join(BASELINES)}")
    return BASELINES[name](model, toolbox, calls, config)
