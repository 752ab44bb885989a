"""Means with their uncertainty."""

import random
from collections.abc import Iterator

import numpy as np
import pytest

from selfwire.evals.statistics import (
    IntervalEstimate,
    compute_mean,
    compute_paired_interval,
    compute_score_interval,
    compute_sd,
    compute_student_interval,
    compute_wilson_interval,
)


def test_mean_and_sd_by_hand() -> None:
    assert compute_mean([1, 2, 3, 6]) == 3
    assert compute_sd([1, 2, 3, 6]) == pytest.approx((14 / 3) ** 0.5)
    assert compute_sd([5]) == 0


def test_students_interval_by_hand() -> None:
    found = compute_student_interval([1, 2, 3, 6])  # t at 0.975 and 3 degrees of freedom is 3.182446
    half = 3.182446 * (14 / 3) ** 0.5 / 2
    assert (found.value, found.low, found.high, found.n) == pytest.approx((3, 3 - half, 3 + half, 4), abs=1e-5)


def test_ten_values_are_enough_to_cover_the_truth_as_often_as_it_says() -> None:
    rng = random.Random(1)
    covered = 0
    for _ in range(1000):
        found = compute_student_interval([rng.gauss(0.5, 0.2) for _ in range(10)])
        covered += found.low <= 0.5 <= found.high
    assert 930 <= covered <= 970  # 950 expected, sd 6.9; a percentile bootstrap covers about 906


def test_a_single_value_has_no_interval() -> None:
    with pytest.raises(ValueError, match="at least two values"):
        compute_student_interval([0.3])


def test_pairs_take_out_what_they_share() -> None:
    before = [0.0, 0.2, 0.4, 0.6, 0.8]
    found = compute_paired_interval(before, [0.1, 0.3, 0.5, 0.7, 0.8])
    assert (found.value, found.low, found.high) == pytest.approx((0.08, 0.024472, 0.135528), abs=1e-6)
    assert compute_paired_interval([0, 0, 0], [1, 0, 1]).high == 1  # no difference is larger


@pytest.mark.parametrize(("seeds", "low", "high"), [(2, -0.765213, 0.787574), (5, -0.423256, 0.478184)])
def test_differences_that_are_equal_but_for_rounding_tell_no_more_than_so_few_pairs_can(
    seeds: int, low: float, high: float
) -> None:
    before = [0.1 * seed for seed in range(seeds)]
    found = compute_paired_interval(before, [score + 0.05 for score in before])
    assert (found.value, found.low, found.high) == pytest.approx((0.05, low, high), abs=1e-6)


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(0, 10, 0.0, 0.277533), (5, 10, 0.236593, 0.763407), (10, 10, 0.722467, 1.0), (15, 100, 0.093053, 0.232833)],
)
def test_wilson_by_hand(successes: int, n: int, low: float, high: float) -> None:
    found = compute_wilson_interval(successes, n)
    assert (found.value, found.n) == (successes / n, n)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-5)


def test_an_estimate_reads_well() -> None:
    assert str(compute_wilson_interval(5, 10)) == "0.50 [0.24, 0.76]"


@pytest.mark.parametrize("values", [[], [float("nan")], [1.0, float("inf")]])
def test_no_number_has_no_statistics(values: list[float]) -> None:
    for statistic in (compute_mean, compute_sd, compute_student_interval):
        with pytest.raises(ValueError, match="at least one finite number"):
            statistic(values)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="equal lengths, not 1 and 2"):
        compute_paired_interval([1], [1, 2])
    with pytest.raises(ValueError, match="no share: 3 of 2"):
        compute_wilson_interval(3, 2)


def test_scores_of_zero_and_one_are_a_share_and_others_are_bootstrapped_by_their_seed() -> None:
    assert compute_score_interval([1, 0, 1, 1]) == compute_wilson_interval(3, 4)
    values = [0.0, 0.25, 0.5, 0.5, 0.75, 1.0, 0.3, 0.9]
    found = compute_score_interval(values)
    assert found == compute_score_interval(values)
    assert found.value == pytest.approx(np.mean(values))
    assert 0 < found.low < found.value < found.high < 1
    assert compute_score_interval([0.5, 0.5]) == IntervalEstimate(value=0.5, low=0.5, high=0.5, n=2)
    assert compute_score_interval([0.4]).n == 1


def test_the_bootstrap_of_partial_scores_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    found = [compute_score_interval(rng.beta(2, 3, size=60).tolist()) for _ in range(300)]
    covered = sum(one.low <= 0.4 <= one.high for one in found)
    assert 273 <= covered <= 297  # 285 expected, sd 3.8


RUNS, TASKS = 2000, 400


def planted(gap: float, seed: int) -> Iterator[IntervalEstimate]:
    """Differences of two systems on the same tasks, one better by `gap` in each task's chance of success.

    Tasks differ in difficulty, and both meet the same ones: their scores are correlated, as in a comparison.
    """
    rng = np.random.default_rng(seed)
    for _ in range(RUNS):
        chance = rng.uniform(0.2, 0.8, size=TASKS)
        before, after = rng.random(TASKS) < chance, rng.random(TASKS) < chance + gap
        yield compute_paired_interval(before.astype(float).tolist(), after.astype(float).tolist())


def test_the_paired_test_finds_a_planted_difference_of_ten_points_and_covers_it() -> None:
    found = list(planted(0.1, seed=1))
    assert sum(one.low > 0 for one in found) > 0.8 * RUNS
    covered = sum(one.low <= 0.1 <= one.high for one in found) / RUNS
    assert 0.935 <= covered <= 0.965  # 0.95 expected, sd 0.005


def test_the_paired_test_does_not_find_a_difference_that_is_not_there() -> None:
    found = list(planted(0.0, seed=2))
    wrong = sum(one.low > 0 or one.high < 0 for one in found) / RUNS
    assert 0.035 <= wrong <= 0.065  # 0.05 expected, sd 0.005


def test_pairing_narrows_the_interval_where_tasks_differ() -> None:
    rng = np.random.default_rng(4)
    hard = rng.uniform(0.0, 1.0, size=TASKS)
    before, after = (np.clip(hard + shift + rng.normal(0, 0.05, TASKS), 0, 1).tolist() for shift in (0.0, 0.02))
    both = compute_paired_interval(before, after)
    alone = (compute_student_interval(before), compute_student_interval(after))
    assert both.high - both.low < 0.3 * sum(one.high - one.low for one in alone)
    assert both.low > 0
