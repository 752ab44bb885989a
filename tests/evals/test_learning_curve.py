"""The learning curve: score and tokens per query over time, by hand."""

import pytest

from selfwire.evals.learning_curve import build_curve_table, compute_learning_curve
from tests.evolvers.hera.doubles import ran

RUN = [
    ran("a", 0.0, 100), ran("a", 1.0, 300, sample=1),
    ran("b", None, 900, error="the provider is down"),
    ran("a", 1.0, 100),
]  # fmt: skip


def test_a_point_per_query_by_hand() -> None:
    first, second, third = compute_learning_curve(RUN, 2)
    assert (first.query, first.question, first.trajectories, first.score, first.tokens) == (1, "a", 2, 0.5, 200)
    assert (second.score, second.tokens, second.window_score, second.window_tokens) == (None, None, 0.5, 200)
    assert (third.question, third.window_score, third.window_tokens) == ("a", 1.0, 100)
    assert compute_learning_curve(RUN, 3)[-1].window_score == pytest.approx(0.75)


def test_a_curve_without_queries_is_empty_and_a_window_has_at_least_one() -> None:
    assert compute_learning_curve([], 20) == ()
    with pytest.raises(ValueError, match="at least 1 query, not 0"):
        compute_learning_curve(RUN, 0)


def test_the_table_has_a_row_per_query() -> None:
    table = build_curve_table(compute_learning_curve(RUN, 2), 2)
    assert table.head[:3] == ("query", "score", "tokens")
    assert table.rows == (
        ("1", "0.500", "200", "0.500", "200", "a"),
        ("2", "-", "-", "0.500", "200", "b"),
        ("3", "1.000", "100", "1.000", "100", "a"),
    )
    assert "last 2 queries" in table.notes[0]
