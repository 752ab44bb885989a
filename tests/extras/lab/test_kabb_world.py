"""The branching world of HiVA's bandit, small: what its figures mean, and that the method's own code runs in it."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from selfwire.core.agent import Agent
from selfwire.core.protocols import RouterInput
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Message, Routing, Step
from selfwire.evolvers.hiva.kabb import TaskMatch, make_kabb_router
from selfwire.evolvers.hiva.memory import HivaMemory
from selfwire.extras.lab.worlds.catalogue import World, list_worlds
from selfwire.extras.lab.worlds.gains import Scale, WorldResult, format_gains, list_claim_columns
from selfwire.extras.lab.worlds.hiva import kabb, rooms
from selfwire.extras.lab.worlds.hiva.branching import (
    AGENTS,
    LAYERS,
    PAIRS,
    SINK,
    SOURCE,
    BranchingParameters,
    make_world,
    route_task,
    run_task,
)
from selfwire.extras.lab.worlds.hiva.kabb import (
    FIXED,
    INDEXES,
    KABB,
    MAIN,
    ORACLE,
    UNIFORM,
    IndexChooser,
    KabbChooser,
    KabbStudy,
    compute_bound,
    compute_bounds,
    compute_mean,
    compute_share,
    format_tables,
    play,
    run_seed,
)
from selfwire.graphs.team import TeamContext, run_team
from selfwire.models.embeddings import HashingEmbedder
from tests.commands import call

SMALL = BranchingParameters(known=20, new=10)
SCALE = Scale("score", "chance", "oracle", "full", tasks=10)


def choose_first(node: str, successors: tuple[str, ...], known: RouterInput) -> Routing:
    return Routing(chosen=successors[:2], free=len(successors) > 2)


async def act(agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
    return Step(node=scope.node, agent=agent.id, output="done")


async def test_the_bandit_decides_in_the_world_as_in_the_team_s_graph() -> None:
    team, scope = make_world(SMALL, 0).workflow, Scope(seed=3)
    router = make_kabb_router(team, HivaMemory.of(team), TaskMatch(), KABB[MAIN])
    for number in range(5):
        question = Question(id=f"t{number}", input="invoice audit")
        here = route_task(team, router, question, scope.at(task=question.id))
        run = TeamContext.of(team, question, scope.at(task=question.id), act, router=router)
        there = await run_team(team.topology, run)
        assert {step.node: step.routing for step in there.steps if step.routing} == here


def test_the_exact_value_of_a_choice_is_how_often_it_solves_its_tasks() -> None:
    world = make_world(SMALL.replace(known=4000, new=0, synergy=0.3, paired=0.5), 1)
    runs = [run_task(world, choose_first, number, Scope(), ceiling=SMALL.ceiling) for number in range(4000)]
    solved = [bool(run.trajectory.feedback and run.trajectory.feedback.solved) for run in runs]
    assert np.mean(solved) == pytest.approx(np.mean([run.value for run in runs]), abs=0.025)


def test_a_choice_by_hand() -> None:
    world = make_world(SMALL, 0)
    run = run_task(world, choose_first, 0, Scope(), ceiling=SMALL.ceiling)
    kind, (a, b) = world.kinds[0], (0, 1)
    first, second = world.skill[[a, b], kind], world.skill[[5 + a, 5 + b], kind]
    reached = 1 - (1 - first[0]) * (1 - first[1])  # both hand on to the same two
    second = np.minimum(second + world.synergy[[a, b]][:, [a, b]].max(axis=0), SMALL.ceiling)
    assert run.value == pytest.approx(reached * (1 - (1 - second[0]) * (1 - second[1])))
    assert PAIRS.index((0, 1)) == 0
    assert {step.node for step in run.trajectory.steps} == {SOURCE, *LAYERS[0][:2], *LAYERS[1][:2], SINK}


def test_the_bounds_enclose_each_other_and_new_kinds_come_last() -> None:
    world = make_world(SMALL, 2)
    bounds = compute_bounds(world, SMALL)
    assert (bounds[UNIFORM] <= bounds[ORACLE]).all()
    assert bounds[UNIFORM].sum() < bounds[FIXED].sum() <= bounds[ORACLE].sum()
    assert not set(world.kinds[:20].tolist()) & set(world.kinds[20:].tolist())
    misled = make_world(SMALL.replace(claims=False), 2)
    assert np.array_equal(misled.values, world.values)
    assert misled.workflow != world.workflow


@pytest.mark.slow
async def test_luck_apart_a_seed_repeats_itself() -> None:
    study = KabbStudy(world=SMALL)
    first = await run_seed(study, 0)
    assert await run_seed(study, 0) == first
    assert {*KABB, *INDEXES, ORACLE, FIXED, f"{MAIN}, claims by chance"} == {*first.figures}
    assert {one["free"] for name, one in first.figures.items() if name in INDEXES} == {3 * 30}
    assert {first.figures[name]["free"] <= 3 * 30 for name in KABB} == {True}
    assert (compute_share(first, ORACLE, "sum 10"), compute_share(first, UNIFORM, "sum 10")) == (1, 0)
    text = format_tables([first, await run_seed(study, 1)])
    assert text.count(f"| {MAIN} |") == 2
    assert "| oracle | 0.0 |" in text


def test_an_index_prefers_what_was_rewarded_and_what_was_never_tried() -> None:
    chance = np.random.default_rng(0)
    assert compute_mean(3, 4, 9, chance) > compute_mean(1, 4, 9, chance)
    assert compute_bound(0, 0, 9, chance) > compute_bound(4, 4, 9, chance) > 1


@pytest.mark.parametrize("make", [INDEXES["Thompson per kind"], partial(IndexChooser, compute_mean), None])
def test_who_learns_gets_more_than_chance_in_the_end(make: partial[IndexChooser] | None) -> None:
    given = BranchingParameters(known=100, new=0, special=(0.9, 0.95), other=(0.05, 0.1))
    world = make_world(given, 0)
    system = make() if make else KabbChooser(world.workflow, KABB[MAIN], HashingEmbedder())
    run = partial(run_task, world, ceiling=given.ceiling)
    scores, decided = asyncio.run(play(system, run, world.kinds, given.batch, 0))
    assert scores[-30:].mean() > compute_bounds(world, given)[UNIFORM][-30:].mean() + 0.1
    assert 200 <= decided.free <= 300
    assert len(AGENTS) == 10


def test_the_command_runs_a_world_keeps_its_rows_and_refuses_what_it_would_not_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = KabbStudy(world=SMALL)
    monkeypatch.setattr(kabb, "WORLD", World(study, run_seed, SCALE, (), format_tables))
    out = tmp_path / "rows.jsonl"

    ablate = partial(call, tmp_path, "ablate", "hiva", "--world")
    wanted = ("kabb", "--seeds", "2", "--workers", "1", "--out", str(out))
    assert "| KABB w/o knowledge distance |" in ablate(*wanted).stdout
    assert len(out.read_text().splitlines()) == 3  # what it is of, and two seeds
    assert "2 seeds, 2 of them done" in ablate(*wanted).stderr
    for wrong, said in (
        (("nowhere",), "has no world 'nowhere'; it has kabb"),
        (("kabb", "--iterations", "3"), "--iterations would do nothing"),
        (("kabb", "--seeds", "1"), "--seeds 2 or more"),
    ):
        assert said in ablate(*wrong, code=2).stderr
    assert "hera has no world" in call(tmp_path, "ablate", "hera", "--world", "kabb", code=2).stderr


def test_gains_are_paired_by_seed_and_measured_on_what_was_possible() -> None:
    def make_result(seed: int, full: float, without: float) -> WorldResult:
        scores = {"chance": 2.0 + seed, "full": full + seed, "w/o it": without + seed, "oracle": 10.0 + seed}
        return WorldResult(seed=seed, figures={name: {"score": score} for name, score in scores.items()})

    results = [make_result(0, 8, 4), make_result(3, 7, 4)]
    rows = format_gains(results, SCALE, [SCALE.claim("it", "w/o it")]).splitlines()
    assert rows[0] == "2 seeds. chance scores 0.35, oracle 1.15; possible gain 0.80 [0.80, 0.80]."
    assert [row.split(" | ")[2] for row in rows if row.startswith("| full")] == ["0.69"]
    claim = [row.format(SCALE.claim("it", "w/o it")) for row in list_claim_columns(results)]
    assert claim[:2] == ["it", "0.60"]
    assert claim[2].startswith("+0.35 [")
    assert claim[3:] == ["-", "1.06", "full", "w/o it", "-"]
    assert "kabb" in list_worlds()["hiva"]


def test_rooms_need_two_agents_and_every_agent_serves_three() -> None:
    for arms, number in ((4, 6), (8, 12)):
        pairs = rooms.list_pairs(arms)
        assert len(set(pairs)) == number
        assert {sum(f"a{place}" in pair for pair in pairs) for place in range(arms)} == {3}
        told, silent = (rooms.make_team(arms, claims=claims).agents for claims in (True, False))
        assert sum(agent.prompt.count(" room") for agent in told) == 2 * number
        assert sum(agent.prompt.count(" room") for agent in silent) == 0


@pytest.mark.slow
async def test_the_fitted_lambda_finds_the_agents_of_each_room_and_a_small_fixed_one_does_not() -> None:
    small = rooms.RoomsParameters(arms=(8,), tasks=80)
    first = await rooms.run_seed(small, 0)
    assert await rooms.run_seed(small, 0) == first
    shares = {
        name: (found["8 agents, claims"] - first.figures[UNIFORM]["8 agents, claims"])
        / (first.figures[ORACLE]["8 agents, claims"] - first.figures[UNIFORM]["8 agents, claims"])
        for name, found in first.figures.items()
    }
    assert shares[MAIN] > 0.8 > 0.3 > shares["KABB, always two, lambda = 1"]


def test_the_table_of_rooms_shows_shares_of_the_gain_from_uniform_to_the_oracle() -> None:
    settings = [rooms.name_setting(arms, claims=claims) for arms in (4, 8) for claims in (True, False)]
    scores = {UNIFORM: 0.1, ORACLE: 0.9, MAIN: 0.7, "KABB, always two, lambda = 1": 0.3, "greedy per kind": 0.5}
    names = [f"{setting}{end}" for setting in settings for end in ("", ", last")]
    results = [
        WorldResult(
            seed=seed, figures={n: dict.fromkeys(names, at + (n == MAIN) * seed / 50) for n, at in scores.items()}
        )
        for seed in (0, 1)
    ]
    lines = rooms.format_tables(results).splitlines()
    assert f"| system | {' | '.join(settings)} |" in lines
    assert [line.split(" | ")[1][:4] for line in lines if line.startswith(f"| {MAIN} |")] == ["0.76", "0.76"]
    assert any(line.startswith("| lambda fitted, 8 agents | 0.60 | +0.410") for line in lines)
