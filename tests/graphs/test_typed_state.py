"""State of method graphs: JSON in the channels, typed values in nodes and edges."""

from collections.abc import Mapping
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import ValidationError

from selfwire.core.chat import Prompts
from selfwire.core.errors import ConfigError
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenMap, FrozenModel
from selfwire.extras.offline.model import OfflineChat
from selfwire.graphs import dytopo, evomas, hera, hiva, tacomas
from selfwire.graphs.machine import END, START, Ctx, MethodGraph, RunContext, State, Update, run_graph
from selfwire.models.embeddings import HashingEmbedder
from selfwire.models.metered_chat import MeteredModel
from tests.graphs.scripted import ASKED, on


class Counted(State):
    best: Usage | None = None
    spent: tuple[Usage, ...] = ()
    shares: Mapping[str, float] = FrozenMap()
    needed: Usage


def test_fields_are_decoded_and_encoded_as_json() -> None:
    update = Counted.update(spent=[Usage(calls=1)], shares={"a": 0.5}, best=None, scope=Scope(run="r"))
    assert update["spent"] == [Usage(calls=1).model_dump(mode="json")]
    assert (update["shares"], update["best"]) == ({"a": 0.5}, None)
    state = Counted(update)
    assert (state.spent, state.shares, state.best) == ((Usage(calls=1),), {"a": 0.5}, None)
    assert state.scope == Scope(run="r")
    assert state.spent is state.spent  # decoded once


def test_a_field_that_is_not_written_has_its_default_or_is_an_error() -> None:
    state = Counted({"best": {}, "answer": "42"})  # 0.1.0 wrote {} where there was nothing
    assert (state.best, state.spent, state.usage, state.answer) == (None, (), Usage(), "42")
    with pytest.raises(KeyError, match="needed is not in the state yet"):
        _ = state.needed
    assert "answer" in state
    assert "best" not in state


def test_an_update_is_checked() -> None:
    with pytest.raises(AttributeError):
        Counted.update(mispelt=1)
    with pytest.raises(ValidationError):
        Counted.update(best="cheap")


def test_a_checkpoint_that_somebody_has_edited_is_refused_by_the_name_of_the_field() -> None:
    fault = "best of the state cannot be used: .*; edit it once more, or go on from an earlier checkpoint"
    with pytest.raises(ConfigError, match=fault):
        _ = Counted({"best": "cheap"}).best


@pytest.mark.parametrize(
    ("method", "step", "channel", "value"),
    [
        (evomas, "plan", "stage", None),
        (hera, "sample_topologies", "planned", []),
        (dytopo, "begin", "rounds", None),
        (dytopo, "deliver", "rounds", []),
        (tacomas, "round", "done", None),
        (tacomas, "round", "rounds", []),
    ],
)
def test_a_checkpoint_that_breaks_a_rule_of_a_method_is_refused_by_the_name_of_the_field(
    method: Any, step: str, channel: str, value: object
) -> None:
    graph = method.build("offline").compile(checkpointer=InMemorySaver(), interrupt_after=[step])
    graph.invoke(ASKED, on("1"))
    with pytest.raises(ConfigError, match=f"^{channel} of the state cannot be used: .*; edit it once more"):
        graph.invoke(None, graph.update_state(on("1"), {channel: value}))


def test_an_unknown_choice_of_a_run_is_shortened_and_sends_a_terminal_no_commands() -> None:
    with pytest.raises(ConfigError, match=r"context: \\x1b\[2Jx{196}: there is no such field; choices are seed"):
        RunContext(**{f"\x1b[2J{'x' * 5000}": 1})


def test_an_update_is_laid_over_a_state() -> None:
    before = Counted(Counted.update(answer="a", best=Usage(calls=1)))
    after = before.after(before.update(answer="b"))
    assert (before.answer, after.answer, after.best) == ("a", "b", Usage(calls=1))


def test_a_question_that_is_only_a_text_has_an_id() -> None:
    asked = Counted({"question": "Who?"}).get_question()
    assert (asked.input, asked.kind, len(asked.id)) == ("Who?", "", 16)
    whole = Counted({"question": "Who?", "id": "q1", "kind": "bridge"})
    assert whole.get_question() == Question(id="q1", input="Who?", kind="bridge")


async def test_a_graph_hands_views_to_steps_and_decisions_and_keeps_json() -> None:
    async def begin(state: Counted, ctx: Ctx[Any]) -> Update:
        return state.update(best=Usage(calls=1), usage=Usage(calls=2), scope=ctx.scope.at(phase="run"))

    async def spend(state: Counted, ctx: Ctx[Any]) -> Update:
        assert ctx.scope == state.scope
        return state.update(spent=(*state.spent, state.usage))

    def again_or_end(state: Counted, ctx: Ctx[Any]) -> str:
        return END if len(state.spent) > 2 else "spend"

    graph = MethodGraph(Counted, first="begin", team="spend")
    graph.add_edge(START, "begin")
    graph.add_sequence([begin, spend])
    graph.add_conditional_edges("spend", again_or_end, ["spend", END])
    ctx: Ctx[Any] = Ctx(MeteredModel(OfflineChat()), {}, HashingEmbedder(), FrozenModel(), Prompts(texts={}))
    final = await run_graph(graph.compile("counted"), Counted, ctx, question="Who?")
    assert final.channels["best"] == Usage(calls=1).model_dump(mode="json")
    assert [usage.calls for usage in final.spent] == [2, 2, 2]


async def test_what_is_added_to_a_figure_with_other_steps_is_not_added_to_the_one_that_it_comes_from() -> None:
    async def begin(state: Counted, ctx: Ctx[Any]) -> Update:
        return state.update(answer="a", scope=ctx.scope.at(phase="run"))

    async def add(state: Counted, ctx: Ctx[Any]) -> Update:
        return state.update(answer=f"{state.answer}b")

    figure = MethodGraph(Counted, first="begin", team="begin")
    figure.add_edge(START, "begin")
    figure.add_node(begin)
    longer = figure.with_steps(begin=begin)
    longer.add_node(add)
    longer.add_edge("begin", "add")
    ctx: Ctx[Any] = Ctx(MeteredModel(OfflineChat()), {}, HashingEmbedder(), FrozenModel(), Prompts(texts={}))
    ends = [await run_graph(graph.compile("ends"), Counted, ctx, question="Who?") for graph in (longer, figure)]
    assert [final.answer for final in ends] == ["ab", "a"]


@pytest.mark.parametrize(
    ("method", "option"),
    [(tacomas, "embedder"), (tacomas, "grader"), (hiva, "judge"), (hera, "corpus"), (dytopo, "judge")],
)
def test_an_argument_that_a_method_does_not_use_is_refused(method: Any, option: str) -> None:
    name = method.__name__.rpartition(".")[2]
    with pytest.raises(ConfigError, match=f"{name} does not use {option}; leave it out"):
        method.build(**{option: "offline"})


def test_a_judge_is_taken_where_it_judges() -> None:
    assert evomas.build(judge="offline", embedder="hashing").compile().name
