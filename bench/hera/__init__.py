"""A group of HERA against one of its teams: G teams side by side, on a model with a delay."""

from collections.abc import Sequence
from itertools import count, pairwise
from typing import Any

from bench.measuring import Row, measure_by_turns
from bench.models import CannedModel
from selfwire.core.agent import Agent
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.topology import make_chain
from selfwire.core.trajectory import Trajectory
from selfwire.evolvers.hera.config import HeraConfig
from selfwire.evolvers.hera.initial_team import METHOD
from selfwire.evolvers.hera.schemas import QueryProfile, TopologyPlan
from selfwire.graphs.hera import Hera
from selfwire.models.embeddings import HashingEmbedder

TITLE = "groups of HERA"
LATENCY = 0.1
TEAMS, AGENTS = 8, 4
NAMES = tuple(f"agent{number}" for number in range(AGENTS))
PLAN = [
    {"step": 1, "agent": NAMES[0]},
    *({"step": at, "agent": name, "depends_on": [at - 1]} for at, (_, name) in enumerate(pairwise(NAMES), 2)),
]
OBJECTS: dict[str, dict[str, Any]] = {
    QueryProfile.__name__: {"query_type": "other", "difficulty": "easy", "summary": "-"},
    TopologyPlan.__name__: {"execution_order": PLAN},
}


def measure(rounds: int = 5) -> list[Row]:
    """Measure a group and a single team; the orchestrator plans the same chain at once."""
    team = Team(
        method=METHOD,
        agents=tuple(Agent(id=name, prompt=f"You are {name}.") for name in NAMES),
        topology=make_chain(*NAMES),
    )
    model = CannedModel(LATENCY, lambda schema, scope: OBJECTS[schema])
    question, visits = Question(id="bench", input="Who is here?"), count()

    async def explore(size: int) -> Sequence[Trajectory]:
        method = Hera(HeraConfig(group=size))
        ctx = method.make_ctx(model, {}, HashingEmbedder(), at=Scope(run="bench", visit=next(visits)))
        return await method.explore(team, question, ctx)

    single, group = measure_by_turns(lambda: explore(1), lambda: explore(TEAMS), rounds=rounds)
    return [
        Row(what=f"one team of {AGENTS} agents in a row at {LATENCY * 1e3:.0f} ms", value=single.wall * 1e3, unit="ms"),
        Row(what=f"group of {TEAMS} such teams / one team", value=group.wall / single.wall, unit="x", bound=1.2),
    ]
