"""A group of HERA against one of its teams: G teams side by side, on a model with a delay."""

import asyncio
from itertools import count, pairwise
from typing import Any

from selfwire.bench.measuring import Row, measure_by_turns
from selfwire.bench.models import CannedModel
from selfwire.core.agent import Agent
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.topology import make_chain
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hera.config import HeraConfig
from selfwire.evolvers.hera.initial_team import METHOD
from selfwire.evolvers.hera.schemas import QueryProfile, TopologyPlan
from selfwire.graphs.hera.method import Hera
from selfwire.runtime.embeddings import HashingEmbedder

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
    workflow = Workflow(
        method=METHOD,
        agents=tuple(Agent(id=name, prompt=f"You are {name}.") for name in NAMES),
        topology=make_chain(*NAMES),
    )
    model = CannedModel(LATENCY, lambda schema, scope: OBJECTS[schema])
    single, whole = (Hera(model, {}, HashingEmbedder(), HeraConfig(group=size)) for size in (1, TEAMS))
    question, visits = Question(id="bench", input="Who is here?"), count()
    one, group = asyncio.run(
        measure_by_turns(
            lambda: single.explore(workflow, question, scope=Scope(run="bench", visit=next(visits))),
            lambda: whole.explore(workflow, question, scope=Scope(run="bench", visit=next(visits))),
            rounds=rounds,
        )
    )
    return [
        Row(what=f"one team of {AGENTS} agents in a row at {LATENCY * 1e3:.0f} ms", value=one.wall * 1e3, unit="ms"),
        Row(what=f"group of {TEAMS} such teams / one team", value=group.wall / one.wall, unit="x", bound=1.2),
    ]
