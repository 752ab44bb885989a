"""What a group of HERA takes beside one of its teams: G teams side by side, on a model that answers after a while."""

import asyncio
import time
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from selfwire.bench.team import Canned, Row
from selfwire.core.agent import Agent
from selfwire.core.chat import ChatMessage
from selfwire.core.protocols import Schema
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.topology import make_chain
from selfwire.core.usage import Usage
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hera.config import HeraConfig
from selfwire.evolvers.hera.initial_team import METHOD
from selfwire.evolvers.hera.schemas import QueryProfile, TopologyPlan
from selfwire.graphs.hera.method import Hera
from selfwire.runtime.embeddings import HashingEmbedder

LATENCY = 0.1
TEAMS, AGENTS = 8, 4
NAMES = tuple(f"agent{number}" for number in range(AGENTS))
PLAN = [
    {"step": 1, "agent": NAMES[0]},
    *({"step": at, "agent": name, "depends_on": [at - 1]} for at, (_, name) in enumerate(pairwise(NAMES), 2)),
]


class Planner(Canned):
    """Agents answer after a delay; the orchestrator plans the same chain at once."""

    async def generate_structured(
        self,
        schema: type[Schema],
        messages: Sequence[ChatMessage],
        *,
        scope: Scope,
        role: str = "meta",
        temperature: float | None = None,
    ) -> tuple[Schema, Usage]:
        """Answer at once."""
        said = {
            QueryProfile.__name__: {"query_type": "other", "difficulty": "easy", "summary": "-"},
            TopologyPlan.__name__: {"execution_order": PLAN},
        }
        return schema.model_validate(said[schema.__name__]), Usage(calls=1)


def measure_groups(rounds: int = 5) -> list[Row]:
    """Measure a group and a single team, by turns."""
    one, group = asyncio.run(_measured(rounds))
    return [
        Row(what=f"one team of {AGENTS} agents in a row at {LATENCY * 1e3:.0f} ms", value=one * 1e3, unit="ms"),
        Row(what=f"group of {TEAMS} such teams / one team", value=group / one, unit="x", bound=1.2),
    ]


async def _measured(rounds: int) -> tuple[float, float]:
    """Median seconds of one team and of a group; the first ones warm up."""
    crowd = Workflow(
        method=METHOD,
        agents=tuple(Agent(id=name, prompt=f"You are {name}.") for name in NAMES),
        topology=make_chain(*NAMES),
    )
    single, whole = (Hera(Planner(LATENCY), {}, HashingEmbedder(), HeraConfig(group=size)) for size in (1, TEAMS))
    question = Question(id="bench", input="Who is here?")
    took: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        for made, times in zip((single, whole), took, strict=True):
            began = time.perf_counter()
            await made.explore(crowd, question, scope=Scope(run="bench", visit=number))
            times.append(time.perf_counter() - began)
    return median(took[0][1:]), median(took[1][1:])
