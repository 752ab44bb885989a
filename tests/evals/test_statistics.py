"""Means with their uncertainty."""

import random

import pytest

from selfwire.evals.statistics import mean, paired, sd, student, wilson


def test_mean_and_sd_by_hand() -> None:
    assert mean([1, 2, 3, 6]) == 3
    assert sd([1, 2, 3, 6]) == pytest.approx((14 / 3) ** 0.5)
    assert sd([5]) == 0


def test_students_interval_by_hand() -> None:
    found = student([1, 2, 3, 6])  # t at 0.975 and 3 degrees of freedom is 3.182446
    half = 3.182446 * (14 / 3) ** 0.5 / 2
    assert (found.value, found.low, found.high, found.n) == pytest.approx((3, 3 - half, 3 + half, 4), abs=1e-5)


def test_ten_values_are_enough_to_cover_the_truth_as_often_as_it_says() -> None:
    rng = random.Random(1)
    covered = 0
    for _ in range(1000):
        found = student([rng.gauss(0.5, 0.2) for _ in range(10)])
        covered += found.low <= 0.5 <= found.high
    assert 930 <= covered <= 970  # 950 expected, sd 6.9; a percentile bootstrap covers about 906


def test_a_single_value_has_no_interval() -> None:
    with pytest.raises(ValueError, match="at least two values"):
        student([0.3])


def test_pairs_take_out_what_they_share() -> None:
    before = [0.0, 0.2, 0.4, 0.6, 0.8]
    found = paired(before, [score + 0.1 for score in before])
    assert (found.value, found.low, found.high) == pytest.approx((0.1, 0.1, 0.1))


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(0, 10, 0.0, 0.277533), (5, 10, 0.236593, 0.763407), (10, 10, 0.722467, 1.0), (15, 100, 0.093053, 0.232833)],
)
def test_wilson_by_hand(successes: int, n: int, low: float, high: float) -> None:
    found = wilson(successes, n)
    assert (found.value, found.n) == (successes / n, n)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-5)


def test_an_estimate_reads_well() -> None:
    assert str(wilson(5, 10)) == "0.50 [0.24, 0.76]"


@pytest.mark.parametrize("values", [[], [float("nan")], [1.0, float("inf")]])
def test_no_number_has_no_statistics(values: list[float]) -> None:
    for statistic in (mean, sd, student):
        with pytest.raises(ValueError, match="at least one finite number"):
            statistic(values)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="equal lengths, not 1 and 2"):
        paired([1], [1, 2])
    with pytest.raises(ValueError, match="no share: 3 of 2"):
        wilson(3, 2)
    with pytest.raises(ValueError, match="confidence"):
        student([1, 2], confidence=1)
