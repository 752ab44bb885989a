"""The world of EvoMAS's router, small: what its figures mean, and that the router's own code runs in it."""

import asyncio

import numpy as np
import pytest

from selfwire.evolvers.router.config import HeadConfig
from selfwire.extras.lab.worlds.evomas import heads, relays, taught
from selfwire.extras.lab.worlds.evomas.relay_tasks import (
    IDS,
    KINDS,
    MASTERS,
    RelayTask,
    compute_stage_chances,
    draw_pairs,
    generate_relays,
    list_layers,
    settle_relays,
)
from selfwire.extras.lab.worlds.evomas.relays import (
    ORACLE,
    RANDOM,
    SYSTEMS,
    LayerLookup,
    RelayStudy,
    RelayWorld,
    RouterSystem,
    choose_by_chance,
    make_oracle,
    make_world,
    measure,
    run_relays,
    run_routers,
    run_seed,
    run_system,
    show,
)
from selfwire.extras.lab.worlds.gains import format_gains
from selfwire.models.embeddings import HashingEmbedder

SMALL = RelayStudy(tasks=6, updates=1, batch=4)


@pytest.fixture(scope="module")
def world() -> RelayWorld:
    return asyncio.run(make_world(SMALL, 0, HashingEmbedder(32)))


def test_an_opener_needs_situation_and_day_and_a_closer_the_opener_alone() -> None:
    for seed in range(5):
        openers, closers = draw_pairs(seed, "others").T
        assert len({(a, b) for a, b in zip(openers.tolist(), closers.tolist(), strict=True)}) == len(
            set(openers.tolist())
        )
        assert (openers != closers).all()
        assert set(openers[:KINDS].tolist()) == set(range(MASTERS))
        assert not set(openers[:KINDS].tolist()) & set(openers[KINDS:].tolist())
        swapped = draw_pairs(seed, "each other")[:, 0]
        assert np.array_equal(swapped[:KINDS], openers[:KINDS])
        assert set(swapped[KINDS:].tolist()) == set(range(MASTERS))
        assert (swapped[:KINDS] != swapped[KINDS:]).all()


def test_exact_chances_are_how_often_stages_settle() -> None:
    pairs, random = draw_pairs(0, "others"), np.random.default_rng(0)
    sets = list_layers()
    first, second = 4, 9  # two sets of two
    assert {len(sets[first]), len(sets[second])} == {2}
    exact = compute_stage_chances(pairs)[first][second]
    order = np.array([[sets[first], sets[second]]] * 4000)
    for situation in range(2 * KINDS):
        found = settle_relays(pairs, np.full(4000, situation), order, random).mean()
        assert found == pytest.approx(exact[situation], abs=0.04)


def test_the_router_reads_the_state_as_evomas_writes_it() -> None:
    task = generate_relays(1, length=2, seed=0)[0]
    rows = task.rows(1, True)
    assert rows[0] == f"Active subtask: {task.texts[1]}"
    assert any(row.startswith("Completed subtasks:") and task.notice[:20] in row for row in rows)
    hidden = task.replace(view="no results").rows(1, True)
    assert [row for row in rows if row not in hidden] == [row for row in rows if row.startswith("Completed subtasks:")]
    assert task.replace(view="objective").rows(1, True) == (f"Objective: Run errands for {task.name}.",)


def test_the_oracle_settles_everything_and_chance_what_it_must(world: RelayWorld) -> None:
    assert measure(world, make_oracle(world))["solved"] == 1
    found = measure(world, make_oracle(world), RouterSystem(stand_ins="each other"))["solved"]
    day = np.mean([task.situations[0] < KINDS for task in world.test[1]])
    assert found == pytest.approx(day)  # it knows the pairs of the other kind of stand-ins
    tasks = show(world.test, RouterSystem()) * 300
    chance = [run_relays(tasks, choose_by_chance, np.random.default_rng(0), world.get_rules())[0]]
    assert np.mean(chance) == pytest.approx(1 / len(IDS) ** 2, abs=0.02)


def test_a_look_up_draws_a_layer_by_the_one_before_it(world: RelayWorld) -> None:
    task: RelayTask = world.learn[1][0]
    random, rules = np.random.default_rng(0), world.get_rules()
    _, episodes = run_relays([task] * 600, choose_by_chance, random, rules)
    choose = LayerLookup(lambda rows: np.ones((len(rows), 1), dtype=np.float32), episodes)
    solved, _ = run_relays([task] * 300, choose, random, rules)
    assert solved.mean() > 0.4


def test_every_router_is_trained_and_measured_and_free_decisions_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    some = ("the head", "linear, subtask row", "sparse: with process reward")
    monkeypatch.setattr(relays, "SYSTEMS", {name: SYSTEMS[name] for name in some})
    first = run_seed(SMALL, 0)
    assert set(first.figures) > {*some, RANDOM, ORACLE}
    trained, oracle = first.figures["the head"], first.figures[ORACLE]
    assert trained["made"] == trained["free"] == 2 * 4 * SMALL.tasks  # two layers, four runs of each task
    assert oracle["free"] == 0
    assert "| linear, subtask row |" in format_gains([first, first], relays.SCALE)


def test_heads_are_trained_one_change_after_the_other() -> None:
    some = {name: heads.SYSTEMS[name] for name in (heads.PAPER, heads.ADDITIVE, heads.LINEAR)}
    result = run_routers(SMALL, some, 0)
    assert set(result.figures) == {*some, RANDOM, ORACLE}
    assert "| the paper's head |" in format_gains([result, result], heads.SCALE)
    assert {one for claim in heads.WORLD.claims for one in (claim.main, claim.control)} <= set(heads.SYSTEMS)


def test_designs_are_told_the_right_agents() -> None:
    study = RelayStudy(tasks=6, updates=40, batch=16, rate=1e-2)
    system = RouterSystem(HeadConfig(design="linear"), taught.LIKELIHOOD, stand_ins="each other")
    world = asyncio.run(make_world(study, 0, HashingEmbedder(32), [system]))
    assert measure(world, make_oracle(world, "each other"), system)["solved"] == 1
    assert (
        run_system(world, system, make_oracle(world, "each other"))["solved"]
        > measure(world, choose_by_chance, system)["solved"] + 0.1
    )
    assert {one for claim in taught.WORLD.claims for one in (claim.main, claim.control) if one} <= set(taught.SYSTEMS)


@pytest.mark.slow
def test_a_router_learns_relays() -> None:
    study = RelayStudy(tasks=40, updates=60, batch=96, rate=3e-3)
    world = asyncio.run(make_world(study, 0, HashingEmbedder(64)))
    trained = run_system(world, RouterSystem(HeadConfig(design="linear")))
    assert trained["solved"] > measure(world, choose_by_chance)["solved"] + 0.1
