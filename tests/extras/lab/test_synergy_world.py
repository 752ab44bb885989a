"""The world in which pairs make the difference: its bounds, and that the bandit's own synergy is what is switched."""

import numpy as np

from selfwire.evolvers.hiva.memory import HivaMemory
from selfwire.extras.lab.worlds.catalogue import load_world
from selfwire.extras.lab.worlds.hiva.branching import LAYERS, make_world
from selfwire.extras.lab.worlds.hiva.kabb import ORACLE, UNIFORM
from selfwire.extras.lab.worlds.hiva.synergy import (
    BLIND,
    KABB,
    MAIN,
    PARAMETERS,
    WORLD,
    ToldChooser,
    compute_blind,
    run_seed,
)
from selfwire.models.embeddings import HashingEmbedder


def test_knowing_the_agents_alone_leaves_much_to_gain() -> None:
    shares = []
    for seed in range(5):
        world = make_world(PARAMETERS, seed)
        values = world.values.reshape(len(world.values), -1)[world.kinds]
        chance, best = values.mean(), values.max(axis=1).mean()
        blind = compute_blind(world, PARAMETERS).mean()
        assert blind <= best
        shares.append((blind - chance) / (best - chance))
    assert np.mean(shares) < 0.8


def test_who_is_told_the_pairs_has_them_in_memory_after_each_batch() -> None:
    world = make_world(PARAMETERS, 1)
    chooser = ToldChooser(world.workflow, KABB[MAIN], HashingEmbedder(), synergy=world.synergy)
    chooser.learn([], [])
    memory = HivaMemory.of(chooser.workflow)
    found = [[memory.edge(one, two).synergy for two in LAYERS[1]] for one in LAYERS[0]]
    assert np.array_equal(np.array(found) == 2, world.synergy > 0)
    assert {c for row in found for c in row} == {1, 2}


async def test_every_system_plays_the_same_tasks_within_the_bounds() -> None:
    small = PARAMETERS.replace(known=20)
    result = await run_seed(small, 0)
    assert await run_seed(small, 0) == result
    assert {*result.figures} == {*KABB, BLIND, UNIFORM, ORACLE, "best fixed choice"}
    assert all(one["score"] <= result.figures[ORACLE]["score"] for one in result.figures.values())
    assert {result.figures[name]["free"] for name in KABB} == {3 * 20}
    assert load_world("hiva", "synergy") is WORLD
    assert {claim.control for claim in WORLD.claims} < {*result.figures}
