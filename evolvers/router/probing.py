"""Selection probabilities of a workflow's router on recorded states (Fig. 5, 7)."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from selfwire.core.protocols import Embedder
from selfwire.core.team import Team
from selfwire.core.values import FrozenModel, Id
from selfwire.evolvers.router.batch import Batch, embed_pool, embed_texts, make_batch, row_texts
from selfwire.evolvers.router.config import RouterConfig
from selfwire.evolvers.router.decisions import Decision
from selfwire.evolvers.router.weights import get_sampling, load_head

if TYPE_CHECKING:
    from selfwire.evolvers.router.head import RoutingHead


class Selection(FrozenModel):
    """The probabilities and the agents of a drawn layer.

    Args:
        stage, layer: from 0.
        probabilities: p by agent, without masked ones.
    """

    stage: int
    layer: int
    probabilities: Mapping[Id, float]
    chosen: tuple[Id, ...]


def collect_selections(decisions: Sequence[Decision]) -> tuple[Selection, ...]:
    """The probabilities of a run's draws."""
    return tuple(
        Selection(stage=stage, layer=layer, probabilities=p, chosen=decision.layered.layers[layer])
        for stage, decision in enumerate(decisions)
        for layer, p in enumerate(decision.layered.probabilities)
    )


async def probe_router(
    team: Team, decisions: Sequence[Decision], config: RouterConfig, embedder: Embedder
) -> tuple[Selection, ...]:
    """Probabilities of a workflow's router on recorded states, each layer after the same earlier layers.

    Raises:
        ConfigError, LibraryError: the weights cannot be used or have not been loaded.
        ValueError: there is no decision, or one names an agent that is not in the pool.
    """
    head = await load_head(team, config.head, embedder, transfer=config.transfer)
    agents = dict(zip(team.agents_by_id, await embed_pool(team.agents, embedder), strict=True))
    texts = [text for decision in decisions for text in row_texts(decision.rows, head.config)]
    batch = make_batch(decisions, agents, await embed_texts(texts, embedder), head.config)
    shares, exits = await asyncio.to_thread(_compute_shares, head, batch, get_sampling(team, config).softness)
    return tuple(
        Selection(
            stage=stage,
            layer=layer,
            probabilities={
                name: exits[stage][layer] if name == decision.layered.exit else shares[stage][layer][place]
                for place, name in enumerate(agents)
                if batch.free[stage, layer, place]
                or (name == decision.layered.exit and batch.exited[stage, layer] >= 0)
            },
            chosen=drawn,
        )
        for stage, decision in enumerate(decisions)
        for layer, drawn in enumerate(decision.layered.layers)
    )


def _compute_shares(
    head: "RoutingHead", batch: Batch, softness: float
) -> tuple[list[list[list[float]]], list[list[float]]]:
    """The agents' p of the first draw, and the probability of Early-exit, 0 where it could not be drawn."""
    import torch

    with torch.no_grad():
        rows, filled, agents, present, free, contexts, _, exited = (torch.as_tensor(array) for array in batch)
        read = head.read(rows, filled, agents, present)
        logits = head.scores(read, contexts) / softness
        chances = torch.where(exited >= 0, head.exit_logits(read, contexts, softness).sigmoid(), 0.0)
        shares = logits.masked_fill(~free, -math.inf).softmax(dim=-1) * (1 - chances[..., None])
    return shares.tolist(), chances.tolist()
