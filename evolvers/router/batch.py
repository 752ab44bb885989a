"""The input of a routing head: embedded rows of states and agents, and decisions padded to one batch."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from selfwire.core.agent import Agent
from selfwire.core.protocols import Embedder
from selfwire.core.values import Id
from selfwire.evolvers.router.config import HeadConfig
from selfwire.evolvers.router.decisions import Decision, agent_text

WORDS = 256
"""Most token rows of a state, those of the active subtask first."""

Vectors = npt.NDArray[np.float32]


def row_texts(rows: Sequence[str], config: HeadConfig) -> tuple[str, ...]:
    """The embedded texts of a state: its rows, these each with the first, or their words (D1).

    Raises:
        ValueError: all rows are blank.
    """
    kept = tuple(row for row in rows if row.strip())
    if not kept:
        raise ValueError("the task state has no row with text; give the router at least the objective")
    if config.reads == "subtask":
        kept = kept[:1]
    if config.state == "tokens":
        return tuple(re.findall(r"\S+", " ".join(kept)))[:WORDS]
    return kept if config.state == "rows" else (kept[0], *(f"{kept[0]}\n{row}" for row in kept[1:]))


async def embed_texts(texts: Sequence[str], embedder: Embedder) -> dict[str, Vectors]:
    """Vectors by text, each embedded alone, as the last bits of a vector depend on its batch."""
    return {text: (await embedder.embed([text]))[0] for text in dict.fromkeys(texts)}


async def embed_pool(pool: Sequence[Agent], embedder: Embedder) -> Vectors:
    """E of shape (N, d), in the order of the pool."""
    found = await embed_texts([agent_text(agent) for agent in pool], embedder)
    return np.stack([found[agent_text(agent)] for agent in pool])


class Batch(NamedTuple):
    """B decisions of at most M rows, L layers of at most K agents, over N agents of d dimensions.

    Attributes:
        rows, filled: (B, M, d) and (B, M), True where there is a row.
        agents: (N, d).
        present: (B, N), True for agents in the pool.
        free: (B, L, N), True for those that could be drawn for a layer.
        contexts: (B, L, d) mean agent of earlier layers; 0 in the first (Eq. 22).
        order: (B, L, K) indices as drawn, then -1; a layer that Early-exit ended holds nobody.
        exited: (B, L) 1 where Early-exit was drawn apart, 0 where it was not, -1 where it could not be.
    """

    rows: Vectors
    filled: npt.NDArray[np.bool_]
    agents: Vectors
    present: npt.NDArray[np.bool_]
    free: npt.NDArray[np.bool_]
    contexts: Vectors
    order: npt.NDArray[np.int64]
    exited: npt.NDArray[np.int64]


def make_batch(
    decisions: Sequence[Decision], agents: Mapping[Id, Vectors], vectors: Mapping[str, Vectors], config: HeadConfig
) -> Batch:
    """Pad decisions to one batch.

    Args:
        agents: embedding by agent, of every agent in a decision's pool.
        vectors: embedding by text, of every text of `row_texts`.

    Raises:
        ValueError: there is no decision, or one names an agent that has no embedding.
    """
    if not decisions:
        raise ValueError("there is no decision to learn from")
    names = tuple(agents)
    if unknown := sorted({agent for decision in decisions for agent in decision.agents} - set(names)):
        raise ValueError(f"decisions name {', '.join(unknown)}, who are not in the pool; it holds {', '.join(names)}")
    table = np.stack([agents[name] for name in names])
    rows, filled = pad_rows([row_texts(decision.rows, config) for decision in decisions], vectors)
    present = np.array([[name in decision.agents for name in names] for decision in decisions])
    masked = np.array([[name in decision.layered.masked for name in names] for decision in decisions])
    first = np.array([[name in decision.layered.masked_first for name in names] for decision in decisions])
    apart = np.array([[name == decision.layered.exit for name in names] for decision in decisions])
    order, exited = _padded_orders(decisions, {name: index for index, name in enumerate(names)})
    free = np.repeat((present & ~masked & ~apart)[:, None], order.shape[1], axis=1)
    free[:, 0] &= ~first
    return Batch(rows, filled, table, present, free, compute_contexts(order, table), order, exited)


def compute_contexts(order: npt.NDArray[np.int64], agents: Vectors) -> Vectors:
    """Eq. 22: c of shape (B, L, d), the mean of the different agents in earlier layers, for orders (B, L, K)."""
    chosen = (order[..., None] == np.arange(len(agents))).any(axis=2)
    seen = np.logical_or.accumulate(chosen, axis=1)[:, :-1]
    before = np.zeros((*order.shape[:2], agents.shape[1]), dtype=np.float32)
    before[:, 1:] = seen @ agents / np.maximum(seen.sum(axis=2, keepdims=True), 1)
    return before


def pad_rows(texts: Sequence[Sequence[str]], vectors: Mapping[str, Vectors]) -> tuple[Vectors, npt.NDArray[np.bool_]]:
    """Vectors of B states' texts (B, M, d), and a mask (B, M) that is True where there is a text."""
    longest = max(map(len, texts))
    filled = np.array([[place < len(state) for place in range(longest)] for state in texts])
    rows = np.zeros((*filled.shape, len(vectors[texts[0][0]])), dtype=np.float32)
    for index, state in enumerate(texts):
        rows[index, : len(state)] = [vectors[text] for text in state]
    return rows, filled


def _padded_orders(
    decisions: Sequence[Decision], places: Mapping[Id, int]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    depth = max(len(decision.layered.layers) for decision in decisions)
    width = max(len(layer) for decision in decisions for layer in decision.layered.layers)
    order = np.full((len(decisions), depth, width), -1, dtype=np.int64)
    exited = np.full((len(decisions), depth), -1, dtype=np.int64)
    for index, decision in enumerate(decisions):
        leave, masked_first = decision.layered.exit, decision.layered.masked_first
        for number, layer in enumerate(decision.layered.layers):
            ended = leave is not None and layer == (leave,)
            if leave is not None and (number or leave not in masked_first):
                exited[index, number] = ended
            if not ended:
                order[index, number, : len(layer)] = [places[name] for name in layer]
    return order, exited
