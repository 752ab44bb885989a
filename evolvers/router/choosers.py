"""Choosers of a stage's layers: draws from the head, chance, or a fixed workflow (Eq. 3; Sec. 4 for ablations)."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from selfwire.core.agent import Agent
from selfwire.core.errors import ConfigError
from selfwire.core.protocols import Embedder
from selfwire.core.scope import Scope
from selfwire.core.values import Id
from selfwire.evolvers.router.batch import Vectors, compute_contexts, embed_pool, embed_texts, pad_rows, row_texts
from selfwire.evolvers.router.config import EXIT_START, HeadConfig, SamplingConfig
from selfwire.evolvers.router.decisions import EXIT_KIND, LayeredWorkflow, Masks, candidates

if TYPE_CHECKING:
    from selfwire.evolvers.router.head import RoutingHead


TOLERANCE = 1e-9
"""The mass counts as reached this far below rho (D5)."""

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class Draw(NamedTuple):
    """Draws of B decisions among N agents.

    Attributes:
        order: (B, K) indices in the order of drawing, then -1; K is the longest draw of the batch.
        log_probability: (B,) log P of each order, at most 0.
        probabilities: (B, N) p before the first draw; 0 for agents that cannot be drawn.
    """

    order: Integers
    log_probability: Floats
    probabilities: Floats


def draw(
    logits: npt.ArrayLike,
    *,
    mass: float,
    random: np.random.Generator,
    width: int | None = None,
    free: npt.NDArray[np.bool_] | None = None,
) -> Draw:
    """Draw agents for each row of logits: cumulative-mass soft sampling (Eq. 11, 12, 27-29).

    p      = softmax(logits)
    draw   without replacement from p, until the p drawn so far sum to rho
    log P  = sum_r ( logit_{i_r} - log sum_{j not drawn before r} exp(logit_j) )                      (D3)

    Sorting logits plus Gumbel noise draws a whole order without replacement at once (Yellott, 1977), so a batch of
    decisions is one sort; the mass rule then cuts each order.

    Args:
        logits: (B, N) scores divided by the softness; finite.
        mass: rho in (0, 1]; drawing stops when the drawn p sum to it, within 1e-9, or when no agent is left.
        width: most agents per row (D4); None is no limit.
        free: (N,) or (B, N), True where an agent may be drawn; p is renormalised over these (D6).

    Raises:
        ValueError: the pool is empty, no agent is free, a logit is not finite, or mass or width is out of range.
    """
    rows = _mask_logits(np.asarray(logits, dtype=np.float64), free)
    if not 0 < mass <= 1:
        raise ValueError(f"rho, the mass to draw, lies in (0, 1], not at {mass}")
    if width is not None and width < 1:
        raise ValueError(f"a layer holds at least one agent, so width is at least 1, not {width}")
    order = np.argsort(-(rows + random.gumbel(size=rows.shape)), axis=1, kind="stable")
    ranked = np.take_along_axis(rows, order, axis=1)
    raised = np.exp(rows - rows.max(axis=1, keepdims=True))
    shares: Floats = raised / raised.sum(axis=1, keepdims=True)
    kept = np.isfinite(ranked)
    kept[:, 1:] &= np.cumsum(np.take_along_axis(shares, order, axis=1), axis=1)[:, :-1] < mass - TOLERANCE
    if width is not None:
        kept[:, width:] = False
    longest = int(kept.sum(axis=1).max())
    steps = np.subtract(ranked, remaining_mass(ranked), out=np.zeros_like(ranked), where=kept)
    return Draw(np.where(kept, order, -1)[:, :longest], steps.sum(axis=1), shares)


def log_probability(logits: npt.ArrayLike, order: npt.ArrayLike) -> float:
    """Log P of one order of indices, drawn from one row of logits (Eq. 28, D3).

    Raises:
        ValueError: the order is empty, repeats an agent or names an unknown one.
    """
    row, drawn = np.asarray(logits, dtype=np.float64), [int(index) for index in np.asarray(order).ravel()]
    if not drawn or len(set(drawn)) != len(drawn) or not set(drawn) <= set(range(len(row))):
        raise ValueError(f"an order names at least one of {len(row)} agents, by index, and none twice, not {drawn}")
    rest = [index for index in range(len(row)) if index not in drawn]
    ranked = row[[*drawn, *rest]][None, :]
    return float((ranked - remaining_mass(ranked))[0, : len(drawn)].sum())


def remaining_mass(ranked: Floats) -> Floats:
    """(B, N) log of the sum of exp over each place and all later ones, in rows ordered by drawing."""
    return np.logaddexp.accumulate(ranked[:, ::-1], axis=1)[:, ::-1]


def _mask_logits(rows: Floats, free: npt.NDArray[np.bool_] | None) -> Floats:
    if rows.ndim != 2 or not rows.shape[0] or not rows.shape[1]:
        raise ValueError(f"logits have shape (decisions, agents), at least one of each, not {rows.shape}")
    if not np.isfinite(rows).all():
        raise ValueError("a logit is not finite; the head's weights or the embeddings hold NaN or infinity")
    if free is None:
        return rows
    open_to = np.broadcast_to(free, rows.shape)
    if not open_to.any(axis=1).all():
        raise ValueError("nobody is left to draw: all agents are masked")
    return np.where(open_to, rows, -np.inf)


PURPOSE = "evomas/adapter"
"""Keys the draws of all choosers in a scope; another value would draw other layers from equal seeds."""
DIGITS = 6
"""Decimals of a cosine, so that the size of a batch changes no draw."""


Switches = npt.NDArray[np.bool_]


class Exit(NamedTuple):
    """Early-exit where it is decided apart from the choice of agents (D28).

    Attributes:
        place: index of the agent.
        free: (L,) True for the layers before which the run may end.
    """

    place: int
    free: Switches


class DrawnLayers(NamedTuple):
    """Layers for B decisions.

    Attributes:
        order: (B, L, K) indices as drawn, then -1; Early-exit alone in the layer that it ends, and nobody after it.
        probabilities: (B, L, N) p of the first draw.
        log_probability: (B,) the sum over layers.
    """

    order: npt.NDArray[np.int64]
    probabilities: npt.NDArray[np.float64]
    log_probability: npt.NDArray[np.float64]


def draw_layers(
    head: "RoutingHead",
    states: tuple[Vectors, Switches],
    agents: Vectors,
    *,
    sampling: SamplingConfig,
    random: np.random.Generator,
    free: Switches | None = None,
    leave: Exit | None = None,
) -> DrawnLayers:
    """Draw L layers for each of B states, one after another, as each layer is part of the next one's input.

    Args:
        states: (B, M, d) rows, and (B, M), True where there is a row, as `pad_rows` makes them.
        agents: (N, d).
        free: (B, L, N), True where an agent may be drawn for a layer.
        leave: Early-exit, if it may be drawn apart; `free` leaves it out.

    Raises:
        ValueError: as `sampling.draw`.
    """
    import torch

    rows, filled = states
    device, present = head.query.device, np.ones((len(rows), len(agents)), dtype=np.bool_)
    given = [torch.as_tensor(array).to(device) for array in (rows, filled, agents, present)]
    layers, chances = list[Draw](), np.zeros((len(rows), sampling.layers))
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
            if leave is not None and leave.free[layer]:
                exits = head.exit_logits(read, context, sampling.softness)[:, 0].double().cpu().numpy()
                chances[:, layer] = np.exp(-np.logaddexp(0, -np.round(exits, DIGITS)))
    probabilities = np.stack([made.probabilities for made in layers], axis=1)
    steps = np.stack([made.log_probability for made in layers], axis=1)
    return _end_at_exit(order, probabilities, steps, chances, leave, random)


def draw_layers_by_chance(
    count: int,
    agents: int,
    *,
    sampling: SamplingConfig,
    random: np.random.Generator,
    free: Switches | None = None,
    leave: Exit | None = None,
) -> DrawnLayers:
    """Draw L layers for each of `count` states by the same rule from a uniform p; `free` is (N,) or (count * L, N).

    Early-exit is drawn with the probability of an untrained head.
    """
    logits = np.zeros((count * sampling.layers, agents))
    made = draw(logits, mass=sampling.mass, random=random, width=sampling.width, free=free)
    shape = (count, sampling.layers)
    chances = np.zeros(shape) if leave is None else np.where(leave.free, EXIT_START, np.zeros(shape))
    shares, steps = made.probabilities.reshape(*shape, -1), made.log_probability.reshape(shape)
    return _end_at_exit(made.order.reshape(*shape, -1), shares, steps, chances, leave, random)


def _end_at_exit(
    order: Integers, shares: Floats, steps: Floats, chances: Floats, leave: Exit | None, random: np.random.Generator
) -> DrawnLayers:
    """End drawn layers where Early-exit is drawn; `steps` and `chances` are (B, L), log P of layers and p of exits."""
    if leave is None:
        return DrawnLayers(order, shares, steps.sum(axis=1))
    gone = np.logical_or.accumulate(random.random(chances.shape) < chances, axis=1)
    now = gone.copy()
    now[:, 1:] &= ~gone[:, :-1]
    order = np.where(gone[..., None], -1, order)
    order[now, 0] = leave.place
    shares = shares * (1 - chances[..., None])
    shares[..., leave.place] = chances
    decided = np.where(now, chances, np.where(gone, 1.0, 1 - chances))
    return DrawnLayers(order, shares, np.where(gone, 0.0, steps).sum(axis=1) + np.log(decided).sum(axis=1))


class LearnedChooser:
    """The learned chooser: a head, with the embedder of its training."""

    def __init__(self, head: "RoutingHead", sampling: SamplingConfig, embedder: Embedder) -> None:
        self.head, self.sampling, self.embedder = head, sampling, embedder

    async def __call__(
        self, rows: Sequence[str], pool: Sequence[Agent], masks: Masks = Masks(), *, scope: Scope
    ) -> LayeredWorkflow:
        """Draw layers from the head's probabilities; see `LayerChooser`."""
        candidates(pool, masks.at_first)
        texts = row_texts(rows, self.head.config)
        leave = _find_exit(pool, masks, self.sampling.layers, self.head.config)
        drawn = draw_layers(
            self.head,
            pad_rows([texts], await embed_texts(texts, self.embedder)),
            await embed_pool(pool, self.embedder),
            sampling=self.sampling,
            random=scope.random(PURPOSE),
            free=_free(pool, masks, self.sampling.layers, leave)[None],
            leave=leave,
        )
        return to_layered_workflow(drawn, pool, masks, leave)


class RandomChooser:
    """The ablation "random adapter": the same rule with a uniform p, and Early-exit as the head's config has it."""

    def __init__(self, sampling: SamplingConfig, head: HeadConfig = HeadConfig()) -> None:
        self.sampling, self.head = sampling, head

    async def __call__(
        self, rows: Sequence[str], pool: Sequence[Agent], masks: Masks = Masks(), *, scope: Scope
    ) -> LayeredWorkflow:
        """Draw layers from a uniform p; see `LayerChooser`."""
        candidates(pool, masks.at_first)
        leave = _find_exit(pool, masks, self.sampling.layers, self.head)
        free = _free(pool, masks, self.sampling.layers, leave)
        drawn = draw_layers_by_chance(
            1, len(pool), sampling=self.sampling, random=scope.random(PURPOSE), free=free, leave=leave
        )
        return to_layered_workflow(drawn, pool, masks, leave)


class FixedChooser:
    """Chooses equal layers at every stage, without masked agents; a layer that is left empty is skipped.

    Raises:
        ValueError: the plan has no layer, or an empty one.
    """

    def __init__(self, plan: Sequence[Sequence[Id]]) -> None:
        self.plan = LayeredWorkflow(layers=tuple(tuple(layer) for layer in plan)).layers

    async def __call__(
        self, rows: Sequence[str], pool: Sequence[Agent], masks: Masks = Masks(), *, scope: Scope
    ) -> LayeredWorkflow:
        """The plan; see `LayerChooser`.

        Raises:
            ValueError: an agent of the plan is not in the pool.
            ConfigError: all of them are masked.
        """
        candidates(pool, masks.at_first)
        ids = {agent.id for agent in pool}
        if unknown := sorted({agent for layer in self.plan for agent in layer} - ids):
            raise ValueError(f"the plan names {', '.join(unknown)}; the pool holds {', '.join(sorted(ids))}")
        layers: list[tuple[Id, ...]] = []
        for layer in self.plan:
            barred = masks.always if layers else masks.at_first
            layers += [left] if (left := tuple(agent for agent in layer if agent not in barred)) else []
        if not layers:
            out = ", ".join(dict.fromkeys(agent for layer in self.plan for agent in layer))
            raise ConfigError(
                f"the plan has nobody to run at this stage: {out} hold no tool, have no solution to work on yet, "
                "or end a run that has no result yet; add another agent to the plan"
            )
        return LayeredWorkflow(layers=tuple(layers), **_name_masked(ids, masks))


def to_layered_workflow(
    drawn: DrawnLayers, pool: Sequence[Agent], masks: Masks = Masks(), leave: Exit | None = None
) -> LayeredWorkflow:
    """The first decision of a batch by the agents' ids."""
    ids, free = [agent.id for agent in pool], _free(pool, masks, len(drawn.order[0]))
    layers = [tuple(ids[place] for place in layer if place >= 0) for layer in drawn.order[0]]
    shares = [
        {name: float(p) for name, p, may in zip(ids, layer, open_to, strict=True) if may}
        for layer, open_to in zip(drawn.probabilities[0], free, strict=True)
    ]
    return LayeredWorkflow(
        layers=tuple(layer for layer in layers if layer),
        probabilities=tuple(found for layer, found in zip(layers, shares, strict=True) if layer),
        log_probability=float(drawn.log_probability[0]),
        exit=ids[leave.place] if leave else None,
        **_name_masked(ids, masks),
    )


def _name_masked(ids: Iterable[Id], masks: Masks) -> dict[str, Any]:
    return {
        "masked": tuple(sorted(masks.always.intersection(ids))),
        "masked_first": tuple(sorted((masks.first - masks.always).intersection(ids))),
    }


def _free(pool: Sequence[Agent], masks: Masks, layers: int, leave: Exit | None = None) -> Switches:
    """(L, N), True where an agent may be drawn for a layer; Early-exit is not where it is drawn apart."""
    barred = [masks.at_first, *[masks.always] * (layers - 1)]
    free = np.array([[agent.id not in hidden for agent in pool] for hidden in barred])
    if leave is not None:
        free[:, leave.place] = False
    return free


def _find_exit(pool: Sequence[Agent], masks: Masks, layers: int, head: HeadConfig) -> Exit | None:
    """Find Early-exit, if it is decided apart, may be drawn and each layer has another agent that may be."""
    if head.exit == "agent":
        return None
    free = _free(pool, masks, layers)
    ends = [place for place, agent in enumerate(pool) if agent.kind == EXIT_KIND and free[:, place].any()]
    if not ends or not np.delete(free, ends[0], axis=1).any(axis=1).all():
        return None
    return Exit(ends[0], free[:, ends[0]])
