"""Choosers of a stage's layers: the head, chance, or a fixed workflow (Eq. 3; Sec. 4 for the ablations)."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from selfwire.core.agent import Agent
from selfwire.core.errors import ConfigError
from selfwire.core.protocols import Embedder
from selfwire.core.scope import Scope
from selfwire.core.values import Id
from selfwire.evolvers.router.config import SamplingConfig
from selfwire.evolvers.router.decisions import LayeredWorkflow, candidates
from selfwire.evolvers.router.encoding import (
    Vectors,
    compute_contexts,
    embed_pool,
    embed_texts,
    pad_rows,
    row_texts,
)
from selfwire.evolvers.router.sampling import draw

if TYPE_CHECKING:
    from selfwire.evolvers.router.head import RoutingHead

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
    filled: Switches,
    agents: Vectors,
    *,
    sampling: SamplingConfig,
    random: np.random.Generator,
    free: Switches | None = None,
) -> DrawnLayers:
    """Draw L layers for each of B states, one after another, as each layer is part of the next one's input.

    Args:
        rows, filled: (B, M, d) and (B, M), True where there is a row.
        agents: (N, d).
        free: (B, L, N), True where an agent may be drawn for a layer.

    Raises:
        ValueError: as `sampling.draw`.
    """
    import torch

    device, present = head.query.device, np.ones((len(rows), len(agents)), dtype=np.bool_)
    given = [torch.as_tensor(array).to(device) for array in (rows, filled, agents, present)]
    layers = []
    order = np.full((len(rows), sampling.layers, sampling.width or len(agents)), -1, dtype=np.int64)
    with torch.no_grad():
        read = head.read(*given)
        for layer in range(sampling.layers):
            context = torch.as_tensor(compute_contexts(order[:, : layer + 1], agents)[:, -1:]).to(device)
            logits = np.round(head.scores(read, context)[:, 0].double().cpu().numpy(), DIGITS) / sampling.softness
            may = present if free is None else free[:, layer]
            made = draw(logits, mass=sampling.mass, random=random, width=sampling.width, free=may)
            order[:, layer, : made.order.shape[1]] = made.order
            layers.append(made)
    probabilities = np.stack([made.probabilities for made in layers], axis=1)
    return DrawnLayers(order, probabilities, np.sum([made.log_probability for made in layers], axis=0))


def draw_layers_by_chance(
    count: int, agents: int, *, sampling: SamplingConfig, random: np.random.Generator, free: Switches | None = None
) -> DrawnLayers:
    """Draw L layers for each of `count` states by the same rule from a uniform p; `free` is (N,) or (count * L, N)."""
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
        self,
        rows: Sequence[str],
        pool: Sequence[Agent],
        *,
        masked: frozenset[Id],
        masked_first: frozenset[Id] = frozenset(),
        scope: Scope,
    ) -> LayeredWorkflow:
        """Draw layers from the head's probabilities; see `LayerChooser`."""
        candidates(pool, masked | masked_first)
        texts = row_texts(rows, self.head.config)
        drawn = draw_layers(
            self.head,
            *pad_rows([texts], await embed_texts(texts, self.embedder)),
            await embed_pool(pool, self.embedder),
            sampling=self.sampling,
            random=scope.random(PURPOSE),
            free=_free(pool, masked, masked_first, self.sampling.layers)[None],
        )
        return to_layered_workflow(drawn, pool, masked, masked_first)


class RandomChooser:
    """The ablation "random adapter": the same rule with a uniform p."""

    def __init__(self, sampling: SamplingConfig) -> None:
        self.sampling = sampling

    async def __call__(
        self,
        rows: Sequence[str],
        pool: Sequence[Agent],
        *,
        masked: frozenset[Id],
        masked_first: frozenset[Id] = frozenset(),
        scope: Scope,
    ) -> LayeredWorkflow:
        """Draw layers from a uniform p; see `LayerChooser`."""
        candidates(pool, masked | masked_first)
        free = _free(pool, masked, masked_first, self.sampling.layers)
        drawn = draw_layers_by_chance(1, len(pool), sampling=self.sampling, random=scope.random(PURPOSE), free=free)
        return to_layered_workflow(drawn, pool, masked, masked_first)


class FixedChooser:
    """Chooses equal layers at every stage, without masked agents; a layer that is left empty is skipped.

    Raises:
        ValueError: the plan has no layer, or an empty one.
    """

    def __init__(self, plan: Sequence[Sequence[Id]]) -> None:
        self.plan = LayeredWorkflow(layers=tuple(tuple(layer) for layer in plan)).layers

    async def __call__(
        self,
        rows: Sequence[str],
        pool: Sequence[Agent],
        *,
        masked: frozenset[Id],
        masked_first: frozenset[Id] = frozenset(),
        scope: Scope,
    ) -> LayeredWorkflow:
        """The plan; see `LayerChooser`.

        Raises:
            ValueError: an agent of the plan is not in the pool.
            ConfigError: all of them are masked.
        """
        candidates(pool, masked | masked_first)
        ids = {agent.id for agent in pool}
        if unknown := sorted({agent for layer in self.plan for agent in layer} - ids):
            raise ValueError(f"the plan names {', '.join(unknown)}; the pool holds {', '.join(sorted(ids))}")
        layers: list[tuple[Id, ...]] = []
        for layer in self.plan:
            barred = masked if layers else masked | masked_first
            layers += [left] if (left := tuple(agent for agent in layer if agent not in barred)) else []
        if not layers:
            out = ", ".join(dict.fromkeys(agent for layer in self.plan for agent in layer))
            raise ConfigError(
                f"the plan has nobody to run at this stage: {out} hold no tool, have no solution to work on yet, "
                "or end a run that has no result yet; add another agent to the plan"
            )
        return LayeredWorkflow(layers=tuple(layers), **_name_masked(ids, masked, masked_first))


def to_layered_workflow(
    drawn: DrawnLayers,
    pool: Sequence[Agent],
    masked: frozenset[Id],
    masked_first: frozenset[Id] = frozenset(),
) -> LayeredWorkflow:
    """The first decision of a batch by the agents' ids."""
    ids = [agent.id for agent in pool]
    barred = [masked | masked_first if layer == 0 else masked for layer in range(len(drawn.order[0]))]
    return LayeredWorkflow(
        layers=tuple(tuple(ids[place] for place in layer if place >= 0) for layer in drawn.order[0]),
        probabilities=tuple(
            {name: float(p) for name, p in zip(ids, layer, strict=True) if name not in hidden}
            for layer, hidden in zip(drawn.probabilities[0], barred, strict=True)
        ),
        log_probability=float(drawn.log_probability[0]),
        **_name_masked(ids, masked, masked_first),
    )


def _name_masked(ids: Iterable[Id], masked: frozenset[Id], masked_first: frozenset[Id]) -> dict[str, Any]:
    return {
        "masked": tuple(sorted(masked.intersection(ids))),
        "masked_first": tuple(sorted((masked_first - masked).intersection(ids))),
    }


def _free(pool: Sequence[Agent], masked: frozenset[Id], masked_first: frozenset[Id], layers: int) -> Switches:
    """(L, N), True where an agent may be drawn for a layer."""
    barred = [masked | masked_first, *[masked] * (layers - 1)]
    return np.array([[agent.id not in hidden for agent in pool] for hidden in barred])
