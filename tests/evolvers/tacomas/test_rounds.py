"""Which round is the best, when a run ends, and its figures."""

from math import sqrt

import pytest

from selfwire.core.task import Feedback, Question
from selfwire.core.trajectory import Trajectory
from selfwire.evolvers.tacomas.rounds import (
    TacomasRound,
    changes,
    compute_expected_gain,
    compute_figures,
    count_agreement,
    find_best_round,
    find_stop_reason,
    is_slow,
)


def rounds(*scores: float | None) -> list[TacomasRound]:
    return [TacomasRound(number=n, goal="", answer=f"a{n}", score=score) for n, score in enumerate(scores)]


def test_d4_the_best_round_wins_and_ties_go_to_the_latest() -> None:
    assert find_best_round(rounds(0.5, 0.75, 0.75, 0.25)) == 2
    assert find_best_round(rounds(0.5, None)) == 0
    assert find_best_round(rounds(None, None)) == 1


def test_d5_a_confirmed_round_is_the_best() -> None:
    doubtful, sure = rounds(1.0, 0.8)
    assert find_best_round([doubtful, sure.replace(confirmed=True)]) == 1


def test_d9_a_round_without_an_answer_is_no_candidate() -> None:
    failed = TacomasRound(number=2, goal="", error="the sink failed")
    assert find_best_round([*rounds(0.0, 0.0), failed]) == 1
    assert find_best_round([failed.replace(number=0)]) is None


def test_slow_updates_follow_rounds_1_3_5_and_7() -> None:
    def followed(limit: int, interval: int) -> list[int]:
        return [
            t
            for t in range(limit)
            if find_stop_reason(rounds(*[0.1] * (t + 1)), limit=limit) is None
            and is_slow(rounds(*[0.1] * (t + 1)), interval=interval, threshold=0.8)
        ]

    assert followed(10, 2) == [1, 3, 5, 7]
    assert followed(10, 1) == list(range(9))
    assert followed(10, 3) == [2, 5, 8]


def test_d24_expected_is_the_mean_gain_so_far_with_what_is_missing_as_one_round_more() -> None:
    assert compute_expected_gain(rounds(0.4)) == pytest.approx(0.6)
    assert compute_expected_gain(rounds(0.4, 0.4, 0.2)) == pytest.approx(0.6 / 3)
    assert compute_expected_gain(rounds(0.4, 0.9)) == pytest.approx(0.1)  # no more than is missing
    assert compute_expected_gain(rounds(None, 0.5, None, None)) == pytest.approx(0.25)


def test_d24_a_run_ends_where_another_round_is_not_expected_to_pay() -> None:
    done = rounds(0.4, 0.4, 0.4)
    assert find_stop_reason(done, limit=9, price=0.19) is None
    assert find_stop_reason(done, limit=9, price=0.21) == "price"
    assert find_stop_reason(done, limit=3, price=0.21) == "rounds"
    assert find_stop_reason([*rounds(0.4, 1.0), done[0]], limit=9) is None  # without a price nothing is too dear


def test_another_slow_update_follows_the_next_round_where_it_was_asked_for() -> None:
    first, second, third = rounds(0.1, 0.1, 0.1)
    assert is_slow([first, second.replace(control="slow_again"), third], interval=2, threshold=0.8)
    assert not is_slow([first, second, third], interval=2, threshold=0.8)


def test_no_slow_update_follows_a_score_that_reaches_the_threshold() -> None:
    first, good = rounds(0.1, 0.8)
    assert not is_slow([first, good], interval=2, threshold=0.8)
    assert not is_slow([first.replace(control="slow_again"), good], interval=1, threshold=0.8)
    assert is_slow([first, good.replace(score=None)], interval=2, threshold=0.8)


def test_stop_reasons() -> None:
    first, second = rounds(0.1, 0.9)
    assert find_stop_reason([first], limit=2) is None
    assert find_stop_reason([first, second], limit=2) == "rounds"
    assert find_stop_reason([first, second.replace(confirmed=True)], limit=2) == "threshold"
    assert find_stop_reason([first, second.replace(control="stop")], limit=3) == "stop"


def test_mean_changes_by_hand() -> None:
    mean, error = changes([0.2, 0.4, 0.3, 0.6])
    assert mean == pytest.approx(0.4 / 3)
    deviations = [0.2 - 0.4 / 3, -0.1 - 0.4 / 3, 0.3 - 0.4 / 3]
    assert error == pytest.approx(sqrt(sum(d * d for d in deviations) / 2 / 3))
    assert changes([0.2, None, 0.4]) == (None, None)
    mean, error = changes([0.2, 0.3])
    assert mean == pytest.approx(0.1)
    assert error is None


def test_figures_of_a_run() -> None:
    first, second = rounds(0.25, 0.75)
    run = [first.replace(mean=0.4, nodes=5, edges=5, slow=True), second.replace(mean=0.6, nodes=6, edges=7)]
    found = compute_figures(run, stop="rounds", calls=31)
    assert (found.best, found.best_score, found.first_score, found.slow_updates) == (1, 0.75, 0.25, 1)
    assert (found.nodes, found.edges, found.calls, found.oracle) == ((5, 6), (5, 7), 31, False)
    assert found.mean_change == pytest.approx(0.2)
    assert found.judged is False
    assert found.measures == pytest.approx({
        "change of contributions per round": 0.2,
        "slow updates": 1,
        "agents more than at first": 1,
        "edges more than at first": 2,
    })  # fmt: skip
    assert "change of contributions per round" not in compute_figures([first], stop="rounds", calls=9).measures
    assert compute_figures([first, second.replace(confirmed=True)], stop="threshold", calls=9).judged is True
    assert compute_figures([first.replace(score=None)], stop="rounds", calls=9).judged is None


def graded(judged: bool | None, solved: bool) -> Trajectory:
    done = Trajectory(question=Question(id="q", input="Who?"), workflow="w", answer="x")
    return done.replace(
        notes={"figures": {"judged": judged}}, feedback=Feedback(score=float(solved), solved=solved, text="")
    )


def test_the_judges_agreement_with_the_truth_is_counted_where_both_have_spoken() -> None:
    silent = Trajectory(question=Question(id="q", input="Who?"), workflow="w", error="down")
    found = [graded(True, True), graded(True, False), graded(False, True), graded(False, False), graded(None, True)]
    assert count_agreement([*found, graded(True, True), silent]) == {
        "judged": 5, "agreed": 3, "passed_wrong": 1, "failed_right": 1,
    }  # fmt: skip
