"""Verdicts on a family of comparisons: the evidence by hand, Holm's order, tasks that several seeds have drawn."""

import math

import numpy as np
import pytest

from selfwire.evals.table import SeedSummary, SystemInfo, SystemSummary
from selfwire.evals.verdicts import average_differences, compute_evidence, find_visible_gain, judge_differences


def line(**scores: float | None) -> SystemSummary:
    return SystemSummary(SystemInfo(name="a", target="a", method="", workflow=""), scores=scores)


def test_evidence_is_half_the_mean_wealth_of_both_directions() -> None:
    """Bets of 0 to 1 on 8 wins have a mean wealth of (2**9 - 1) / 9, as an integral."""
    expected = math.log((2**9 - 1) / 9 / 2)
    assert compute_evidence([1.0] * 8) == pytest.approx(expected, abs=0.01)
    assert compute_evidence([-1.0] * 8) == pytest.approx(expected, abs=0.01)
    assert compute_evidence([]) == 0


def test_a_comparison_needs_less_evidence_once_a_stronger_one_is_told_apart() -> None:
    """Evidence of 28 is between 1 / 0.05 and 2 / 0.05."""
    alone = judge_differences({"a": [1.0] * 8, "b": [0.0] * 8})
    assert [found.says for found in alone.values()] == ["not told apart", "not told apart"]
    beside = judge_differences({"a": [1.0] * 8, "b": [-1.0] * 30})
    assert [found.says for found in beside.values()] == ["better", "worse"]
    assert alone["a"].difference is not None
    assert beside["a"].difference is not None
    assert alone["a"].difference.low < 0 < beside["a"].difference.low


def test_a_task_counts_once_however_many_seeds_have_drawn_it() -> None:
    lines = [line(x=1.0, y=1.0, z=None), line(x=0.0, w=0.0)]
    others = [line(x=0.0, y=1.0, z=1.0), line(x=0.0, w=1.0)]
    assert average_differences(lines, others) == (0.5, 0.0, -1.0, -1.0)


def test_seeds_that_are_equal_but_for_rounding_have_an_interval_over_tasks() -> None:
    seeds = SeedSummary((line(a=0.1 + 0.2, b=0.0), line(c=0.3, d=0.0)), (line(a=0.0, b=0.0), line(c=0.0, d=0.0)))
    assert len({*seeds.differences}) == 2
    for found in (seeds.difference, seeds.score):
        assert found is not None
        assert found.n == 4
        assert found.high - found.low > 0.1


def test_a_system_that_turns_wrong_answers_into_errors_is_not_told_apart() -> None:
    other = line(**{f"t{at}": float(at % 2) for at in range(60)}, z=None)
    fails = line(**{f"t{at}": float(at % 2) if at < 20 else None if at % 4 > 1 else 1.0 for at in range(60)}, z=1.0)
    [found] = judge_differences({"": average_differences([fails], [other])}).values()
    assert found.says == "not told apart"
    assert found.difference is not None
    assert (found.difference.value, found.difference.n) == (0.0, 60)


def test_no_difference_is_told_apart_in_at_most_one_family_of_twenty() -> None:
    """Holm's first step decides whether anything is told apart."""
    random, wrong = np.random.default_rng(0), 0
    for _ in range(100):
        direct = (random.random(60) < 0.5).astype(float)
        family = [((random.random(60) < 0.5) - direct).tolist() for _ in range(6)]
        wrong += max(map(compute_evidence, family)) >= math.log(6 / 0.05)
    assert wrong <= 5


def test_the_visible_gain_is_seen_in_four_of_five_cases() -> None:
    """Systems that differ on half of the tasks win a share of (0.5 + gain) / 2 of these."""
    gain = find_visible_gain(120, 0.05 / 8)
    assert gain is not None
    random, needed = np.random.default_rng(1), math.log(8 / 0.05)
    odds = [(0.5 + gain) / 2, (0.5 - gain) / 2, 0.5]
    seen = sum(compute_evidence(random.choice([1.0, -1.0, 0.0], 120, p=odds).tolist()) >= needed for _ in range(200))
    assert 140 <= seen <= 180
    assert find_visible_gain(300, 0.05 / 8) == pytest.approx(0.6 * gain, abs=0.06)  # it shrinks with the root of tasks
    assert find_visible_gain(4, 0.05) is None


def test_a_verdict_says_how_often_a_gain_is_seen_and_not_that_smaller_ones_never_are() -> None:
    nothing, seen = [0.0] * 60, [1.0] * 12 + [0.0] * 48  # a gain of 0.20
    found = judge_differences({"no": nothing, "yes": seen})
    assert found["yes"].says == "better"
    assert found["no"].visible is not None
    assert found["no"].visible > 0.2
    assert str(found["no"]) == f"not told apart (a gain of {found['no'].visible:.2f} is seen in 4 of 5 cases)"
