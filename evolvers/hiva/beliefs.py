"""Beliefs about agents and edges, and the synergy between agents (Sec. 3.4, 3.5, App. J.2, J.3)."""

from collections.abc import Callable, Sequence
from itertools import permutations

from pydantic import Field

from selfwire.core.values import FrozenModel

SYNERGY_BOUNDS = (1.0, 2.0)
"""At 0 nobody could ever be chosen; without an upper bound no newcomer would beat an incumbent (D5)."""


class Belief(FrozenModel):
    """Beta(alpha, beta) over an agent's or edge's success; (1, 1) is the prior."""

    alpha: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    beta: float = Field(default=1.0, gt=0, allow_inf_nan=False)

    @property
    def mean(self) -> float:
        """Posterior mean of the success rate, in (0, 1)."""
        return self.alpha / (self.alpha + self.beta)


class Observation(FrozenModel):
    """A run of a selected agent: the reward r, and KM, the overlap of its concepts with the task's.

    Without a match, as the task was not characterised, only r moves the belief (D21).
    """

    reward: int = Field(ge=0, le=1)
    match: float | None = Field(default=0.0, ge=0, le=1)


def decay_belief(belief: Belief, *, decay: float, iterations: int) -> Belief:
    """The belief after some iterations without observations: it keeps gamma^dt of its distance from the prior (D1)."""
    kept = decay**iterations
    return Belief(alpha=1 + kept * (belief.alpha - 1), beta=1 + kept * (belief.beta - 1))


def update_belief(
    belief: Belief, observations: Sequence[Observation], *, decay: float, match_weight: float, iterations: int = 1
) -> Belief:
    """Equation `belief`: one update per iteration, the increments of a batch summed (D1).

    Args:
        observations: one per run of the batch that selected the agent; none if it was never selected.
        decay: gamma in (0, 1].
        match_weight: delta >= 0.
        iterations: dt, iterations since the last update (D9).
    """
    old = decay_belief(belief, decay=decay, iterations=iterations)
    matches = [o.match for o in observations if o.match is not None]
    return Belief(
        alpha=old.alpha + sum(o.reward for o in observations) + match_weight * sum(matches),
        beta=old.beta + sum(1 - o.reward for o in observations) + match_weight * sum(1 - m for m in matches),
    )


def update_synergy(synergy: float, edge: Belief, *, traffic: int, rate: float) -> float:
    """Equation `synergy`: C' = C + gamma' * mean(edge) * R, kept within the bounds (D5).

    Args:
        synergy, edge: C in [1, 2] and the edge's belief before the batch.
        traffic: R, runs of the batch that used the edge.
        rate: gamma' >= 0.
    """
    low, high = SYNERGY_BOUNDS
    return min(max(synergy + rate * edge.mean * traffic, low), high)


def team_synergy(members: Sequence[str], synergy: Callable[[str, str], float]) -> float:
    """Equation `zeta`: mean synergy over the ordered pairs of distinct members; 1 for fewer than two."""
    pairs = list(permutations(dict.fromkeys(members), 2))
    return sum(synergy(a, b) for a, b in pairs) / len(pairs) if pairs else 1.0
