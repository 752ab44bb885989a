"""The cost of inducing a round's graph, against a plain double loop, and the time of a round of many workers.

Embedding is left out. The loop is the obvious way to write it: a cosine per pair, then the best providers of each.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.measuring import Row, measure_by_turns
from bench.models import CannedModel
from selfwire.core.agent import Agent
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.evolvers.dytopo.config import DytopoConfig
from selfwire.evolvers.dytopo.domain import MANAGER, Domain
from selfwire.evolvers.dytopo.induction import adjacency, aggregation_order, order_edges, relevance
from selfwire.evolvers.dytopo.initial_team import make_team
from selfwire.graphs.dytopo import Dytopo
from selfwire.models.embeddings import HashingEmbedder

TITLE = "rounds of DyTopo"
DIMENSIONS, TOPICS = 384, 8
THRESHOLD, PROVIDERS = 0.3, 3
LATENCY = 0.1
COMPARED = 512
"""Size at which the vectorised form is compared with the loop."""

Edges = list[tuple[int, int]]


def measure(sizes: Sequence[int] = (8, 64, COMPARED, 1000), workers: int = 64, rounds: int = 5) -> list[Row]:
    """Measure graphs of several sizes, and a round."""
    rows = []
    for size in sizes:
        queries, keys = make_vectors(size)
        (fast, _), *_ = measure_by_turns(partial(compute_vectorised, queries, keys), rounds=rounds)
        rows.append(Row(what=f"graph of {size} agents, embedding apart", value=fast * 1e3, unit="ms"))
        if size == COMPARED:
            (slow, _), *_ = measure_by_turns(partial(compute_looped, queries, keys), rounds=min(rounds, 3))
            rows.append(Row(what=f"double loop, {size} agents", value=slow * 1e3, unit="ms"))
            rows.append(Row(what="vectorised against double loop (aim: >= 20)", value=slow / fast, unit="times"))
    what = f"a round of {workers} workers at {LATENCY * 1e3:.0f} ms each, by that and the manager"
    (taken,) = measure_by_turns(_make_round(workers), rounds=rounds)
    return [*rows, Row(what=what, value=taken.wall / (2 * LATENCY), unit="times", bound=1.15)]


def make_vectors(size: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Seeded rows of shape (size, 384) for queries and keys, each about one of a few topics."""
    rng = np.random.default_rng(size)
    topics = rng.normal(size=(TOPICS, DIMENSIONS))
    queries, keys = (topics[rng.integers(TOPICS, size=size)] for _ in range(2))
    return queries + rng.normal(size=queries.shape), keys + rng.normal(size=keys.shape)


def compute_vectorised(queries: npt.NDArray[np.float64], keys: npt.NDArray[np.float64]) -> tuple[Edges, list[int]]:
    """Edges and order as a round computes them."""
    scores = relevance(queries, keys)
    edges = order_edges(scores, adjacency(scores, threshold=THRESHOLD, providers=PROVIDERS))
    return edges, aggregation_order(len(scores), edges)


def compute_looped(queries: npt.NDArray[np.float64], keys: npt.NDArray[np.float64]) -> tuple[Edges, list[int]]:
    """Edges and order as a round computes them, pair by pair."""
    edges: Edges = []
    for consumer, query in enumerate(queries):
        found = []
        for provider, key in enumerate(keys):
            score = round(float(query @ key / (np.linalg.norm(query) * np.linalg.norm(key))), 6)
            if provider != consumer and score > THRESHOLD:
                found.append((-score, provider))
        edges += [(provider, consumer) for _, provider in sorted(found)[:PROVIDERS]]
    return edges, aggregation_order(len(queries), edges)


def _reply(schema: str, scope: Scope) -> dict[str, Any]:
    manager = {"is_complete": False, "next_goal": "go on"} if scope.node == MANAGER else {}
    return {"public": "done", **manager}


def _make_round(workers: int) -> Callable[[], Any]:
    agents = [Agent(id=f"w{at}", prompt="You work.") for at in range(workers)]
    team = make_team(agents, Domain(name="bench", answerers=("w0",)), manager="You lead.")
    model = CannedModel(objects=_reply, object_delay=LATENCY)
    dytopo = Dytopo(DytopoConfig(rounds=1))
    ctx = dytopo.make_ctx(model, {}, HashingEmbedder(), at=Scope(run="bench"))
    return lambda: dytopo.run(team, Question(id="bench", input="Who is here?"), ctx)
