"""Cumulative-mass soft sampling: draws a layer's agents, with the probability of the draw (Eq. 11, 12, 27-29).

    p      = softmax(logits)
    draw   without replacement from p, until the p drawn so far sum to rho
    log P  = sum_r ( logit_{i_r} - log sum_{j not drawn before r} exp(logit_j) )                      (D3)

Sorting logits plus Gumbel noise draws a whole order without replacement at once (Yellott, 1977), so a batch of
decisions is one sort; the mass rule then cuts each order.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

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
    """Draw agents for each row of logits.

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
