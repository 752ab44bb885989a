"""Newborn: the initial team's collection answers nothing, and only a birth brings in the one that a question needs."""

import numpy as np
import pytest

from bench.measuring import make_lines
from bench.newborn import BORN, FULL, SYSTEMS, NewbornRun, add_newborns, summarise
from selfwire.core.errors import ConfigError
from selfwire.core.scope import Scope
from selfwire.core.task import Task
from selfwire.evals.benchmarks.archive import grade
from selfwire.evals.benchmarks.benchmark import Benchmark
from selfwire.evals.benchmarks.newborn import (
    COLLECTIONS,
    HELD,
    RESERVE,
    generate_sorted_archive,
    make_newborn_team,
    newborn,
)
from selfwire.evolvers.tacomas.meta import draw_births
from selfwire.evolvers.tacomas.schemas import BirthDeathPair, NewAgent, SlowUpdate
from selfwire.extras.offline.model import OfflineChat
from selfwire.graphs.method import FULL as FULL_VARIANT
from selfwire.graphs.tacomas import Tacomas, list_offered_tools
from selfwire.models.embeddings import HashingEmbedder
from selfwire.models.metered_chat import MeteredModel
from selfwire.store.journal import NullRecorder
from tests.evals.benchmarks.archive_play import play

MADE = generate_sorted_archive(60, seed=3)
OFFERED = tuple(name for name in COLLECTIONS if name != HELD)


def answers(*collections: str) -> list[float]:
    pages = [page for name in collections for page in MADE.documents[name]]
    return [grade(task, play(task, pages)).score for task in MADE.tasks]


def test_the_held_collection_answers_nothing_and_all_answer_everything() -> None:
    assert sum(answers(HELD)) == sum(answers(HELD, "search_staff")) == sum(answers(*OFFERED)) == 0
    assert sum(answers(*COLLECTIONS)) == sum(answers(HELD, "search_people", "search_cities")) == 60
    people, cities = sum(answers(HELD, "search_people")), sum(answers(HELD, "search_cities"))
    assert people + cities == 60
    assert min(people, cities) >= 10


def test_tasks_follow_from_the_seed() -> None:
    assert generate_sorted_archive(60, seed=4) != MADE == generate_sorted_archive(60, seed=3)
    with pytest.raises(ConfigError, match="not 0"):
        generate_sorted_archive(0)


def test_newborns_may_hold_what_no_member_holds() -> None:
    bench, team = newborn(10), make_newborn_team()
    model = MeteredModel(OfflineChat(), journal=NullRecorder())
    ctx = Tacomas().make_ctx(model, bench.toolbox, HashingEmbedder(), scope=Scope())
    assert list_offered_tools(team, ctx).keys() == COLLECTIONS.keys()
    members = team.members
    assert RESERVE not in {agent.id for agent in members}
    assert {tool for agent in members for tool in agent.tools} == {HELD}
    assert {"search_people", "search_cities"} <= {t for agent in add_newborns(team).members for t in agent.tools}
    assert len({tool.spec.description for tool in bench.toolbox.values()}) == 4


@pytest.mark.parametrize(("variant", "solves"), [(FULL_VARIANT, True), ("no-topology", False)])
async def test_questions_are_answered_by_a_team_with_births_and_by_no_other(variant: str, solves: bool) -> None:
    """One of seven at least; no other team answers any."""
    bench = newborn(40, seed=1)
    tasks = [task for task in bench.splits(1, train=0, gate=0, test=40).test if "country" in task.input][:7]
    found = [await _ask(bench, task, variant, births=solves) for task in tasks]
    assert any(found) is solves


async def _ask(bench: Benchmark, task: Task, variant: str, *, births: bool) -> bool:
    model = MeteredModel(OfflineChat(), journal=NullRecorder())
    method = Tacomas(Tacomas.config_type.model_validate({"rounds": 5, **Tacomas.variants[variant].config}))
    ctx = method.make_ctx(model, bench.toolbox, HashingEmbedder(), scope=Scope(task=task.id))
    done = await method.answer(make_newborn_team(), task.question, ctx)
    assert any(turn["births"] for turn in done.notes["rounds"]) is births
    assert births or all(use.name != "search_cities" for step in done.steps for use in step.tools)
    return grade(task, done.answer or "").solved


def test_drawn_births_are_as_many_with_as_many_tools_and_the_sink_never_dies() -> None:
    born = NewAgent(role="city expert", goal="Search for the city.", tools=["search_cities"])
    pairs = [
        BirthDeathPair(v_dead="calculator", v_new=born),
        BirthDeathPair(v_dead="planner"),
        BirthDeathPair(v_new=born.model_copy(update={"tools": []})),
    ]
    update, team = SlowUpdate(birth_death_pairs=pairs), make_newborn_team()
    drawn = [
        draw_births(update, team, list(COLLECTIONS), np.random.default_rng(seed)).birth_death_pairs
        for seed in range(40)
    ]
    jobs = {agent.role for agent in team.members}
    for first, second, third in drawn:
        assert first.v_new is not None
        assert third.v_new is not None
        assert (first.v_new.role, len(first.v_new.tools)) == ("city expert", 1)
        assert (second.v_new, third.v_dead, third.v_new.tools) == (None, None, [])
        assert first.v_new.goal in jobs
    assert {first.v_dead for first, *_ in drawn} == {"planner", "searcher", "calculator", "verifier"}
    assert {tool for first, *_ in drawn if first.v_new for tool in first.v_new.tools} == set(COLLECTIONS)
    assert update.birth_death_pairs == pairs


def test_differences_of_the_table_are_paired_by_question() -> None:
    names = [*SYSTEMS, *BORN]
    seeds = [{name: [NewbornRun(float(name == FULL), 20 + at, 1, 0)] * 2 for at, name in enumerate(names)}] * 2
    lines = {line[""]: line for line in make_lines(summarise(seeds))}
    assert lines[FULL]["both loops − this [95 %]"] == "-"
    assert lines["fixed team"]["both loops − this [95 %]"] == "+1.00 [-0.05, +1.00]"
    assert lines["fixed team"]["calls/task"] == "24.00"
    assert set(lines) == set(names)
