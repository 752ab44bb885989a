from math import exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfwire.evolvers.hiva.memory import (
    Belief,
    Observation,
    decay_belief,
    team_synergy,
    update_belief,
    update_synergy,
)


def update(belief: Belief, *seen: Observation, iterations: int = 1, decay: float = 0.6) -> Belief:
    return update_belief(belief, seen, decay=decay, match_weight=0.1, iterations=iterations)


def parts(belief: Belief) -> tuple[float, float]:
    return belief.alpha, belief.beta


def test_a_success_and_a_failure_move_the_prior_opposite_ways() -> None:
    assert parts(update(Belief(), Observation(reward=1, match=0.5))) == pytest.approx((2.05, 1.05))
    assert parts(update(Belief(), Observation(reward=0, match=0.2))) == pytest.approx((1.02, 2.08))


def test_an_unselected_agent_decays_for_two_iterations() -> None:
    after = update(update(Belief(alpha=2.05, beta=1.05)))
    assert parts(after) == pytest.approx((1 + 0.36 * 1.05, 1 + 0.36 * 0.05))
    assert parts(after) == pytest.approx((1.378, 1.018))


def test_d1_an_agent_long_unused_returns_to_the_prior() -> None:
    assert parts(decay_belief(Belief(alpha=9, beta=3), decay=0.6, iterations=60)) == pytest.approx((1, 1))


def test_d1_the_increments_of_a_batch_are_summed_in_one_update() -> None:
    seen = [Observation(reward=1, match=1), Observation(reward=1, match=0), Observation(reward=0, match=0.5)]
    # alpha: 1 + .6 * 2 + (1 + .1) + 1 + .05; beta: 1 + .6 * 1 + 0 + .1 + (1 + .05)
    assert parts(update(Belief(alpha=3, beta=2), *seen)) == pytest.approx((4.35, 2.75))


@pytest.mark.parametrize(("batch", "share"), [(1, 0.62), (10, 0.83)])
def test_d1_a_batch_per_iteration_finds_the_better_arm_more_often(batch: int, share: float) -> None:
    draws, solved = np.random.default_rng(0), np.array((0.7, 0.4))
    beliefs, chosen = [Belief(), Belief()], 0
    for _ in range(10_000 // batch):
        arms = np.array([draws.beta(*parts(belief), size=batch) for belief in beliefs]).argmax(0)
        rewards = draws.random(batch) < solved[arms]
        seen = [[Observation(reward=r, match=None) for r in rewards[arms == arm]] for arm in (0, 1)]
        beliefs = [update(belief, *runs) for belief, runs in zip(beliefs, seen, strict=True)]
        chosen += sum(arms == 0)
    assert chosen / 10_000 == pytest.approx(share, abs=0.02)


def test_d9_time_counts_iterations_and_not_updates() -> None:
    once = update(Belief(alpha=5, beta=4), iterations=3)
    assert parts(once) == pytest.approx(parts(update(update(update(Belief(alpha=5, beta=4))))))
    assert parts(once) == pytest.approx((1 + exp(log(0.6) * 3) * 4, 1 + exp(log(0.6) * 3) * 3))


def test_without_decay_the_posterior_of_the_better_arm_concentrates() -> None:
    draws = np.random.default_rng(7)
    arms = {"good": Belief(), "poor": Belief()}
    for _ in range(300):
        theta = {arm: draws.beta(*parts(belief)) for arm, belief in arms.items()}
        pulled = max(theta, key=lambda arm: theta[arm])
        reward = int(draws.random() < {"good": 0.7, "poor": 0.4}[pulled])
        seen = {pulled: [Observation(reward=reward, match=0.5)]}
        arms = {arm: update(b, *seen.get(arm, ()), decay=1.0) for arm, b in arms.items()}
    good, poor = (draws.beta(*parts(arms[arm]), size=4000) for arm in ("good", "poor"))
    assert (good > poor).mean() > 0.99
    assert arms["good"].mean == pytest.approx(0.7, abs=0.08)


@settings(deadline=None)
@given(
    st.floats(1, 50), st.floats(1, 50), st.floats(0.01, 1), st.integers(0, 9),
    st.lists(st.tuples(st.integers(0, 1), st.floats(0, 1)), max_size=20),
)  # fmt: skip
def test_a_belief_never_falls_below_the_prior(
    alpha: float, beta: float, decay: float, iterations: int, seen: list[tuple[int, float]]
) -> None:
    observed = [Observation(reward=r, match=m) for r, m in seen]
    after = update(Belief(alpha=alpha, beta=beta), *observed, decay=decay, iterations=iterations)
    assert min(parts(after)) >= 1 - 1e-12


def test_zeta_is_the_mean_over_ordered_pairs_and_one_for_a_single_agent() -> None:
    synergy = {("s", "i"): 1.6, ("i", "j"): 1.3}
    assert team_synergy(["s", "i", "j"], lambda a, b: synergy.get((a, b), 1.0)) == pytest.approx(1.15)
    assert team_synergy(["s"], lambda a, b: 9.0) == 1
    assert team_synergy(["s", "s"], lambda a, b: 9.0) == 1


def test_d21_without_a_match_only_the_reward_moves_a_belief() -> None:
    seen = [Observation(reward=1, match=None), Observation(reward=0, match=None)]
    assert update_belief(Belief(), seen, decay=1, match_weight=0.5) == Belief(alpha=2, beta=2)


def test_synergy_grows_with_the_edge_s_mean() -> None:
    assert update_synergy(1.0, Belief(alpha=3, beta=1), traffic=1, rate=0.1) == pytest.approx(1.075)
    assert update_synergy(1.2, Belief(alpha=1, beta=1), traffic=4, rate=0.05) == pytest.approx(1.3)


def test_d5_synergy_stays_within_one_and_two() -> None:
    assert update_synergy(1.99, Belief(alpha=9, beta=1), traffic=50, rate=1.0) == 2.0
    assert update_synergy(1.0, Belief(), traffic=0, rate=0.05) == 1.0
