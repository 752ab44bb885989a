"""Choosers of a stage's layers: the head, chance, or a fixed workflow (Eq. 3; Sec. 4 for the ablations)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from selfwire.core.agent import Agent
from selfwire.core.protocols import Embedder
from selfwire.core.scope import Scope
from selfwire.core.values import Id
from selfwire.evolvers.trained_router.config import SamplingConfig
from selfwire.evolvers.trained_router.decisions import LayeredWorkflow, candidates
from selfwire.evolvers.trained_router.encoding import (
    Vectors,
    compute_contexts,
    embed_pool,
    embed_texts,
    pad_rows,
    row_texts,
)
from selfwire.evolvers.trained_router.sampling import draw

if TYPE_CHECKING:
    from selfwire.evolvers.trained_router.head import RoutingHead

PURPOSE = "evomas/adapter"
"""Keys the draws of all choosers in a scope; another value would draw other layers from equal seeds."""
DIGITS = 6
"""Decimals of a cosine, so that the size of a batch changes no draw."""


Switches = npt.NDArray[np.bool_]


class DrawnLayers(NamedTuple):
    """Layers for B decisions.

    Attributes:
        order: (B, L, K) indices as drawn, then -1.
        probabilities: (B, L, N).
        log_probability: (B,) the sum over layers.
    """

    order: npt.NDArray[np.int64]
    probabilities: npt.NDArray[np.float64]
    log_probability: npt.NDArray[np.float64]


def draw_layers(
    head: "RoutingHead",
    rows: Vectors,
    filled: npt.NDArray[np.bool_],
    agents: Vectors,
    *,
    sampling: SamplingConfig,
    random: np.random.Generator,
    free: npt.NDArray[np.bool_] | None = None,
) -> DrawnLayers:
    """Draw L layers for each of B states, one after another, as each layer is part of the next one's input.

    Args:
        rows, filled: (B, M, d) and (B, M), True where there is a row.
        agents: (N, d).
        free: (B, N), True where an agent may be drawn.

    Raises:
        ValueError: as `sampling.draw`.
    """
    import torch

    device = head.query.device
    open_to = np.ones((len(rows), len(agents)), dtype=np.bool_) if free is None else free
    given = [torch.as_tensor(one).to(device) for one in (rows, filled, agents, np.ones_like(open_to))]
    layers = []
    order = np.full((len(rows), sampling.layers, sampling.width or len(agents)), -1, dtype=np.int64)
    with torch.no_grad():
        read = head.read(*given)
        for layer in range(sampling.layers):
            context = torch.as_tensor(compute_contexts(order[:, : layer + 1], agents)[:, -1:]).to(device)
            logits = np.round(head.scores(read, context)[:, 0].double().cpu().numpy(), DIGITS) / sampling.softness
            made = draw(logits, mass=sampling.mass, random=random, width=sampling.width, free=open_to)
            order[:, layer, : made.order.shape[1]] = made.order
            layers.append(made)
    probabilities = np.stack([made.probabilities for made in layers], axis=1)
    return DrawnLayers(order, probabilities, np.sum([made.log_probability for made in layers], axis=0))


def draw_layers_by_chance(
    count: int, agents: int, *, sampling: SamplingConfig, random: np.random.Generator, free: Switches | None = None
) -> DrawnLayers:
    """Draw L layers for each of `count` states by the same rule from a uniform p; `free` as in `draw_layers`."""
    logits = np.zeros((count * sampling.layers, agents))
    made = draw(logits, mass=sampling.mass, random=random, width=sampling.width, free=free)
    shape = (count, sampling.layers)
    return DrawnLayers(
        made.order.reshape(*shape, -1),
        made.probabilities.reshape(*shape, -1),
        made.log_probability.reshape(shape).sum(1),
    )


class LearnedChooser:
    """The learned chooser: a head, with the embedder of its training."""

    def __init__(self, head: "RoutingHead", sampling: SamplingConfig, embedder: Embedder) -> None:
        self.head, self.sampling, self.embedder = head, sampling, embedder

    async def __call__(
        self, rows: Sequence[str], pool: Sequence[Agent], *, masked: frozenset[Id], scope: Scope
    ) -> LayeredWorkflow:
        """Draw layers from the head's probabilities; see `Chooser`."""
        candidates(pool, masked)
        texts = row_texts(rows, self.head.config)
        drawn = draw_layers(
            self.head,
            *pad_rows([texts], await embed_texts(texts, self.embedder)),
            await embed_pool(pool, self.embedder),
            sampling=self.sampling,
            random=scope.random(PURPOSE),
            free=_free(pool, masked),
        )
        return to_layered_workflow(drawn, pool, masked)


class RandomChooser:
    """The ablation "random adapter": the same rule with a uniform p."""

    def __init__(self, sampling: SamplingConfig) -> None:
        self.sampling = sampling

    async def __call__(
        self, rows: Sequence[str], pool: Sequence[Agent], *, masked: frozenset[Id], scope: Scope
    ) -> LayeredWorkflow:
        """Draw layers from a uniform p; see `Chooser`."""
        candidates(pool, masked)
        drawn = draw_layers_by_chance(
            1, len(pool), sampling=self.sampling, random=scope.random(PURPOSE), free=_free(pool, masked)
        )
        return to_layered_workflow(drawn, pool, masked)


class FixedChooser:
    """The same layers at every stage without masked agents; an empty layer is skipped.

    Raises:
        ValueError: the plan has no layer, or an empty one.
    """

    def __init__(self, plan: Sequence[Sequence[Id]]) -> None:
        self.plan = LayeredWorkflow(layers=tuple(tuple(layer) for layer in plan)).layers

    async def __call__(
        self, rows: Sequence[str], pool: Sequence[Agent], *, masked: frozenset[Id], scope: Scope
    ) -> LayeredWorkflow:
        """The plan; see `Chooser`.

        Raises:
            ValueError: an agent of the plan is not in the pool, or all of them are masked.
        """
        candidates(pool, masked)
        ids = {agent.id for agent in pool}
        if unknown := sorted({one for layer in self.plan for one in layer} - ids):
            raise ValueError(f"the plan names {', '.join(unknown)}; the pool holds {', '.join(sorted(ids))}")
        layers = tuple(left for layer in self.plan if (left := tuple(one for one in layer if one not in masked)))
        if not layers:
            raise ValueError(f"every agent of the plan is masked ({', '.join(sorted(masked))})")
        return LayeredWorkflow(layers=layers, masked=tuple(sorted(masked & ids)))


def to_layered_workflow(
    drawn: DrawnLayers, pool: Sequence[Agent], masked: frozenset[Id], index: int = 0
) -> LayeredWorkflow:
    """One decision of a batch by the agents' ids."""
    ids = [agent.id for agent in pool]
    return LayeredWorkflow(
        layers=tuple(tuple(ids[one] for one in layer if one >= 0) for layer in drawn.order[index]),
        probabilities=tuple(
            {name: float(p) for name, p in zip(ids, layer, strict=True) if name not in masked}
            for layer in drawn.probabilities[index]
        ),
        log_probability=float(drawn.log_probability[index]),
        masked=tuple(sorted(masked & set(ids))),
    )


def _free(pool: Sequence[Agent], masked: frozenset[Id]) -> npt.NDArray[np.bool_]:
    return np.array([[agent.id not in masked for agent in pool]])
