"""Shelf marks: right references, feedback without them, rules in no prompt, and a branching team above every chain."""

import re
from pathlib import Path

import pytest

from bench.shelfmarks import main, make_branching, make_single, measure_team, measure_teams
from selfwire.core.errors import ConfigError, GradingError
from selfwire.core.protocols import RouterInput
from selfwire.core.team import Team
from selfwire.core.trajectory import Routing
from selfwire.evals.benchmarks.shelfmarks import (
    ROOMS,
    RULES,
    ShelfItem,
    generate_tasks,
    grade,
    grade_parts,
    make_mark,
    one_room,
    shelfmarks,
)
from selfwire.evolvers.hiva.config import KabbConfig
from selfwire.evolvers.hiva.kabb import TaskMatch, make_kabb_router
from selfwire.evolvers.hiva.memory import HivaMemory
from selfwire.extras.offline.model import OfflineChat
from selfwire.extras.offline.vocabulary import FED_BACK, find_skills
from selfwire.models.metered_chat import MeteredModel
from selfwire.store.journal import NullRecorder

ROOT = Path(__file__).parents[3]
ITEM = ShelfItem("The Broken Bridge", "Ada Tron", 1931, 214)
ENGINE = ("core", "runs", "cli")
TEXTS = sorted(
    path
    for room in ("evolvers", "nodes", "graphs", "evals", "tools", *(f"src/selfwire/{name}" for name in ENGINE))
    for kind in ("md", "py", "json", "toml")
    for path in (ROOT / room).rglob(f"*.{kind}")
    if not path.name.startswith(("shelfmark", "stages"))  # rules of clerks, who see no shelf mark
)
RULE_WORDS = re.compile(
    r"\bmirrored\b|\bmirror (?:the|image)\b|\binitials\b|\bvowel|\bconsonant|\bdigit sum|\bsum of [^.\n]{0,20}digits",
    re.IGNORECASE,
)


def test_a_mark_has_the_two_parts_of_its_room() -> None:
    assert {room: make_mark(ITEM, room) for room in ROOMS} == {
        "map room": "1391/AT",
        "music room": "1391/THBRKNBRDG",
        "print room": "1391/7",
        "coin room": "AT/THBRKNBRDG",
        "photo room": "7/AT",
        "poster room": "7/THBRKNBRDG",
    }
    assert len(set(map(frozenset, ROOMS.values()))) == len(ROOMS) == 6


def test_tasks_follow_from_the_seed_and_spread_over_the_rooms() -> None:
    tasks = generate_tasks(60, 1)
    assert tasks == generate_tasks(60, 1) != generate_tasks(60, 2)
    assert [task.kind for task in tasks] == list(ROOMS) * 10
    splits = shelfmarks(120, seed=1).splits(0, train=30, gate=24, test=30)
    assert len({task.input for part in (splits.train, splits.gate, splits.test) for task in part}) == 84
    for size in (0, 20_001):
        with pytest.raises(ConfigError, match=f"not {size:,}"):
            generate_tasks(size, 0)


def test_feedback_states_the_rules_of_the_room_and_never_the_mark() -> None:
    for task in generate_tasks(60, 0):
        right = str(task.reference)
        assert grade(task, f"Answer: {right.lower().replace('/', ' / ')}").solved
        wrong = grade(task, "Answer: 0")
        assert [rule for rule in RULES if RULES[rule].text in wrong.text] == sorted(
            ROOMS[task.kind], key=list(RULES).index
        )
        assert not any(part in wrong.text for part in (right, *right.split("/")) if len(part) > 1)
        assert right not in task.input
        assert set(find_skills(task.input)) & FED_BACK == set()
    assert "Format fault" in grade(generate_tasks(1, 0)[0], "1391/AT").text
    with pytest.raises(GradingError, match="no text as reference"):
        grade(generate_tasks(1, 0)[0].replace(reference=None), "Answer: 7")


def test_no_prompt_and_no_pool_of_ours_holds_a_rule() -> None:
    assert len(TEXTS) > 300
    for path in TEXTS:
        text = path.read_text(encoding="utf-8")
        assert RULE_WORDS.search(text) is None, path
        assert path.suffix != ".md" or not set(find_skills(text)) & FED_BACK, path
    assert all(RULE_WORDS.search(rule.text) for rule in RULES.values())


MODEL = MeteredModel(OfflineChat(error_rate=0), journal=NullRecorder())
TASKS = shelfmarks(60, seed=3).splits(0, train=0, gate=0, test=6).test


async def test_branches_that_are_chosen_by_the_room_are_better_than_any_chain_or_single_agent() -> None:
    assert {task.kind for task in TASKS} == set(ROOMS)
    reached = await measure_teams(TASKS, MODEL)
    assert reached["the right two branches"] == 1
    assert reached["best chain"] == reached["best single agent"] == pytest.approx(1 / 6)
    assert reached["chain of all rules"] == reached["all branches"] == 0
    assert reached["any two branches"] < 0.6


async def test_a_bandit_over_the_branches_decides_freely() -> None:
    branching, free = make_branching(), list[str]()
    bandit = make_kabb_router(branching, HivaMemory(), TaskMatch(), KabbConfig())

    def note_free(node: str, successors: tuple[str, ...], known: RouterInput) -> Routing:
        routing = bandit(node, successors, known)
        if routing.free:
            free.append(known.question.id)
            assert len(routing.chosen) == 2  # of equal beliefs
        return routing

    await measure_team(branching, TASKS, MODEL, lambda task: note_free)
    assert set(free) == {task.id for task in TASKS}


def test_the_branching_team_can_be_written_with_or_without_the_rooms(tmp_path: Path) -> None:
    for more in ([], ["--rooms"]):
        main([str(tmp_path / "team.json"), "--method", "m", *more])
        team = Team.model_validate_json((tmp_path / "team.json").read_text(encoding="utf-8"))
        assert team.method == "m"
        assert len(team.topology.successors["open"]) == len(RULES)
        rooms = [[room for room in ROOMS if room in agent.prompt] for agent in team.agents]
        assert sorted(map(len, rooms)) == ([0, 0, 3, 3, 3, 3] if more else [0] * 6)


def test_one_room_gives_a_part_of_the_score_for_a_rule_and_the_seed_chooses_the_room() -> None:
    tasks = one_room(60, seed=8).splits(0, train=10, gate=10, test=10).test
    assert {task.kind for task in tasks} == {list(ROOMS)[2]}
    for task in tasks:
        first, second = str(task.reference).split("/")
        given = ("", "Answer: unknown", f"Answer: {first}", f"Answer: {first}/x", f"Answer: {first}/{second}")
        assert [grade_parts(task, text).score for text in given] == pytest.approx([0, 0.1, 0.55, 0.55, 1])
        assert grade_parts(task, f"Answer: {first}/{second}/x").score == pytest.approx(0.7)
        assert grade_parts(task, f"Answer: {first}").text == grade(task, f"Answer: {first}").text


async def test_in_one_room_a_prompt_with_both_rules_is_right_and_a_wrong_rule_does_not_help() -> None:
    bench = one_room(60, seed=8)
    tasks = bench.splits(0, train=0, gate=0, test=3).test
    first, second = ROOMS[tasks[0].kind]
    wrong = next(rule for rule in RULES if rule not in (first, second))
    scores = [
        await measure_team(make_single(rules), tasks, MODEL, environment=bench.environment)
        for rules in ((), (wrong,), (first, wrong), (first, second))
    ]
    assert scores == pytest.approx([0.1, 0.1, 0.55, 1])
