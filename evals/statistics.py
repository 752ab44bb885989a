"""Means with intervals: Student's for means, Wilson's for proportions, the bootstrap for other scores."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from selfwire.core.usage import Usage
from selfwire.core.values import FrozenModel

CONFIDENCE = 0.95
EQUAL = 1e-9
"""Most that values which are equal but for rounding lie apart, and the width of their interval."""
RESAMPLES = 2000
"""Resamples of a bootstrap."""
DRAWS = 1_000_000
"""Draws of a bootstrap in memory at a time, so that memory is bounded."""


class IntervalEstimate(FrozenModel):
    """A mean, difference of means or share with the ends of its interval; n observations, or pairs for a difference."""

    value: float
    low: float
    high: float
    n: int

    def clip(self, low: float, high: float) -> "IntervalEstimate":
        """Clip the interval to the possible values, such as 0 to 1 for a mean score."""
        return self.replace(low=min(max(self.low, low), high), high=max(min(self.high, high), low))

    def __str__(self) -> str:
        """The value with its interval, such as `0.60 [0.41, 0.77]`."""
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"

    def __repr__(self) -> str:
        return f"<{self}, n={self.n}>"


def compute_mean(values: Sequence[float]) -> float:
    """Compute the mean of at least one finite number, else raise ValueError."""
    return float(_array(values).mean())


def compute_sd(values: Sequence[float]) -> float:
    """Compute the standard deviation of a sample (n - 1); 0 for a single value. Raises as `compute_mean`."""
    array = _array(values)
    return float(array.std(ddof=1)) if len(array) > 1 else 0.0


def compute_student_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> IntervalEstimate:
    """Student's t interval of the mean; unlike a bootstrap, it keeps its confidence with about 10 values.

    Raises:
        ValueError: as `compute_mean`, or fewer than two values.
    """
    from scipy.stats import sem, t

    array = _array(values)
    if len(array) < 2:
        raise ValueError("an interval needs at least two values")
    middle = float(array.mean())
    if np.ptp(array) == 0:
        return IntervalEstimate(value=middle, low=middle, high=middle, n=len(array))
    low, high = t.interval(confidence, len(array) - 1, loc=middle, scale=sem(array))
    return IntervalEstimate(value=middle, low=float(low), high=float(high), n=len(array))


def are_equal(values: Sequence[float]) -> bool:
    """Whether values tell no spread: less than two, or all equal but for rounding."""
    return max(values, default=0.0) - min(values, default=0.0) <= EQUAL


def compute_paired_interval(before: Sequence[float], after: Sequence[float]) -> IntervalEstimate:
    """Student's t interval of the mean of `after - before` over pairs of values in [0, 1], of the same tasks or seeds.

    Where all differences are equal it would have no width, as if two pairs could tell everything. Then at most a share
    1 - 0.05**(1/n) of all pairs differs otherwise, with 95 % confidence, and a difference lies in [-1, 1].

    Raises ValueError as `compute_student_interval`, or if the lengths differ.
    """
    if len(before) != len(after):
        raise ValueError(f"pairs need equal lengths, not {len(before)} and {len(after)}")
    found = compute_student_interval((_array(after) - _array(before)).tolist()).clip(-1, 1)
    if found.high - found.low > EQUAL:
        return found
    unseen = 1 - (1 - CONFIDENCE) ** (1 / found.n)
    return found.replace(low=found.value - unseen * (1 + found.value), high=found.value + unseen * (1 - found.value))


def compute_wilson_interval(successes: int, n: int) -> IntervalEstimate:
    """Wilson's score interval of a share (Wilson, 1927); ValueError if not 0 <= successes <= n with n >= 1."""
    from scipy.stats import binomtest

    if not (n >= 1 and 0 <= successes <= n):
        raise ValueError(f"no share: {successes} of {n}")
    low, high = binomtest(successes, n).proportion_ci(CONFIDENCE, method="wilson")
    return IntervalEstimate(value=successes / n, low=float(low), high=float(high), n=n)


def compute_score_interval(scores: Sequence[float]) -> IntervalEstimate:
    """The mean of scores in [0, 1]: Wilson's interval where all are 0 or 1, else the BCa bootstrap (Efron, 1987).

    The bootstrap is seeded; equal scores have an interval of no width.

    Raises:
        ValueError: as `compute_mean`.
    """
    from scipy.stats import bootstrap

    array = _array(scores)
    if np.isin(array, (0.0, 1.0)).all():
        return compute_wilson_interval(int(array.sum()), len(array))
    middle = float(array.mean())
    if len(array) < 2 or np.ptp(array) == 0:
        return IntervalEstimate(value=middle, low=middle, high=middle, n=len(array))
    found = bootstrap(
        (array,), np.mean, confidence_level=CONFIDENCE, n_resamples=RESAMPLES, batch=max(1, DRAWS // len(array)),
        method="BCa", random_state=np.random.default_rng(0),
    ).confidence_interval  # fmt: skip
    return IntervalEstimate(value=middle, low=float(found.low), high=float(found.high), n=len(array))


def _array(values: Sequence[float]) -> npt.NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all():
        raise ValueError(f"statistics need at least one finite number, not {list(values)[:5]}")
    return array


def compute_cost_efficiency(share: float, usage: Usage, tasks: int) -> float | None:
    """HiVA's S = 100 P / (C + 0.01), C in dollars per task; None at no dollars or an unknown price."""
    if not usage.dollars:
        return None
    return 100 * share / (usage.dollars / max(tasks, 1) + 0.01)
