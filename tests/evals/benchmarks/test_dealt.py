"""Dealt: no holder can answer alone, all together can, and only a topology that brings the right piece helps."""

from collections.abc import Collection
from itertools import islice

import pytest

from selfwire.core.errors import ConfigError
from selfwire.core.scope import Scope
from selfwire.core.task import Question, Task
from selfwire.evals.benchmarks.archive import grade
from selfwire.evals.benchmarks.dealt import HOLDERS, WRITER, dealt, generate_dealt_archive, make_dealt_team, name_search
from selfwire.evolvers.dytopo.domain import get_workers
from selfwire.extras.offline.model import OfflineChat
from selfwire.graphs.dytopo import Dytopo
from selfwire.graphs.method import FULL
from selfwire.models.embeddings import HashingEmbedder
from selfwire.models.metered_chat import MeteredModel
from selfwire.store.journal import NullRecorder
from tests.evals.benchmarks.archive_play import play as play_documents

MADE = generate_dealt_archive(80, seed=3)


def play(task: Task, holders: Collection[str]) -> str:
    """Answer from the documents of some holders; nothing where a document is missing."""
    return play_documents(task, [page for holder in holders for page in MADE.documents[holder]])


def find_owner(title: str) -> str:
    return next(holder for holder, pages in MADE.documents.items() if title in {page.title for page in pages})


def test_all_holders_together_answer_everything_and_one_alone_nothing() -> None:
    assert [grade(task, play(task, HOLDERS)).score for task in MADE.tasks] == [1.0] * 80
    assert not any(play(task, [holder]) for task in MADE.tasks for holder in HOLDERS)


def test_other_pieces_than_the_right_two_do_not_help() -> None:
    for task in MADE.tasks:
        needed = [holder for holder in HOLDERS if not play(task, set(HOLDERS) - {holder})]
        assert len(needed) == 2
        assert grade(task, play(task, needed)).solved


def test_a_guess_scores_low_and_tasks_follow_from_the_seed() -> None:
    bench = dealt(80, seed=3)
    guesses = [grade(task, bench.baseline.answer(task.input)).score for task in MADE.tasks]
    assert 0.1 < sum(guesses) / len(guesses) < 0.4  # the first of two options, in half of the tasks
    assert {task.kind for task in MADE.tasks} == {"bridge", "comparison"}
    assert generate_dealt_archive(80, seed=4) != MADE == generate_dealt_archive(80, seed=3)
    with pytest.raises(ConfigError, match="not 0"):
        generate_dealt_archive(0)


def test_documents_are_dealt_evenly() -> None:
    assert sum(map(len, MADE.documents.values())) == 400
    assert {len(pages) for pages in MADE.documents.values()} <= set(range(35, 66))
    assert {find_owner(page.title) for pages in MADE.documents.values() for page in pages} == set(HOLDERS)


def test_each_holder_alone_holds_its_search() -> None:
    team = make_dealt_team()
    assert get_workers(team) == (*HOLDERS, WRITER)
    held = {agent.id: agent.tools for agent in team.agents if agent.tools}
    assert held == {holder: (name_search(holder),) for holder in HOLDERS}
    assert sorted(dealt(20).toolbox) == sorted(tools[0] for tools in held.values())


@pytest.mark.parametrize(("variant", "solves"), [("few-words-tau-01", True), ("few-words-none", False)])
async def test_bridges_are_crossed_by_those_who_hear_each_other(variant: str, solves: bool) -> None:
    """One of three at least; nobody else crosses any."""
    found = [await _cross(task, variant) for task in islice((t for t in MADE.tasks if t.kind == "bridge"), 3)]
    assert any(found) is solves


async def _cross(task: Task, variant: str) -> bool:
    model = MeteredModel(OfflineChat(error_rate=0, critic_error_rate=0), journal=NullRecorder())
    method = Dytopo(Dytopo.config_type.model_validate(dict(Dytopo.variants[variant].config)))
    ctx = method.make_ctx(model, dealt(80, seed=3).toolbox, HashingEmbedder(), scope=Scope(seed=0, task=task.id))
    done = await method.answer(make_dealt_team(), Question(id=task.id, input=task.input), ctx)
    assert all(len(mail.text.split()) <= 40 for step in done.steps for mail in step.inbox)
    return grade(task, done.answer or "").solved


def test_variants_with_few_words_differ_from_matching_in_one_setting() -> None:
    few = {name: variant for name, variant in Dytopo.variants.items() if "words" in name and name != "few-words"}
    base = dict(Dytopo.variants["few-words"].config)
    assert Dytopo.variants["few-words"].against == FULL
    for name, variant in few.items():
        changed = {field for field, value in variant.config.items() if base.get(field) != value}
        assert changed == {"threshold"} if "tau" in name else changed - {"words"} == {"topology"}
        assert ("words" in changed) == name.startswith("all-words")
        assert variant.against == "few-words"
