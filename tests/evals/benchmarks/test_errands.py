"""Errands: splits that share no sentence, a world that follows its rules, exact figures against simulation."""

from functools import partial

import numpy as np
import pytest

from selfwire.evals.benchmarks.errands import (
    POOL,
    RELAY,
    RIGHT,
    STAGES,
    compute_settling_chances,
    generate_errands,
    has_settled,
    load_wordings,
)
from selfwire.extras.lab.worlds.errand_runs import (
    ErrandStage,
    Integers,
    choose_by_chance,
    find_best_constant,
    find_best_fixed,
    make_fixed_chooser,
    run_errand,
)

IDS = [agent.id for agent in POOL]


def test_no_sentence_for_the_test_is_learned_from() -> None:
    situations = load_wordings().situations
    known = {wording for situation in situations for wording in situation.known}
    held_out = {wording for situation in situations for wording in situation.held_out}
    assert not known & held_out
    assert len(known) == sum(len(situation.known) for situation in situations)
    assert [situation.helper for situation in situations] == [IDS[index] for index in RIGHT]
    assert set(RIGHT) == set(range(len(IDS))) - {RELAY}


def test_tasks_are_the_same_for_the_same_seed_and_say_nothing_of_the_truth() -> None:
    one, two, other = (generate_errands(20, length=3, seed=seed) for seed in (1, 1, 2))
    assert one == two != other
    for task in one:
        for place in range(3):
            rows = task.rows(place, False)
            assert rows[0] == f"Active subtask: {task.texts[place]}"
            assert not any(name in row for row in rows for name in IDS if name != "relay")


@pytest.mark.parametrize(
    ("layers", "chance"),
    [
        ([[0]], 1.0),
        ([[1]], 0.0),
        ([[0], [1]], 0.0),
        ([[0], [RELAY]], 1.0),
        ([[0, 1], [RELAY, 1]], 0.25),
        ([[1], [0, RELAY]], 0.5),
    ],
)
def test_the_last_word_settles_a_situation(layers: list[list[int]], chance: float) -> None:
    situation = int(np.flatnonzero(RIGHT == 0)[0])
    assert compute_settling_chances(layers)[situation] == pytest.approx(chance)
    order = np.full((4000, len(layers), 2), -1)
    for place, layer in enumerate(layers):
        order[:, place, : len(layer)] = layer
    found = has_settled(np.full(4000, situation), order, np.random.default_rng(0))
    assert found.mean() == pytest.approx(chance, abs=0.03)


def test_who_knows_the_truth_solves_all_and_chance_few() -> None:
    tasks = generate_errands(300, length=2, seed=0)
    solved, episodes = run_errand(
        tasks, make_fixed_chooser(lambda stage: RIGHT[stage.situations]), np.random.default_rng(0)
    )
    assert solved.all()
    assert {len(episode.decisions) for episode in episodes} == {2}
    by_luck, episodes = run_errand(tasks, choose_by_chance, np.random.default_rng(0))
    assert 0.1 < by_luck.mean() < 0.4
    assert all(len(episode.process) == len(episode.decisions) <= STAGES for episode in episodes)
    assert [episode.reward for episode in episodes] == by_luck.astype(float).tolist()


def test_the_best_constant_is_found_by_looking_at_every_plan() -> None:
    tasks = generate_errands(40, length=2, seed=0)
    plain = [make_fixed_chooser(partial(_constant, agent=agent)) for agent in range(RELAY)]
    always = [float(run_errand(tasks, choose, np.random.default_rng(0))[0].mean()) for choose in plain]
    best = find_best_constant(tasks, tasks)
    assert max(always) < best < 1
    assert best >= 0.3
    assert max(always) <= find_best_fixed(tasks) + 1e-9


def _constant(stage: ErrandStage, agent: int) -> Integers:
    return np.full(len(stage.rows), agent)
