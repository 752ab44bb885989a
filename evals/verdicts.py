"""Verdicts on systems: each against another on the same tasks, by evidence that is corrected for their number.

A comparison tests "the mean difference is 0" by the gate's e-process (`evolvers.gate`), in both directions, each with
half of the error. Its evidence e gives the p-value 1/e (Markov), and Holm's procedure (Holm, 1979) corrects these: in
order of their evidence, the comparison at place i of m needs (m - i + 1) / error. So the chance that a page says
"better" or "worse" anywhere without a difference is at most the error, however the comparisons depend on each other. A
procedure for the share of false verdicts, such as e-BH, would let a page with many true gains have false ones beside
them, and a row is often quoted alone.

Evidence holds whenever one looks, so a comparison may be judged before all its tasks are done, and again with more.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Literal, TypeVar

from selfwire.core.values import FrozenModel
from selfwire.evals.statistics import IntervalEstimate
from selfwire.evals.table import SystemSummary
from selfwire.evolvers.gate import compute_log_evidence, estimate_gain, pair_scores

ERROR = 0.05
"""Chance that any verdict of a family is false."""
DIFFERING = 0.5
"""Share of tasks on which two systems differ, before this is known: that of two which guess one of two answers."""
QUANTILE = 0.84
"""Standard errors that chance stays above in four of five cases."""
STEP = 0.01
"""Step in which the smallest visible gain is searched."""

Key = TypeVar("Key")


class ComparisonVerdict(FrozenModel):
    """The verdict on the difference between a system and another.

    Args:
        difference: mean over tasks, with the interval at the error left for this comparison; None without tasks.
        says: the verdict.
        visible: the smallest gain that would have been seen in four of five cases; None if none would.
    """

    difference: IntervalEstimate | None = None
    says: Literal["better", "worse", "not told apart"] = "not told apart"
    visible: float | None = None

    def __str__(self) -> str:
        """The verdict, with the gain that the tasks mostly show."""
        if self.says != "not told apart":
            return self.says
        return f"{self.says} (a gain of {self.visible:.2f} is seen in 4 of 5 cases)" if self.visible else self.says


def average_differences(lines: Sequence[SystemSummary], others: Sequence[SystemSummary]) -> tuple[float, ...]:
    """Average the differences of each task over seeds, so that a task counts once however often it was drawn.

    Args:
        lines: a system's results, a seed each.
        others: those of the other system, on the same tasks.

    Returns:
        N differences in [-1, 1], a task each. Tasks that ended as errors for the other system are left out, and those
        for this one alone count as wrong: one that turns wrong answers into errors would seem better without them.
    """
    found: dict[str, list[float]] = {}
    for line, other in zip(lines, others, strict=True):
        for task, (there, here) in pair_scores(other.scores, line.scores, is_proof=True).items():
            found.setdefault(task, []).append(here - there)
    return tuple(fmean(differences) for differences in found.values())


def compute_evidence(differences: Sequence[float]) -> float:
    """Logarithm of the evidence against "the mean is 0": the larger of both directions, less log 2 as there are two."""
    if not differences:
        return 0.0
    sides = (compute_log_evidence(differences), compute_log_evidence([-value for value in differences]))
    return max(sides) - math.log(2)


def judge_differences(found: Mapping[Key, Sequence[float]]) -> dict[Key, ComparisonVerdict]:
    """Judge a family of comparisons, by Holm's procedure on their evidence.

    Args:
        found: N differences in [-1, 1] by comparison.
    """
    evidence = {key: compute_evidence(differences) for key, differences in found.items()}
    ranked = sorted(evidence, key=lambda key: -evidence[key])
    verdicts, rejects = dict[Key, ComparisonVerdict](), True
    left = len(ranked)
    for key in ranked:
        rejects = rejects and evidence[key] >= math.log(left / ERROR)
        verdicts[key] = _judge(found[key], ERROR / left, told_apart=rejects)
        left -= rejects
    return {key: verdicts[key] for key in found}


def _judge(differences: Sequence[float], error: float, *, told_apart: bool) -> ComparisonVerdict:
    if not differences:
        return ComparisonVerdict()
    mean, (low, high) = fmean(differences), estimate_gain(differences, error)
    difference = IntervalEstimate(value=mean, low=low, high=high, n=len(differences))
    if told_apart:
        return ComparisonVerdict(difference=difference, says="better" if mean > 0 else "worse")
    spread = fmean(value * value for value in differences)
    return ComparisonVerdict(difference=difference, visible=find_visible_gain(len(differences), error, spread))


def find_visible_gain(tasks: int, error: float, differing: float = DIFFERING) -> float | None:
    """Find the smallest gain that is seen in four of five cases; None if not even a gain on all tasks is.

    Args:
        tasks: N, all different.
        error: chance of a false verdict that is left for this comparison, in (0, 1).
        differing: share of tasks on which the systems differ, or the mean square of differences, in [0, 1].
    """
    for step in range(1, round(1 / STEP) + 1):
        gain = step * STEP
        share = max(differing, gain)
        net = tasks * gain - QUANTILE * math.sqrt(tasks * max(0.0, share - gain * gain))
        won = math.floor((tasks * share + net) / 2)
        lost = math.ceil(tasks * share) - won
        if won > lost and compute_log_evidence([1.0] * won + [-1.0] * max(0, lost)) >= math.log(2 / error):
            return round(gain, 2)
    return None
