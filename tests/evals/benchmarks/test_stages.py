"""Stages: the right clerks' stamps score, any others do not, and nothing but the score tells who is right."""

import re
from collections.abc import Callable
from itertools import product

import pytest

from bench.measuring import make_lines
from bench.stages import SYSTEMS, TRAINED, know_clerks, summarise
from selfwire.core.errors import ConfigError
from selfwire.core.scope import Scope
from selfwire.core.task import Task
from selfwire.evals.benchmarks.stages import STAMPS, generate_tasks, grade, make_stages_team, stages
from selfwire.evolvers.evomas.pool import EARLY_EXIT
from selfwire.extras.offline.model import OfflineChat
from selfwire.extras.offline.vocabulary import FED_BACK, find_skills
from selfwire.graphs.evomas import Evomas
from selfwire.models.embeddings import HashingEmbedder
from selfwire.models.metered_chat import MeteredModel
from selfwire.store.journal import NullRecorder

TASKS = generate_tasks(90, 3)
MATTER = re.compile(r"^Matter \d, file (\d+) of ([^:]+): ", re.MULTILINE)


def stamp(task: Task, clerks: list[str]) -> str:
    """The answer with the stamps of these clerks, worked out anew."""
    made: dict[str, Callable[[str, str], str]] = {
        "librarian": lambda number, person: number[::-1],
        "courier": lambda number, person: str(sum(int(digit) for digit in number)),
        "negotiator": lambda number, person: "".join(letter for letter in person if letter.isupper()),
    }
    files = MATTER.findall(task.input)
    return f"Answer: {', '.join(made[clerk](*file) for clerk, file in zip(clerks, files, strict=True))}"


def test_the_right_clerks_score_and_a_fixed_one_is_right_in_a_third() -> None:
    assert {grade(task, stamp(task, task.kind.split())).score for task in TASKS} == {1.0}
    for clerk in STAMPS:
        scores = [grade(task, stamp(task, [clerk] * 3)).score for task in TASKS]
        assert scores == [task.kind.split().count(clerk) / 3 for task in TASKS]
        assert 0.25 < sum(scores) / len(TASKS) < 0.42


def test_no_fixed_order_of_clerks_solves_a_sixth() -> None:
    for clerks in product(STAMPS, repeat=3):
        assert sum(grade(task, stamp(task, list(clerks))).solved for task in TASKS) < 15


def test_feedback_says_how_many_stamps_are_right_and_not_which() -> None:
    found = grade(TASKS[0], "Answer: -, -, -")
    assert (found.score, found.text) == (0, "0 of 3 files bear the right stamp.")
    assert grade(TASKS[0], "Answer: 1").score == 0
    assert "Format fault" in grade(TASKS[0], "1, 2, 3").text


def test_tasks_follow_from_the_seed_and_name_no_clerk() -> None:
    assert generate_tasks(90, 4) != TASKS == generate_tasks(90, 3)
    assert len({task.input for task in TASKS}) == 90
    assert not any(clerk in task.input for task in TASKS for clerk in STAMPS)
    with pytest.raises(ConfigError, match="not 0"):
        generate_tasks(0, 0)


def test_every_clerk_has_one_rule_and_works_by_it_alone() -> None:
    rules = {agent.id: find_skills(agent.prompt) for agent in make_stages_team().agents if agent.id != EARLY_EXIT}
    assert {len(found) for found in rules.values()} == {1}
    assert len({*rules.values()}) == 3
    assert all(set(found) <= FED_BACK for found in rules.values())
    assert EARLY_EXIT not in make_stages_team(early_exit=False).agents_by_id


async def run(task: Task, config: dict[str, object]) -> float:
    """The score of EvoMAS with one layer and a stand-in that does not err."""
    model = MeteredModel(OfflineChat(error_rate=0, critic_error_rate=0), journal=NullRecorder())
    method = Evomas(Evomas.config_type.model_validate({"sampling": {"layers": 1}, **config}))
    ctx = method.make_ctx(model, stages(10).toolbox, HashingEmbedder(), scope=Scope(task=task.id))
    done = await method.answer(make_stages_team(), task.question, ctx)
    return grade(task, done.answer or "").score


@pytest.mark.parametrize("clerk", STAMPS)
async def test_a_fixed_workflow_settles_the_matters_of_its_clerk(clerk: str) -> None:
    task = next(task for task in TASKS if len(set(task.kind.split())) == 3)
    assert await run(task, {"adapter": "fixed", "plan": [[clerk]]}) == pytest.approx(1 / 3)
    assert await run(task, {"adapter": "fixed", "plan": [[clerk, *(set(STAMPS) - {clerk})]]}) == pytest.approx(1 / 3)


async def test_whoever_knows_the_right_clerks_solves_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    task = next(task for task in TASKS if len(set(task.kind.split())) == 3)
    monkeypatch.setattr("selfwire.graphs.evomas.make_chooser", know_clerks(task))
    assert await run(task, {}) == 1


def test_a_seed_is_an_observation_of_the_table() -> None:
    seeds = [{name: (0.5 + 0.1 * seed * (name == TRAINED), 12.0) for name in SYSTEMS} for seed in range(3)]
    lines = {line[""]: line for line in make_lines(summarise(seeds))}
    assert lines[TRAINED]["score [95 %]"].startswith("0.60 [0.35")
    assert lines["by chance"]["trained − this [95 %]"].startswith("+0.10 [-0.15")
    assert lines["untrained"]["calls/task"] == "12.00"
