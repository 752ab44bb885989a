"""The learning test, small: it learns at all, and its table says what was compared."""

import numpy as np
import pytest

from selfwire.cli.train import format_learning_test
from selfwire.evals.benchmarks.errands import RIGHT, Errand, generate_errands
from selfwire.evolvers.router.config import HeadConfig
from selfwire.extras.lab.worlds.errand_runs import (
    ErrandEmbeddings,
    ErrandStage,
    embed_errands,
    make_lookup_chooser,
    make_sampled_lookup_chooser,
    run_errand,
)
from selfwire.extras.lab.worlds.errands import Curve, ErrandStudy, SeedResult, run_seed, summarise_results
from selfwire.models.embeddings import HashingEmbedder

NAMES = {"trained", "trained, preset paper", "untrained", "random", "best fixed workflow of all", "knows the truth"}


@pytest.mark.slow
def test_a_seed_compares_all_ways_and_repeats_itself() -> None:
    study = ErrandStudy(tasks=12, updates=2, batch=8, embedder="hashing")
    result = run_seed(study, 0)
    assert set(result.solved) >= NAMES
    assert len(result.solved) == 12
    assert result.solved["knows the truth"] == 1
    assert run_seed(study, 0) == result
    sparse = run_seed(study.replace(sparse=True, length=4), 0)
    assert "trained with process reward" in sparse.solved
    assert sparse.positive < 0.05


async def test_a_look_up_that_draws_tries_again_where_the_wording_misleads() -> None:
    known_to = generate_errands(60, length=1, seed=0)
    held = generate_errands(60, length=1, seed=0, held_out=True)
    found = await embed_errands((*known_to, *held), HashingEmbedder(), (HeadConfig(),))
    states = [task.rows(0, False) for task in known_to]
    agents = [int(RIGHT[task.situations[0]]) for task in known_to]
    ones = [1.0] * len(states)
    by_itself = make_sampled_lookup_chooser(found, states, agents, ones, nearest=1)
    assert run_errand(known_to, by_itself, np.random.default_rng(0))[0].all()  # it finds what it was told
    once = make_lookup_chooser(found, states, agents, ones, nearest=1)
    drawn = make_sampled_lookup_chooser(found, states, agents, ones, nearest=25)
    least, more = (run_errand(held, one, np.random.default_rng(0))[0].mean() for one in (once, drawn))
    assert least < more < 1


def test_a_look_up_on_rewards_prefers_what_was_rewarded() -> None:
    here = Errand(name="Ann", situations=(0,), texts=("here",), complaint="no")
    rows = here.rows(0, False)
    texts = dict.fromkeys((*rows, *here.rows(0, True)), np.ones(4, dtype=np.float32))
    found = ErrandEmbeddings(texts, np.eye(4, dtype=np.float32))
    values = [0.0, 1.0, 0.9, 0.2]
    choose = make_sampled_lookup_chooser(found, [rows] * 4, [0, 1, 1, 2], values, nearest=4, softness=0.03)
    stage = ErrandStage(0, [rows] * 50, np.zeros(50, dtype=np.int64))
    assert set(choose(stage, np.random.default_rng(0)).order[:, -1, 0].tolist()) == {1}


@pytest.mark.slow
def test_terminal_rewards_alone_teach_the_router_errands() -> None:
    curve = run_seed(ErrandStudy(tasks=6, updates=40, batch=32, embedder="hashing", sparse=True, length=1), 0).curve
    assert sum(curve.reward[-5:]) / 5 > sum(curve.reward[:5]) / 5 + 0.1


def test_the_table_pairs_over_seeds() -> None:
    curve = Curve(reward=(), entropy=(), gradient_norm=())
    results = [
        SeedResult(seed=seed, solved={"trained": 0.8 + seed / 10, "random": 0.2}, positive=0.2, curve=curve)
        for seed in (0, 1)
    ]
    rows = {name: (solved, gain) for name, solved, gain in summarise_results(results)}
    assert rows["trained"][0].value == pytest.approx(0.85)
    assert rows["trained"][1] is None
    gain = rows["random"][1]
    assert gain is not None
    assert gain.value == pytest.approx(0.65)
    assert "| random | 0.20 [0.20, 0.20] |" in format_learning_test(ErrandStudy(), results, "selfwire train")
