"""What inducing a round's graph costs, beside the plain double loop, and what a round of many workers takes.

Embedding is left out. The loop is what one would write first: a cosine per pair, then the best providers of each.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from selfwire.bench.team import Row
from selfwire.core.agent import Agent
from selfwire.core.chat import ChatMessage, Reply, ToolSpec
from selfwire.core.protocols import Schema
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.usage import Usage
from selfwire.evolvers.dytopo.config import DytopoConfig
from selfwire.evolvers.dytopo.domain import MANAGER, Domain
from selfwire.evolvers.dytopo.induction import adjacency, aggregation_order, order_edges, relevance
from selfwire.evolvers.dytopo.initial_team import make_team
from selfwire.graphs.dytopo.method import Dytopo
from selfwire.runtime.embeddings import HashingEmbedder

DIMENSIONS, TOPICS = 384, 8
THRESHOLD, PROVIDERS = 0.3, 3
LATENCY = 0.1
COMPARED = 512
"""Size at which the vectorised form is compared with the loop."""

Edges = list[tuple[int, int]]


def measure_rounds(sizes: Sequence[int] = (8, 64, COMPARED, 1000), workers: int = 64, rounds: int = 5) -> list[Row]:
    """Measure; the loop and the vectorised form take turns."""
    rows = []
    for size in sizes:
        queries, keys = make_vectors(size)
        fast = median(_seconds(partial(compute_vectorised, queries, keys)) for _ in range(rounds))
        rows.append(Row(what=f"graph of {size} agents, embedding apart", value=fast * 1e3, unit="ms"))
        if size == COMPARED:
            slow = median(_seconds(partial(compute_looped, queries, keys)) for _ in range(min(rounds, 3)))
            rows.append(Row(what=f"double loop, {size} agents", value=slow * 1e3, unit="ms"))
            rows.append(Row(what="vectorised against double loop (aim: >= 20)", value=slow / fast, unit="times"))
    took = median(asyncio.run(_rounds(workers, rounds + 1))[1:])  # the first one warms up
    what = f"a round of {workers} workers at {LATENCY * 1e3:.0f} ms each, by that and the manager"
    return [*rows, Row(what=what, value=took / (2 * LATENCY), unit="times", bound=1.15)]


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
    """The same, pair by pair."""
    edges: Edges = []
    for consumer, query in enumerate(queries):
        found = []
        for provider, key in enumerate(keys):
            score = round(float(query @ key / (np.linalg.norm(query) * np.linalg.norm(key))), 6)
            if provider != consumer and score > THRESHOLD:
                found.append((-score, provider))
        edges += [(provider, consumer) for _, provider in sorted(found)[:PROVIDERS]]
    return edges, aggregation_order(len(queries), edges)


class Prompt:
    """A model that answers every ask after the same time."""

    async def generate_structured(
        self,
        schema: type[Schema],
        messages: Sequence[ChatMessage],
        *,
        scope: Scope,
        role: str = "meta",
        temperature: float | None = None,
    ) -> tuple[Schema, Usage]:
        """Wait, then say the least that the schema allows."""
        await asyncio.sleep(LATENCY)
        said: dict[str, Any] = {"public": "done"}
        if scope.node == MANAGER:
            said |= {"is_complete": False, "next_goal": "go on"}
        return schema.model_validate(said), Usage(calls=1)

    async def generate(
        self,
        messages: Sequence[ChatMessage],
        *,
        scope: Scope,
        role: str = "agent",
        tools: Sequence[ToolSpec] = (),
        temperature: float | None = None,
    ) -> Reply:
        """Say nothing; members of a round are asked for objects."""
        return Reply(content="")


async def _rounds(workers: int, times: int) -> list[float]:
    """Seconds of one round with its manager, several times over."""
    agents = [Agent(id=f"w{at}", prompt="You work.") for at in range(workers)]
    crowd = make_team(agents, Domain(name="bench", answerers=("w0",)), manager="You lead.")
    dytopo, took = Dytopo(Prompt(), {}, HashingEmbedder(), DytopoConfig(rounds=1)), []
    for _ in range(times):
        began = time.perf_counter()
        await dytopo.run(crowd, Question(id="bench", input="Who is here?"), scope=Scope(run="bench"))
        took.append(time.perf_counter() - began)
    return took


def _seconds(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
