"""The learning test, small: it learns at all, and its table says what was compared."""

import pytest

from selfwire.evals.cli.train import learned
from selfwire.evals.study.errands import Curve, ErrandStudy, SeedResult, one_seed, summary

NAMES = {"trained", "trained, preset paper", "untrained", "random", "best fixed workflow of all", "knows the truth"}


@pytest.mark.slow
def test_a_seed_compares_all_ways_and_repeats_itself() -> None:
    study = ErrandStudy(tasks=12, updates=2, batch=8, embedder="hashing")
    result = one_seed(study, 0)
    assert set(result.solved) >= NAMES
    assert result.solved["knows the truth"] == 1
    assert one_seed(study, 0) == result
    sparse = one_seed(study.replace(sparse=True, length=4), 0)
    assert "trained with process reward" in sparse.solved
    assert sparse.positive < 0.05


@pytest.mark.slow
def test_terminal_rewards_alone_teach_the_router_errands() -> None:
    curve = one_seed(ErrandStudy(tasks=6, updates=40, batch=32, embedder="hashing", sparse=True, length=1), 0).curve
    assert sum(curve.reward[-5:]) / 5 > sum(curve.reward[:5]) / 5 + 0.1


def test_the_table_pairs_over_seeds() -> None:
    curve = Curve(reward=(), entropy=(), gradient_norm=())
    results = [
        SeedResult(seed=seed, solved={"trained": 0.8 + seed / 10, "random": 0.2}, positive=0.2, curve=curve)
        for seed in (0, 1)
    ]
    rows = {name: (solved, gain) for name, solved, gain in summary(results)}
    assert rows["trained"][0].value == pytest.approx(0.85)
    assert rows["trained"][1] is None
    gain = rows["random"][1]
    assert gain is not None
    assert gain.value == pytest.approx(0.65)
    assert "| random | 0.20 [0.20, 0.20] |" in learned(ErrandStudy(), results, "selfwire train")
