"""Means with their uncertainty."""

import random

import pytest

from selfwire.evals.statistics import Estimate, bootstrap, mean, paired, sd, wilson

SCORES = [0.1, 0.4, 0.4, 0.7, 0.9, 1.0]


def test_mean_and_sd_by_hand() -> None:
    assert mean([1, 2, 3, 6]) == 3
    assert sd([1, 2, 3, 6]) == pytest.approx((14 / 3) ** 0.5)
    assert sd([5]) == 0


def test_a_bootstrap_is_the_same_for_the_same_seed() -> None:
    assert bootstrap(SCORES, seed=3) == bootstrap(SCORES, seed=3)
    assert bootstrap(SCORES, seed=3) != bootstrap(SCORES, seed=4)


def test_a_bootstrap_agrees_with_the_normal_interval_on_many_values() -> None:
    rng = random.Random(0)
    values = [rng.gauss(10, 2) for _ in range(400)]
    found = bootstrap(values)
    half = 1.96 * sd(values) / 20
    assert found.value == pytest.approx(mean(values))
    assert (found.low, found.high) == pytest.approx((found.value - half, found.value + half), abs=0.02)


def test_a_bootstrap_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = random.Random(1)
    covered = 0
    for seed in range(200):
        found = bootstrap([rng.random() for _ in range(40)], seed=seed)
        covered += found.low <= 0.5 <= found.high
    assert 178 <= covered <= 199  # 190 expected, sd 3.1


def test_a_single_value_has_no_width() -> None:
    assert bootstrap([0.3]) == Estimate(value=0.3, low=0.3, high=0.3, n=1)


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
    for statistic in (mean, sd, bootstrap):
        with pytest.raises(ValueError, match="at least one finite number"):
            statistic(values)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="equal lengths, not 1 and 2"):
        paired([1], [1, 2])
    with pytest.raises(ValueError, match="no share: 3 of 2"):
        wilson(3, 2)
    with pytest.raises(ValueError, match="confidence"):
        bootstrap([1], confidence=1)
