"""Profiles, and what a mixed group teaches."""

import pytest

from selfwire.core.errors import ModelError, ReplyError
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.evolvers.hera.config import HeraConfig, PromptConfig
from selfwire.evolvers.hera.groups import make_groups
from selfwire.evolvers.hera.library import Insight, Profile, parse_query_type
from selfwire.evolvers.hera.planning import characterize_query
from selfwire.evolvers.hera.reflection import INSIGHTS, reflect_on_group
from selfwire.evolvers.hera.schemas import QueryProfile, Reflection
from tests.evolvers.hera.doubles import BRIDGE, meta_model, ran
from tests.scripted import ScriptedModel

ASKED = Question(id="q", input="Who founded the firm that X left?")
BATCH = [ran(score=0.0, sample=0), ran(score=1.0, sample=1, tokens=40), ran(score=1.0, sample=2, tokens=30)]


async def test_a_question_is_characterised() -> None:
    said = QueryProfile(query_type="bridge", difficulty="hard", summary="find\n a firm first")
    found, usage = await characterize_query(ASKED, meta_model(ScriptedModel(QueryProfile=said)), scope=Scope())
    assert found == Profile(type="bridge", difficulty="hard", summary="find a firm first")
    assert usage.calls == 1


async def test_a_task_that_asks_for_something_to_be_made_has_a_type() -> None:
    model = ScriptedModel(QueryProfile=QueryProfile(query_type="other", difficulty="easy", summary="write a program"))
    await characterize_query(ASKED, meta_model(model), scope=Scope())
    assert "other (none of these, such as a single fact or something to be made)" in model.shown("QueryProfile")[0]


async def test_without_a_valid_profile_it_is_of_no_particular_type_and_faults_are_told() -> None:
    found, _ = await characterize_query(ASKED, meta_model(ScriptedModel(QueryProfile=ReplyError("?"))), scope=Scope())
    assert found == Profile()
    with pytest.raises(ModelError, match="down"):
        await characterize_query(ASKED, meta_model(ScriptedModel(QueryProfile=ModelError("down"))), scope=Scope())


def reflection(*insights: tuple[str, str]) -> Reflection:
    return Reflection.model_validate({"insights": [{"query_type": kind, "insight": text} for kind, text in insights]})


async def learn(model: ScriptedModel) -> tuple[Insight, ...]:
    [group] = make_groups(BATCH, 0.6)
    return (
        await reflect_on_group(group, BATCH, BRIDGE, meta_model(model), success_at=0.6, iteration=4, scope=Scope())
    )[0]


async def test_insights_name_the_trajectories_that_they_came_from() -> None:
    taught = reflection(("Multi-hop Bridge", "search  twice"), ("gibberish", "read"))
    found = await learn(ScriptedModel(Reflection=taught))
    assert [(one.profile.type, one.text, one.utility) for one in found] == [
        ("bridge", "search twice", 0.5), ("bridge", "read", 0.5)
    ]  # fmt: skip
    assert [str(source) for source in found[0].sources] == ["4/q1#0", "4/q1#1", "4/q1#2"]
    assert found[0].profile.summary == BRIDGE.summary


async def test_the_group_is_shown_ranked_with_topologies_scores_and_tokens() -> None:
    model = ScriptedModel(Reflection=reflection())
    await learn(model)
    [shown] = model.shown("Reflection")
    places = [shown.index(f"trajectory {rank}: {told}") for rank, told in
              enumerate(("a success, score 1.00, 30 tokens", "a success, score 1.00, 40 tokens",
                         "a failure, score 0.00, 100 tokens"), 1)]  # fmt: skip
    assert places == sorted(places)
    assert "retriever reads query_decomposer" in shown


async def test_an_answer_that_several_runs_give_stands_once_in_the_group() -> None:
    program = "```python\ndef median_gap(xs):\n    return median(b - a for a, b in pairwise(sorted(xs)))\n```"
    batch = [done.replace(answer=program) for done in BATCH]
    [group] = make_groups(batch, 0.6)
    model = ScriptedModel(Reflection=reflection())
    await reflect_on_group(group, batch, BRIDGE, meta_model(model), success_at=0.6, iteration=4, scope=Scope())
    [shown] = model.shown("Reflection")
    assert shown.count(program) == 1
    assert shown.count("final answer: (the same as in trajectory 1)") == 2


async def test_a_group_teaches_a_bounded_number_and_nothing_without_a_valid_reply() -> None:
    many = reflection(*(("bridge", f"insight {n}") for n in range(20)))
    assert len(await learn(ScriptedModel(Reflection=many))) == INSIGHTS
    assert await learn(ScriptedModel(Reflection=ReplyError("?"))) == ()


def test_types_are_read_out_of_words() -> None:
    assert parse_query_type("Comparison questions") == "comparison"
    assert parse_query_type("riddles") is None


def test_config_fields_have_bounds() -> None:
    with pytest.raises(ValueError, match="each once"):
        PromptConfig(axes=("efficiency", "efficiency"))
    with pytest.raises(ValueError, match="group"):
        HeraConfig(group=0)
