"""The graph of a round, induced from the needs and offers of agents (Sec. 3.3, 3.4, Alg. 1 phases 2 and 3).

Rows and columns are agents in their fixed order, which breaks all ties. Entry (i, j) of a matrix is about the
edge j -> i, from provider j to consumer i.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from pydantic import Field, field_validator

from selfwire.core.protocols import Embedder
from selfwire.core.topology import compute_greedy_order
from selfwire.core.values import FrozenModel, Id

Scores = npt.NDArray[np.float64]
Adjacency = npt.NDArray[np.bool_]

DECIMALS = 6
"""Decimals of a relevance, so that machines agree."""
_NOTHING = re.compile(
    r"(?:I (?:need|have) )?(?:none|nothing(?: (?:new|else|more|yet|to offer))*|n/?a|null|empty)?", re.IGNORECASE
)
"""How models write a blank: two of them would match perfectly."""


class Descriptors(FrozenModel):
    """An agent's need and offer in a round; blank where it named none, in whatever words."""

    query: str = ""
    key: str = ""

    @field_validator("query", "key")
    @classmethod
    def _blank(cls, text: str) -> str:
        return "" if _NOTHING.fullmatch(text.strip(" .-*()\"'")) else text


class ScoredEdge(FrozenModel):
    """An edge from a provider to a consumer, with its relevance if it was induced."""

    source: Id
    target: Id
    score: float | None = None


class RoundGraph(FrozenModel):
    """The graph of a round.

    Args:
        edges: by consumer in agent order; each consumer's by decreasing relevance, then in agent order.
        order: sigma, every agent once.
        density: share of the ordered pairs of agents that have an edge, in [0, 1].
        best_rejected: the pair with the highest relevance that got no edge; None if there is none.
        threshold, most_providers: tau and K_in of an induced graph; None of others.
    """

    edges: tuple[ScoredEdge, ...] = ()
    order: tuple[Id, ...] = ()
    density: float = Field(default=0.0, ge=0, le=1)
    best_rejected: ScoredEdge | None = None
    threshold: float | None = None
    most_providers: int | None = None

    def providers(self, agent: Id) -> tuple[Id, ...]:
        """Agents whose messages reach the agent, in reading order."""
        return tuple(edge.source for edge in self.edges if edge.target == agent)


def relevance(queries: npt.ArrayLike, keys: npt.ArrayLike) -> Scores:
    """Equation 5: r_ij = cos(q_i, k_j), of shape (N, N) and in [-1, 1], from (N, d) and (N, d).

    A zero row (of a blank text) has relevance -inf to all others: two blanks do not match (D3).
    """
    needs, has_need = _normalise(queries)
    offers, has_offer = _normalise(keys)
    scores = np.round(np.clip(needs @ offers.T, -1, 1), DECIMALS)
    return np.where(has_need[:, None] & has_offer[None, :], scores, -np.inf)


def adjacency(scores: Scores, *, threshold: float, providers: int) -> Adjacency:
    """Equation 6 with the cap of Table 7: r_ij > tau, i != j, and j among the K_in best providers of i.

    Args:
        providers: K_in; among equal providers the first ones in agent order stay.
    """
    eligible = _between_agents(scores)
    above = eligible > threshold
    if providers < len(scores):
        last = -np.partition(-eligible, providers - 1, axis=1)[:, providers - 1 : providers]
        better, equal = eligible > last, eligible == last
        room = providers - better.sum(axis=1, keepdims=True)
        above &= better | (equal & (np.cumsum(equal, axis=1) <= room))
    return above


def find_best_rejected(scores: Scores, edges: Adjacency) -> tuple[int, int] | None:
    """Provider and consumer of the most relevant pair without an edge; None if no such pair has a relevance."""
    left = np.where(edges, -np.inf, _between_agents(scores))
    if not left.size or np.isneginf(left.max()):
        return None
    consumer, provider = np.unravel_index(int(np.argmax(left)), left.shape)
    return int(provider), int(consumer)


def order_edges(scores: Scores, edges: Adjacency) -> list[tuple[int, int]]:
    """Section 3.4: (provider, consumer) by consumer; each consumer's by decreasing relevance, then agent order."""
    consumers, providers = np.nonzero(edges)
    place = np.lexsort((providers, -scores[consumers, providers], consumers))
    return [(int(providers[at]), int(consumers[at])) for at in place]


def aggregation_order(size: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Equations 8 to 11: topological if acyclic, else greedily the agent with the smallest restricted in-degree."""
    names = [f"{agent:0{len(str(size))}}" for agent in range(size)]  # as text they sort like the numbers
    named = [(names[source], names[target]) for source, target in edges]
    return [int(name) for name in compute_greedy_order(names, named)]


def draw_random_edges(
    able: Sequence[int], count: int, providers: int, rng: np.random.Generator
) -> list[tuple[int, int]]:
    """Draw the random baseline: `count` edges among the agents that spoke, at most `providers` into each.

    Returns:
        (provider, consumer) pairs, sorted by consumer; fewer than `count` if no more are possible.
    """
    pairs = [(source, target) for target in able for source in able if source != target]
    room, found = dict.fromkeys(able, providers), list[tuple[int, int]]()
    for at in rng.permutation(len(pairs)):
        source, target = pairs[at]
        if len(found) < count and room[target]:
            room[target] -= 1
            found.append((source, target))
    return sorted(found, key=lambda pair: (pair[1], pair[0]))


def induce_graph(agents: Sequence[Id], scores: Scores, *, threshold: float, providers: int) -> RoundGraph:
    """The graph of N agents and their (N, N) relevances under tau and K_in."""
    edges = adjacency(scores, threshold=threshold, providers=providers)
    pair = find_best_rejected(scores, edges)
    return make_round_graph(agents, order_edges(scores, edges), scores).replace(
        best_rejected=_scored(agents, pair, scores) if pair else None,
        threshold=threshold,
        most_providers=providers,
    )


def make_round_graph(
    agents: Sequence[Id], edges: Sequence[tuple[int, int]], scores: Scores | None = None
) -> RoundGraph:
    """The graph of given edges; edges of a baseline have no scores."""
    pairs = len(agents) * (len(agents) - 1)
    return RoundGraph(
        edges=tuple(_scored(agents, edge, scores) for edge in edges),
        order=tuple(agents[agent] for agent in aggregation_order(len(agents), edges)),
        density=len(edges) / pairs if pairs else 0.0,
    )


async def similarities(agents: Sequence[Id], descriptors: Mapping[Id, Descriptors], embedder: Embedder) -> Scores:
    """Equations 4 and 5 for a round: one batch of all texts that are not blank, then relevance; shape (N, N)."""
    named = [descriptors.get(agent, Descriptors()) for agent in agents]
    texts = [text.strip() for text in (*(pair.query for pair in named), *(pair.key for pair in named))]
    filled = [at for at, text in enumerate(texts) if text]
    if not filled:
        return np.full((len(agents), len(agents)), -np.inf)
    embedded = await embedder.embed([texts[at] for at in filled])
    rows = np.zeros((len(texts), embedded.shape[1]))
    rows[filled] = embedded
    return relevance(rows[: len(agents)], rows[len(agents) :])


def _normalise(rows: npt.ArrayLike) -> tuple[Scores, npt.NDArray[np.bool_]]:
    given = np.asarray(rows, dtype=np.float64)
    lengths = np.linalg.norm(given, axis=1)
    return given / np.where(lengths > 0, lengths, 1)[:, None], lengths > 0


def _between_agents(scores: Scores) -> Scores:
    return np.where(np.eye(len(scores), dtype=bool) | np.isnan(scores), -np.inf, scores)


def _scored(agents: Sequence[Id], edge: tuple[int, int], scores: Scores | None) -> ScoredEdge:
    source, target = edge
    score = None if scores is None else float(scores[target, source])
    return ScoredEdge(source=agents[source], target=agents[target], score=score)
