"""The fit of the weights of the knowledge distance to held-out tasks (App. D.5)."""

from collections.abc import Sequence
from math import sqrt

import numpy as np
import numpy.typing as npt
from pydantic import Field

from selfwire.core.values import FrozenModel
from selfwire.evolvers.hiva.distance import UNIFORM, Indicators, WeightSample

FEWEST_TASKS = 20
NOISE = 2.5
"""Standard errors of a correlation of 0, 1/sqrt(n), that fitted weights must exceed (D20)."""

_Array = npt.NDArray[np.float64]


class Fit(FrozenModel):
    """Fitted weights and the correlation of -Dist with success that they reach."""

    weights: Indicators
    correlation: float = Field(ge=-1.000001, le=1.000001)


def fit_weights(evidence: Sequence[WeightSample], weights: Indicators = UNIFORM) -> Fit | None:
    """Weights half way to those on the simplex that maximise the correlation of -Dist with success (App. D.5).

    An indicator that is equal in all tasks keeps its share. The best of many weights correlates with pure noise too, so
    it counts only from 2.5/sqrt(n) on, and only if it beats the weights so far (D20). Tasks are compared with those of
    their own batch (D28).

    Returns:
        None with fewer than 20 tasks in batches of mixed outcome (D14), and where the weights should stay.
    """
    batches = [batch for batch in _by_batch(evidence) if len({e.solved for e in batch}) == 2]
    if sum(map(len, batches)) < FEWEST_TASKS:
        return None
    solved = np.concatenate([_centre([float(e.solved) for e in batch]) for batch in batches])
    terms, old = np.concatenate([_centre([e.terms for e in batch]) for batch in batches]), np.asarray(weights)
    varying = terms.std(axis=0) > 1e-9
    share = old[varying].sum()
    if varying.sum() < 2 or share <= 0:
        return None
    best = _best(terms[:, varying], solved, old[varying] / share)
    free = len(solved) - len(batches) + 1  # each further mean takes a degree of freedom
    if _correlation(best, terms[:, varying], solved) < NOISE / sqrt(free):
        return None
    halfway = old.copy()
    halfway[varying] = (old[varying] + share * best) / 2
    fit = Fit(weights=_on_simplex(halfway), correlation=_correlation(halfway, terms, solved))
    return fit if fit.correlation > _correlation(old, terms, solved) + 1e-6 else None


def _by_batch(evidence: Sequence[WeightSample]) -> list[list[WeightSample]]:
    found: dict[int, list[WeightSample]] = {}
    for sample in evidence:
        found.setdefault(sample.batch, []).append(sample)
    return list(found.values())


def _centre(values: Sequence[float] | Sequence[Indicators]) -> _Array:
    rows = np.array(values, dtype=float)
    return np.asarray(rows - rows.mean(axis=0))


def _best(terms: _Array, solved: _Array, old: _Array) -> _Array:
    n = terms.shape[1]
    starts = [old, np.full(n, 1 / n), *(0.85 * row + 0.15 / n for row in np.eye(n)), *np.eye(n)]
    found = [old, *(_climb(start, terms, solved) for start in starts)]  # ties change nothing
    best = max(found, key=lambda omega: round(_correlation(omega, terms, solved), 9))
    return np.asarray(best / best.sum())


def _on_simplex(weights: _Array) -> Indicators:
    first, second, third, _ = (float(weight) for weight in np.round(weights / weights.sum(), 6))
    return first, second, third, max(round(1 - first - second - third, 6), 0.0)


def _climb(start: _Array, terms: _Array, solved: _Array) -> _Array:
    from scipy.optimize import minimize  # 0.3 s to import, needed by a fit alone

    result = minimize(
        lambda omega: -_correlation(omega, terms, solved),
        start,
        method="SLSQP",
        bounds=[(0, 1)] * len(start),
        constraints=[{"type": "eq", "fun": lambda omega: omega.sum() - 1}],
    )
    result_weights = np.clip(result.x, 0, 1)
    return result_weights if np.isfinite(result_weights).all() and result_weights.sum() > 0 else start


def _correlation(omega: _Array, terms: _Array, solved: _Array) -> float:
    nearness = -(terms @ omega)
    if nearness.std() < 1e-9:
        return 0.0
    return float(np.corrcoef(nearness, solved)[0, 1])
