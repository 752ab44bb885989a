"""The sampling rule against brute-force enumeration and hand-worked numbers."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import exp, log
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfwire.evolvers.router.choosers import TOLERANCE, draw, log_probability

HAND = [log(0.5), log(0.3), log(0.2)]
"""p = (.5, .3, .2)."""


def softmax(logits: Sequence[float]) -> list[float]:
    top = max(logits)
    raised = [exp(one - top) for one in logits]
    return [one / sum(raised) for one in raised]


def sequences(p: Sequence[float], mass: float, width: int | None = None) -> Iterator[tuple[int, ...]]:
    """Every order that the rule can draw, by walking the tree."""

    def walk(drawn: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        full = sum(p[i] for i in drawn) >= mass - TOLERANCE or len(drawn) == min(len(p), width or len(p))
        if drawn and full:
            yield drawn
            return
        for index in range(len(p)):
            if index not in drawn:
                yield from walk((*drawn, index))

    yield from walk(())


def test_the_hand_worked_sequences() -> None:
    found = {order: exp(log_probability(HAND, order)) for order in sequences((0.5, 0.3, 0.2), 0.6)}
    assert found == pytest.approx(
        {(0, 1): 0.3, (0, 2): 0.2, (1, 0): 0.3 * 5 / 7, (1, 2, 0): 0.6 / 7, (2, 0): 0.125, (2, 1, 0): 0.075}
    )
    inclusion = [sum(p for order, p in found.items() if agent in order) for agent in range(3)]
    assert inclusion == pytest.approx([1.0, 0.675, 0.485714], abs=1e-6)


@pytest.mark.parametrize(
    ("logits", "order", "expected"),
    [
        (HAND, (2, 0), -2.079442),
        ((20.0, 4.0, 2.0), (0, 1), -0.126928),
        ((20.0, 0.0, -10.0), (0, 1), -4.54e-5),
    ],
)
def test_the_hand_worked_log_probabilities(logits: Sequence[float], order: tuple[int, ...], expected: float) -> None:
    assert log_probability(logits, order) == pytest.approx(expected, rel=1e-3, abs=5e-7)


def test_the_hand_worked_softmax() -> None:
    drawn = draw([[8.0, 5.0, 1.0]], mass=0.5, random=np.random.default_rng(0))
    assert drawn.probabilities[0] == pytest.approx([0.951747, 0.047385, 0.000868], abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    logits=st.lists(st.floats(-30, 30), min_size=1, max_size=5),
    mass=st.sampled_from([1e-6, 0.1, 0.5, 0.9, 0.999999, 1.0]),
    width=st.sampled_from([None, 1, 2, 3]),
)
def test_the_probabilities_of_all_orders_sum_to_one(logits: list[float], mass: float, width: int | None) -> None:
    p = softmax(logits)
    assert sum(exp(log_probability(logits, order)) for order in sequences(p, mass, width)) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("mass", [0.05, 0.6, 1.0])
@pytest.mark.parametrize("logits", [(0.0, 0.0, 0.0, 0.0), (6.0, 1.0, 0.5, -4.0), tuple(HAND)])
def test_draws_come_as_often_as_enumeration_says(logits: tuple[float, ...], mass: float) -> None:
    times = 20_000
    drawn = draw(np.tile(logits, (times, 1)), mass=mass, random=np.random.default_rng(5))
    seen = Counter(tuple(int(i) for i in row if i >= 0) for row in drawn.order)
    expected = {order: exp(log_probability(logits, order)) for order in sequences(softmax(logits), mass)}
    assert set(seen) <= set(expected)
    for order, p in expected.items():
        assert seen[order] / times == pytest.approx(p, abs=5 * (p * (1 - p) / times) ** 0.5 + 1e-4)


def test_a_batch_reports_the_log_probability_of_what_it_drew() -> None:
    logits = np.random.default_rng(2).normal(size=(50, 5)) * 4
    drawn = draw(logits, mass=0.8, random=np.random.default_rng(3))
    for row, order, reported in zip(logits, drawn.order, drawn.log_probability, strict=True):
        assert reported == pytest.approx(log_probability(row, [i for i in order if i >= 0]), abs=1e-12)


def test_d3_log_probabilities_of_a_peaked_p_do_not_cancel() -> None:
    second = log_probability((60.0, 0.0, -5.0), (0, 1))
    assert second == pytest.approx(-log(1 + exp(-5)), abs=1e-12)  # 1 - p would be 0 here


def test_d4_width_caps_a_layer() -> None:
    uniform = np.zeros((20, 100))
    assert draw(uniform, mass=0.5, random=np.random.default_rng(0)).order.shape[1] == 50
    assert draw(uniform, mass=0.5, random=np.random.default_rng(0), width=3).order.shape[1] == 3


def test_d5_a_sum_that_misses_rho_by_rounding_stops() -> None:
    drawn = draw(np.zeros((5, 10)), mass=0.8, random=np.random.default_rng(0))
    assert np.cumsum(drawn.probabilities[0])[7] < 0.8  # so that a plain comparison would draw a ninth
    assert drawn.order.shape == (5, 8)


def test_d6_masked_agents_are_renormalised_away() -> None:
    free = np.array([False, True, True])
    drawn = draw(np.tile(HAND, (200, 1)), mass=0.6, random=np.random.default_rng(0), free=free)
    assert drawn.probabilities[0] == pytest.approx([0, 0.6, 0.4])
    assert {tuple(row) for row in drawn.order} == {(1, -1), (2, 1)}
    assert {round(float(one), 6) for one in drawn.log_probability} == {round(log(0.6), 6), round(log(0.4), 6)}


def test_equal_generators_draw_alike_and_global_randomness_plays_no_part() -> None:
    logits = np.zeros((5, 6))
    one, two = (draw(logits, mass=0.5, random=np.random.default_rng(9)).order for _ in range(2))
    assert (one == two).all()


@pytest.mark.parametrize(
    ("logits", "options", "told"),
    [
        *(([[0.0]], {"mass": mass}, "rho") for mass in (0.0, -0.1, 1.0001, float("nan"))),
        ([[]], {}, "at least one"),
        ([[float("nan"), 0.0]], {}, "not finite"),
        ([[0.0, float("inf")]], {}, "not finite"),
        ([[0.0, 0.0]], {"free": np.array([False, False])}, "all agents are masked"),
        ([[0.0]], {"width": 0}, "width"),
    ],
)
def test_what_cannot_be_drawn_from_is_refused(logits: list[list[float]], options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        draw(logits, random=np.random.default_rng(0), **{"mass": 0.5, **options})


@pytest.mark.parametrize("order", [(), (1, 1), (0, -1), (2,)])
def test_an_order_is_neither_empty_nor_repeats_and_padding_is_no_agent(order: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="an order"):
        log_probability([0.0, 0.0], order)
