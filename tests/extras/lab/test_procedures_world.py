"""The world of HERA's procedures, small: what its figures mean, and that HERA's own code runs in it."""

import pytest

from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.evolvers.hera.config import HeraConfig
from selfwire.evolvers.hera.library import Profile, get_library, make_insight, with_library
from selfwire.evolvers.hera.rules import Prompt
from selfwire.evolvers.trajectory_text import get_score
from selfwire.extras.lab.worlds.crafts import CHECKS, PARTIAL, SKILLS, ScriptedModel, describe_check, grade, work
from selfwire.extras.lab.worlds.hera import procedures
from selfwire.extras.lab.worlds.hera.procedures import (
    KINDS,
    MAIN,
    ORACLE,
    POOL,
    SCRIPT,
    START,
    SYSTEMS,
    Procedures,
    ProceduresStudy,
    make_pool,
    make_world,
    run_seed,
    solve,
    train,
)
from selfwire.graphs.hera import Hera
from selfwire.graphs.machine import Ctx
from selfwire.models.embeddings import HashingEmbedder

SMALL = ProceduresStudy(iterations=1, batch=6, gate=2, test=12)
LONG = ProceduresStudy(iterations=5, gate=4, test=24, right=1.0, checked=0.3)


def make_hera(world: Procedures, right: float = 1.0) -> tuple[Hera, Ctx[HeraConfig]]:
    method = Hera(HeraConfig(steps=4))
    return method, method.make_ctx(ScriptedModel(SCRIPT, world.work, right), {}, HashingEmbedder())


def teach_everything(world: Procedures) -> Team:
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
    hera = make_hera(world)
    assert mean(await solve(*hera, world, teach_everything(world), world.test)) == 1.0
    assert mean(await solve(*hera, world, world.workflow, world.test)) < 0.5


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
    hera = make_hera(world)
    learned = await train(*hera, world, 0)
    missing = {skill for parts in world.procedures.values() for skill in parts} - set(POOL)
    assert missing & set(learned.agents_by_id)
    checked = [one for one in learned.agents if Prompt.of(one.prompt).rules]
    assert checked
    texts = {one.profile.type: one.text for one in get_library(learned)}
    assert any(", then ".join(world.procedures[kind]) in text for kind, text in texts.items())
    assert mean(await solve(*hera, world, learned, world.test)) > 0.5


async def test_a_seed_repeats_itself_and_every_system_is_below_the_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny, chosen = SMALL.replace(batch=2, test=6), {name: SYSTEMS[name] for name in (MAIN, "w/o RoPE")}
    monkeypatch.setattr(procedures, "SYSTEMS", chosen)
    first = await run_seed(tiny, 0)
    assert await run_seed(tiny, 0) == first
    assert {*first.figures} == {*chosen, START, ORACLE}
    assert all(one["score"] <= first.figures[ORACLE]["score"] for one in first.figures.values())
    assert first.figures["w/o RoPE"]["calls"] < first.figures[MAIN]["calls"]


def test_a_question_names_its_type_and_half_of_the_procedures_need_a_newcomer() -> None:
    world = make_world(SMALL, 3)
    assert set(world.procedures) == set(KINDS)
    assert sum(not set(parts) <= set(POOL) for parts in world.procedures.values()) == len(KINDS) // 2
    assert world.test[0].input.split()[1] in KINDS
