"""The world of HiVA's growth, small: what its figures mean, and that HiVA's own code runs in it."""

from dataclasses import replace
from typing import Any

import pytest

from selfwire.core.agent import Agent
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.topology import Edge, Node, Topology
from selfwire.core.trajectory import Trajectory
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.trajectory_text import get_score
from selfwire.extras.lab.worlds.crafts import ANSWERER, PARTIAL, Reading, ScriptedModel, describe_check, describe_skill
from selfwire.extras.lab.worlds.hiva import growth
from selfwire.extras.lab.worlds.hiva.growth import (
    MAIN,
    ORACLE,
    SCRIPT,
    START,
    SYSTEMS,
    GrowthStudy,
    GrowthWorld,
    SequentialHiva,
    make_world,
    run_seed,
    solve,
    train,
)
from selfwire.graphs.hiva import Hiva
from selfwire.graphs.machine import Ctx
from selfwire.models.embeddings import HashingEmbedder

SMALL = GrowthStudy(iterations=2, batch=4, gate=4, test=10)
FAIR = GrowthStudy(iterations=7, batch=5, gate=5, test=20, right=1.0)


def make_hiva(world: GrowthWorld, **switches: Any) -> tuple[SequentialHiva, Ctx[HivaConfig]]:
    hiva = SequentialHiva(HivaConfig(kabb=False, **switches))
    return hiva, hiva.make_ctx(ScriptedModel(SCRIPT, world.work, 1.0), {}, HashingEmbedder())


def build_perfect_team(world: GrowthWorld) -> Team:
    """The tree of all skills with all checks, every branch of it reporting to the aggregator."""
    checks = {skill: check for needs in world.needs.values() for skill, check in needs.items()}
    first = next(iter(world.parents))
    workers = [
        Agent(id=one, prompt=f"{describe_skill(one)} {describe_check(checks.get(one, 'notes'))}")
        for one in world.parents
    ]
    inner = set(world.parents.values())
    edges = [Edge(source=parent, target=one) for one, parent in world.parents.items() if parent]
    edges += [Edge(source=one, target="end") for one in world.parents if one not in inner]
    names = [*world.parents, "end"]
    topology = Topology(
        nodes=tuple(Node(id=one, agent=one) for one in names), edges=tuple(edges), entry=first, sink="end"
    )
    agents = (*workers, Agent(id="end", prompt=ANSWERER, kind="aggregator"))
    return Team(method="hiva", agents=agents, topology=topology)


def hand_on(given: Reading) -> dict[str, Any]:
    return {"instruction": given.sections["output"]}


def mean(done: list[Trajectory]) -> float:
    return sum(get_score(one) or 0.0 for one in done) / len(done)


@pytest.mark.parametrize("seed", range(3))
async def test_a_team_with_all_skills_and_checks_scores_what_the_oracle_is_said_to(seed: int) -> None:
    world = make_world(SMALL, seed)
    hiva, ctx = make_hiva(world)
    assert mean(await solve(hiva, world, build_perfect_team(world), world.test, ctx)) == 1.0
    assert mean(await solve(hiva, world, hiva.start(next(iter(world.parents))), world.test, ctx)) <= 0.2


async def test_each_half_of_evolution_gains_what_only_it_can() -> None:
    world, scores = make_world(FAIR, 0), dict[str, float]()
    for name, switches in {
        "both": {},
        "SEV": {"topology_evolution": False},
        "TEV": {"semantic_evolution": False},
    }.items():
        hiva, ctx = make_hiva(world, **switches)
        learned = await train(hiva, world, hiva.start(next(iter(world.parents))), ctx)
        scores[name] = mean(await solve(hiva, world, learned, world.test, ctx))
        assert (len(learned.agents) > 2) == (name != "SEV")
        assert any("Check the" in one.prompt for one in learned.agents) == (name != "TEV")
    assert scores["SEV"] == pytest.approx(0.2)
    assert scores["SEV"] < scores["TEV"] < scores["both"]


async def test_teams_run_as_in_hiva_s_graph() -> None:
    world = make_world(SMALL, 1)
    perfect, question, scope = build_perfect_team(world), world.test[0], Scope(seed=1)
    sequential, ctx = make_hiva(world)
    here = await sequential.answer(perfect, question, replace(ctx, scope=scope))
    model, hiva = ScriptedModel({**SCRIPT, "Instruction": hand_on}, world.work, 1.0), Hiva(sequential.config)
    there = await hiva.answer(perfect, question, hiva.make_ctx(model, {}, ctx.embed, scope=scope))
    assert here.edges == there.edges
    assert world.grade(here).feedback == world.grade(there).feedback


def test_parts_need_what_they_build_on_and_nothing_else() -> None:
    world = GrowthWorld({"locate": "", "count": "locate", "verify": "locate"}, {"t": {"count": "units"}}, (), (), ())
    assert world.work("You count what you are handed.", "nothing done", "t") == "nothing done"
    counted = world.work("You count what you are handed.", "locate: done", "t")
    assert counted.endswith("count: done, but the units are off")
    assert world.work("You verify what you are handed.", counted, "t").endswith("verify: spoiled")
    feedback = world.grade(Trajectory(question=Question(id="t", input=""), workflow="", answer=counted)).feedback
    assert feedback is not None
    assert feedback.score == pytest.approx((1 + PARTIAL) / 3)
    assert feedback.text.endswith("the units are off. Nobody was there to verify after locate.")


async def test_a_seed_repeats_itself_and_every_system_is_below_the_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {name: SYSTEMS[name] for name in (MAIN, "random edits")}
    monkeypatch.setattr(growth, "SYSTEMS", chosen)
    first = await run_seed(SMALL, 0)
    assert await run_seed(SMALL, 0) == first
    assert {*first.figures} == {*chosen, START, ORACLE}
    assert all(one["score"] <= first.figures[ORACLE]["score"] for one in first.figures.values())
