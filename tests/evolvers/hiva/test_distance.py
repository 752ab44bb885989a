from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfwire.evolvers.hiva.knowledge import (
    UNIFORM,
    ScoreSample,
    WeightSample,
    dependency_mismatch,
    distance,
    fit_score_weights,
    fit_weights,
    history_mismatch,
    knowledge_match,
    mismatch,
    semantic_mismatch,
    tool_mismatch,
)


@pytest.mark.parametrize(
    ("depth", "indicators", "expected"),
    [
        (2, (0.2, 0.5, 0.4, 0.0), 0.302118),
        (2, (0.8, 1.0, 0.5, 1.0), 0.906355),
        (0, (0.8, 1.0, 0.5, 1.0), 0.0),
        (1, (1.0, 1.0, 1.0, 1.0), log(2)),
    ],
)
def test_distance_by_hand(depth: int, indicators: tuple[float, float, float, float], expected: float) -> None:
    assert distance(depth, indicators, UNIFORM) == pytest.approx(expected, abs=1e-6)


def test_the_weighted_mismatch_follows_the_weights() -> None:
    assert mismatch((0.2, 0.5, 0.4, 1.0), (0.1, 0.2, 0.3, 0.4)) == pytest.approx(0.64)


@pytest.mark.parametrize(
    ("agent", "task", "cosine", "expected"),
    [
        ({"a", "b"}, {"b", "c"}, 0.5, (2 / 3 + 0.5) / 2),
        ({"a"}, {"a"}, 1.0, 0.0),
        (set(), {"a"}, -0.4, 1.0),  # 1 - cos is clipped to 1
        (set(), set(), 0.0, 1.0),
    ],
)
def test_semantic_mismatch(agent: set[str], task: set[str], cosine: float, expected: float) -> None:
    assert semantic_mismatch(agent, task, cosine) == pytest.approx(expected)


def test_dependencies_count_a_sixth_per_step_history_is_smoothed_and_tools_count_by_the_missing_share() -> None:
    assert [dependency_mismatch(path) for path in (1, 3, 6, 40, None)] == pytest.approx([1 / 6, 0.5, 1, 1, 1])
    assert [history_mismatch(s, n) for s, n in ((0, 0), (3, 4), (0, 8))] == pytest.approx([0.5, 1 / 3, 0.9])
    assert tool_mismatch(["search"], ["search", "calculator"]) == 0.5
    assert tool_mismatch([], []) == 0
    assert tool_mismatch([], ["search"]) == 1


@settings(deadline=None)
@given(st.frozensets(st.sampled_from("abcdef")), st.frozensets(st.sampled_from("abcdef")))
def test_d4_the_knowledge_match_stays_within_zero_and_one(agent: frozenset[str], task: frozenset[str]) -> None:
    assert 0 <= knowledge_match(agent, task) <= 1


def test_d4_the_knowledge_match_is_the_share_of_the_task_s_concepts() -> None:
    assert knowledge_match({"a", "b", "x", "y"}, {"a", "b", "c", "d"}) == 0.5
    assert knowledge_match({"a"}, set()) == 0


def held_out(n: int, telling: int) -> list[WeightSample]:
    drawn = np.random.default_rng(3).random((n, 4))
    return [WeightSample(terms=tuple(map(float, row)), solved=bool(row[telling] < 0.5)) for row in drawn]


@pytest.mark.parametrize("telling", range(4))
def test_the_fit_finds_the_indicator_that_tells(telling: int) -> None:
    fit = fit_weights(held_out(60, telling))
    assert fit is not None
    assert fit.weights[telling] == max(fit.weights) > 0.4  # half way from 0.25
    assert sum(fit.weights) == pytest.approx(1, abs=1e-6)
    assert min(fit.weights) >= 0
    assert fit.correlation > 0.7


def test_d20_weights_move_half_way_and_go_on_with_more_evidence() -> None:
    first = fit_weights(held_out(60, 2))
    assert first is not None
    second = fit_weights(held_out(60, 2), first.weights)
    assert second is not None
    assert UNIFORM[2] < first.weights[2] < second.weights[2]
    assert first.weights[2] <= (UNIFORM[2] + 1) / 2


def test_d20_pure_noise_rarely_moves_the_weights() -> None:
    draws = np.random.default_rng(0)
    moved = 0
    for _ in range(60):
        noise = [(*(float(x) for x in draws.uniform(0.3, 0.9, 3)), 0.0) for _ in range(30)]
        evidence = [WeightSample(terms=terms, solved=bool(draws.random() < 0.4)) for terms in noise]
        moved += fit_weights(evidence) is not None
    assert moved <= 6


def test_d20_an_indicator_that_is_always_the_same_keeps_its_share() -> None:
    constant = [e.replace(terms=(*e.terms[:3], 0.3)) for e in held_out(60, 0)]
    fit = fit_weights(constant, (0.2, 0.2, 0.2, 0.4))
    assert fit is not None
    assert fit.weights[3] == pytest.approx(0.4, abs=1e-6)
    assert fit.weights[0] > 0.35
    assert fit_weights([e.replace(terms=(0.1, 0.2, 0.3, 0.4)) for e in constant]) is None


def test_d20_indicators_that_mislead_do_not_hand_their_weight_to_a_constant_one() -> None:
    misleading = [e.replace(terms=(e.terms[0],) * 3 + (0.0,), solved=not e.solved) for e in held_out(60, 0)]
    assert fit_weights(misleading) is None


def test_the_fit_is_at_least_as_good_as_the_weights_before() -> None:
    evidence = held_out(40, 1)
    fit = fit_weights(evidence, (0.1, 0.7, 0.1, 0.1))
    again = fit_weights(evidence, fit.weights if fit else UNIFORM)
    assert fit is not None
    assert again is None or again.correlation >= fit.correlation


def test_d28_tasks_are_compared_with_those_of_their_own_batch_whatever_team_ran_the_others() -> None:
    """The second team is better, and its agents look farther from all tasks by the indicator that tells."""
    draws = np.random.default_rng(0)

    def batch(number: int, least: float, solved_below: float) -> list[WeightSample]:
        rows = [(least + float(draws.uniform(0, 0.4)), *map(float, draws.random(3))) for _ in range(30)]
        return [WeightSample(terms=row, solved=row[0] < solved_below, batch=number) for row in rows]

    weak, strong = batch(0, 0.0, 0.1), batch(1, 0.5, 0.8)
    fit = fit_weights([*weak, *strong])
    assert fit is not None
    assert fit.weights[0] == max(fit.weights) > 0.4
    assert fit_weights([*weak[:10], *(e.replace(solved=True) for e in strong)]) is None  # of mixed outcome are ten


def test_d14_the_weights_stay_without_twenty_tasks_of_mixed_outcome() -> None:
    assert fit_weights(held_out(19, 0)) is None
    assert fit_weights([e.replace(solved=True) for e in held_out(30, 0)]) is None
    assert fit_weights(held_out(20, 0)) is not None


def graded(*runs: tuple[float, bool], synergy: float = 0.0, batch: int = 0) -> list[ScoreSample]:
    """Runs whose agents were nearer by so much than those of a choice by chance."""
    return [ScoreSample(nearer=(near,) * 4, synergy=synergy, solved=solved, batch=batch) for near, solved in runs]


def test_d33_the_planted_lambda_is_found() -> None:
    random = np.random.default_rng(0)
    near = random.uniform(-0.4, 0.4, 1000)
    solved = random.random(1000) < 1 / (1 + np.exp(-(12 * near - 1)))
    runs = graded(*zip(near.tolist(), solved.tolist(), strict=True))
    assert fit_score_weights(runs, UNIFORM, (1.0, 0.5))[0] == pytest.approx(12, abs=2)


def test_d33_the_planted_eta_is_found() -> None:
    random = np.random.default_rng(1)
    synergy = random.uniform(0, 0.7, 2000)
    solved = random.random(2000) < 1 / (1 + np.exp(-(3 * synergy - 1)))
    runs = [
        ScoreSample(nearer=(0.0,) * 4, synergy=float(log_zeta), solved=bool(right))
        for log_zeta, right in zip(synergy, solved, strict=True)
    ]
    found = fit_score_weights(runs, UNIFORM, (10.0, 0.5))
    assert found[0] == pytest.approx(10)
    assert found[1] == pytest.approx(3, abs=0.5)


@pytest.mark.parametrize("start", [(10.0, 0.5), (1.0, 2.0)])
def test_d33_runs_that_say_nothing_leave_the_weights_where_they_began(start: tuple[float, float]) -> None:
    assert fit_score_weights(graded((0.0, True), (0.0, False)), UNIFORM, start) == pytest.approx(start)


def test_d33_near_agents_that_always_fail_lower_lambda_though_no_run_is_solved() -> None:
    weights = [fit_score_weights(graded(*[(0.3, False)] * runs), UNIFORM, (10.0, 0.5))[0] for runs in (1, 3, 40)]
    assert 10 > weights[0] > weights[1] > weights[2]
    assert weights[2] < 3
    assert fit_score_weights(graded(*[(0.3, True)] * 40), UNIFORM, (10.0, 0.5))[0] > 10


def test_d33_a_batch_s_level_is_no_evidence() -> None:
    easy, hard = (
        graded((0.2, True), (0.2, True), (0.1, True)),
        graded((0.1, False), (0.0, False), (0.1, False), batch=1),
    )
    apart = fit_score_weights([*easy, *hard], UNIFORM, (1.0, 0.5))[0]
    together = fit_score_weights([sample.replace(batch=0) for sample in (*easy, *hard)], UNIFORM, (1.0, 0.5))[0]
    assert apart < together


def test_d33_weights_stay_within_bounds_and_a_weight_of_zero_stays_off() -> None:
    clear = graded(*[(1.0, True), (-1.0, False)] * 100, synergy=0.5)
    found = fit_score_weights(clear, UNIFORM, (29.0, 0.0))
    assert found[0] == pytest.approx(30, abs=1)
    assert found[1] == 0
    misled = graded(*[(1.0, False), (-1.0, True)] * 100)
    assert fit_score_weights(misled, UNIFORM, (10.0, 0.5))[0] == 0
    assert fit_score_weights(clear, UNIFORM, (0.0, 0.5))[0] == 0
