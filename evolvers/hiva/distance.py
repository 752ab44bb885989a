"""The knowledge distance between an agent and a task (App. D.1, D.2)."""

from collections.abc import Iterable
from math import log1p

from selfwire.core.values import FrozenModel

Indicators = tuple[float, float, float, float]
"""Psi_1 to Psi_4, each in [0, 1]: semantic, dependency, history and tool mismatch."""

UNIFORM: Indicators = (0.25, 0.25, 0.25, 0.25)
LONGEST_PATH = 6


class WeightSample(FrozenModel):
    """Evidence of one held-out task: log(1 + d_I) * Psi_k, averaged over the agents that ran.

    Args:
        batch: the iteration in which it was run; the tasks of a batch had the same team.
    """

    terms: Indicators
    solved: bool
    batch: int = -1


def semantic_mismatch(agent: Iterable[str], task: Iterable[str], cosine: float) -> float:
    """Psi_1: mean of the Jaccard distance of concepts(A) and concepts(I) and the cosine distance of embeddings."""
    ours, theirs = set(agent), set(task)
    union = ours | theirs
    jaccard = 1 - len(ours & theirs) / len(union) if union else 1.0
    return (jaccard + min(max(1 - cosine, 0.0), 1.0)) / 2


def dependency_mismatch(path: int | None) -> float:
    """Psi_2: length of the dependency path over 6; 1 where there is none."""
    return 1.0 if path is None else min(path, LONGEST_PATH) / LONGEST_PATH


def history_mismatch(successes: int, runs: int) -> float:
    """Psi_3: 1 - (s + 1)/(n + 2) over similar past tasks; a half where there were none."""
    return 1 - (successes + 1) / (runs + 2)


def tool_mismatch(held: Iterable[str], required: Iterable[str]) -> float:
    """Psi_4: share of the required tools that are missing; 0 where none is required."""
    needed = set(required)
    return len(needed - set(held)) / len(needed) if needed else 0.0


def knowledge_match(agent: Iterable[str], task: Iterable[str]) -> float:
    """KM = |concepts(A) & concepts(I)| / |concepts(I)|, in [0, 1]; 0 where the task has none (D4)."""
    needed = set(task)
    return len(needed & set(agent)) / len(needed) if needed else 0.0


def mismatch(indicators: Indicators, weights: Indicators) -> float:
    """The weighted mismatch, sum of omega_k * Psi_k, in [0, 1]."""
    return sum(weight * indicator for weight, indicator in zip(weights, indicators, strict=True))


def distance(depth: int, indicators: Indicators, weights: Indicators) -> float:
    """Equation `distance`: Dist = log(1 + d_I) * sum of omega_k * Psi_k."""
    return log1p(depth) * mismatch(indicators, weights)
