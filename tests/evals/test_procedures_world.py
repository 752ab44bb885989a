"""The world of HERA's procedures, small: what its figures mean, and that HERA's own code runs in it."""

import pytest

from selfwire.core.scope import Scope
from selfwire.core.topology import make_chain
from selfwire.core.trajectory import Trajectory
from selfwire.core.workflow import Workflow
from selfwire.evals.studies.crafts import CHECKS, PARTIAL, SKILLS, ScriptedModel, describe_check, grade, work
from selfwire.evals.studies.hera import procedures
from selfwire.evals.studies.hera.orchestrator import SCRIPT
from selfwire.evals.studies.hera.procedures import (
    KINDS,
    MAIN,
    ORACLE,
    POOL,
    START,
    SYSTEMS,
    Procedures,
    ProceduresStudy,
    Team,
    make_pool,
    make_world,
    run_seed,
    solve,
    train,
)
from selfwire.evolvers.experience.library import get_library, make_insight, with_library
from selfwire.evolvers.experience.profile import Profile
from selfwire.evolvers.hera.config import HeraConfig
from selfwire.evolvers.hera.rules import Prompt
from selfwire.evolvers.outcomes import get_score
from selfwire.graphs.hera.method import Hera
from selfwire.runtime.embeddings import HashingEmbedder

SMALL = ProceduresStudy(iterations=1, batch=6, gate=2, test=12)
LONG = ProceduresStudy(iterations=5, gate=4, test=24, right=1.0, checked=0.3)


def make_team(world: Procedures, *, own_loop: bool = True, right: float = 1.0) -> Hera:
    model, config = ScriptedModel(SCRIPT, world.work, right), HeraConfig(steps=4)
    return (Team if own_loop else Hera)(model, toolbox={}, embedder=HashingEmbedder(), config=config)


def teach_everything(world: Procedures) -> Workflow:
    """A pool with all skills and checks, whose library knows all procedures."""
    pool = make_pool(SKILLS)
    rules = tuple(describe_check(one) for one in CHECKS)
    agents = [one.replace(prompt=Prompt(core=one.prompt, rules=rules).text) for one in pool.agents]
    said = {kind: f"For {kind} questions run {', then '.join(parts)}." for kind, parts in world.procedures.items()}
    profiles = [Profile.model_validate({"type": kind, "summary": kind}) for kind in said]
    found = [make_insight(profile, said[profile.type]) for profile in profiles]
    return with_library(pool.replace(agents=tuple(agents)), tuple(one for one in found if one))


def mean(done: list[Trajectory]) -> float:
    return sum(get_score(one) or 0.0 for one in done) / len(done)


async def test_a_team_that_knows_everything_scores_what_the_oracle_is_said_to() -> None:
    world = make_world(SMALL, 0)
    assert mean(await solve(make_team(world), world, teach_everything(world), world.test, Scope())) == 1.0
    assert mean(await solve(make_team(world), world, world.workflow, world.test, Scope())) < 0.5


async def test_teams_run_as_in_hera_s_graph() -> None:
    world = make_world(SMALL, 1)
    for question in world.test[:2]:
        chain = make_chain(*world.procedures[KINDS[0]], "answerer")
        pool, scope = make_pool(SKILLS), Scope(seed=1)
        here, there = [
            await make_team(world, own_loop=own).execute(pool, question, chain, 0.0, scope=scope)
            for own in (True, False)
        ]
        assert [(s.node, s.output, s.usage.calls) for s in here.steps] == [
            (s.node, s.output, s.usage.calls) for s in there.steps
        ]
        assert here.answer == there.answer


def test_work_and_its_worth_by_hand() -> None:
    needs = {"convert": "units"}
    located = work("You locate what you are handed.", "Task:\nx", needs)
    assert located == "locate: done"
    slipped = work("You convert what you are handed.", located, needs)
    assert slipped == "locate: done\nconvert: done, but the units are off"
    assert work("You convert what you are handed.\n- Check the units.", located, needs).endswith("convert: done")
    assert (grade(slipped, ("locate", "convert")).score, grade(slipped, ("locate",)).score) == (PARTIAL, 1.0)
    assert grade(slipped, ("convert", "locate")).text == "Nobody was there to locate it in its turn."


async def test_experience_prompts_and_pool_grow_where_they_have_something_to_gain() -> None:
    world = make_world(LONG, 0)
    team = make_team(world)
    learned = await train(team, world, 0)
    missing = {skill for parts in world.procedures.values() for skill in parts} - set(POOL)
    assert missing & set(learned.agents_by_id)
    checked = [one for one in learned.agents if Prompt.of(one.prompt).rules]
    assert checked
    texts = {one.profile.type: one.text for one in get_library(learned)}
    assert any(", then ".join(world.procedures[kind]) in text for kind, text in texts.items())
    assert mean(await solve(team, world, learned, world.test, Scope())) > 0.5


def test_a_seed_repeats_itself_and_every_system_is_below_the_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny, chosen = SMALL.replace(batch=2, test=6), {name: SYSTEMS[name] for name in (MAIN, "w/o RoPE")}
    monkeypatch.setattr(procedures, "SYSTEMS", chosen)
    first = run_seed(tiny, 0)
    assert run_seed(tiny, 0) == first
    assert {*first.figures} == {*chosen, START, ORACLE}
    assert all(one["score"] <= first.figures[ORACLE]["score"] for one in first.figures.values())
    assert first.figures["w/o RoPE"]["calls"] < first.figures[MAIN]["calls"]


def test_a_question_names_its_type_and_half_of_the_procedures_need_a_newcomer() -> None:
    world = make_world(SMALL, 3)
    assert set(world.procedures) == set(KINDS)
    assert sum(not set(parts) <= set(POOL) for parts in world.procedures.values()) == len(KINDS) // 2
    assert world.test[0].input.split()[1] in KINDS
