import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfwire.evolvers.gate import GateDecision, decide

Scores = list[float | None]


def ruled(old: Scores, new: Scores, dearer: float = 0.0, used: int = 0, margin: float = 0.0) -> GateDecision:
    return decide(old, new, [2.0] * len(old), [2.0 + dearer] * len(new), used, margin=margin)


def test_a_better_candidate_is_accepted_whatever_it_costs_and_a_worse_one_is_not() -> None:
    better = ruled([0, 1, 0], [1, 1, 0], dearer=9, used=3)
    assert (better.accepted, better.patience_used) == (True, 0)
    assert better.difference == pytest.approx(1 / 3)
    worse = ruled([1, 1, 0], [1, 0, 0], dearer=-1, used=2)
    assert (worse.accepted, worse.try_pruning, worse.patience_used) == (False, False, 2)
    assert "below the margin" in worse.why


def test_a_dearer_tie_is_accepted_three_times_in_a_row_and_then_pruning_is_tried() -> None:
    for used in range(3):
        verdict = ruled([1, 0], [0, 1], dearer=0.5, used=used)
        assert (verdict.accepted, verdict.patience_used) == (True, used + 1)
    verdict = ruled([1, 0], [0, 1], dearer=0.5, used=3)
    assert (verdict.accepted, verdict.try_pruning) == (False, True)
    assert ruled([1, 0], [0, 1], dearer=0.0, used=3).patience_used == 0


def test_a_margin_must_be_reached() -> None:
    assert not ruled([0.5] * 4, [0.55] * 4, margin=0.1).accepted
    assert ruled([0.5] * 4, [0.6] * 4, margin=0.1).accepted
    tie = ruled([1.0], [1.0], margin=0.1)
    assert (tie.accepted, tie.try_pruning) == (False, False)


def test_errors_are_left_out_pairwise() -> None:
    verdict = decide([0, None, 1, 0], [1, 1, None, 0], [1, 1, 1, 1], [1, 99, 99, 1], 0)
    assert (verdict.accepted, verdict.compared, verdict.left_out, verdict.difference) == (True, 2, 2, 0.5)
    assert "+0.00 calls" in verdict.why


def test_nothing_is_accepted_where_nothing_can_be_compared() -> None:
    verdict = ruled([None, 1], [0, None], used=1)
    assert (verdict.accepted, verdict.difference, verdict.patience_used) == (False, None, 1)
    assert not ruled([], []).accepted


def test_misuse_is_refused() -> None:
    with pytest.raises(ValueError, match="same tasks"):
        decide([1], [1, 0], [1], [1, 1], 0)
    with pytest.raises(ValueError, match="margin"):
        ruled([1], [1], margin=-0.1)


scores = st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0, None]), st.sampled_from([0.0, 0.5, 1.0, None])), max_size=9)


@settings(deadline=None)
@given(scores, st.floats(-5, 5), st.integers(0, 5))
def test_patience_never_runs_over(pairs: list[tuple[float | None, float | None]], dearer: float, used: int) -> None:
    verdict = ruled([old for old, _ in pairs], [new for _, new in pairs], dearer=dearer, used=used)
    assert verdict.patience_used <= max(used, 3)
    if verdict.accepted:
        assert verdict.difference is not None
        assert verdict.difference >= -1e-9
