"""The time of a round of many workers of DyTopo."""

from collections.abc import Callable
from typing import Any

from bench.measuring import Row, measure_by_turns
from bench.models import CannedModel
from selfwire.core.agent import Agent
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.evolvers.dytopo.config import DytopoConfig
from selfwire.evolvers.dytopo.domain import MANAGER, Domain
from selfwire.evolvers.dytopo.initial_team import make_team
from selfwire.graphs.dytopo import Dytopo
from selfwire.models.embeddings import HashingEmbedder

TITLE = "rounds of DyTopo"
LATENCY = 0.1


def measure(workers: int = 64, rounds: int = 5) -> list[Row]:
    """Measure a round."""
    what = f"a round of {workers} workers at {LATENCY * 1e3:.0f} ms each, by that and the manager"
    (taken,) = measure_by_turns(_make_round(workers), rounds=rounds)
    return [Row(what=what, value=taken.wall / (2 * LATENCY), unit="times", bound=1.15)]


def _reply(schema: str, scope: Scope) -> dict[str, Any]:
    manager = {"is_complete": False, "next_goal": "go on"} if scope.node == MANAGER else {}
    return {"public": "done", **manager}


def _make_round(workers: int) -> Callable[[], Any]:
    agents = [Agent(id=f"w{at}", prompt="You work.") for at in range(workers)]
    team = make_team(agents, Domain(name="bench", answerers=("w0",)), manager="You lead.")
    model = CannedModel(objects=_reply, object_delay=LATENCY)
    dytopo = Dytopo(DytopoConfig(rounds=1))
    ctx = dytopo.make_ctx(model, {}, HashingEmbedder(), scope=Scope(run="bench"))
    return lambda: dytopo.run(team, Question(id="bench", input="Who is here?"), ctx)
