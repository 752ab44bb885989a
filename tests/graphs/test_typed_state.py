"""State of method graphs: JSON in the channels, typed values in nodes and edges."""

from collections.abc import Mapping
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import ValidationError

from selfwire.core.budget import Budget
from selfwire.core.errors import ConfigError
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenMap
from selfwire.graphs import dytopo, evomas, hera, hiva, tacomas
from selfwire.graphs.method_graph import END, START, MethodGraph
from selfwire.graphs.typed_state import State, Update


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


def test_an_update_is_laid_over_a_state() -> None:
    before = Counted(Counted.update(answer="a", best=Usage(calls=1)))
    after = before.after(before.update(answer="b"))
    assert (before.answer, after.answer, after.best) == ("a", "b", Usage(calls=1))


def test_a_question_that_is_only_a_text_has_an_id() -> None:
    asked = Counted({"question": "Who?"}).get_question()
    assert (asked.input, asked.kind, len(asked.id)) == ("Who?", "", 16)
    whole = Counted({"question": "Who?", "id": "q1", "kind": "bridge"})
    assert whole.get_question() == Question(id="q1", input="Who?", kind="bridge")


async def test_a_graph_hands_views_to_nodes_and_keeps_json() -> None:
    class Ledger:
        spent, budget = Usage(calls=7), Budget()

    class Nodes:
        ledger = Ledger()

        def __init__(self, before: Usage) -> None:
            self.before = before

        async def begin(self, state: Counted) -> Update:
            return state.update(best=Usage(calls=1), usage=Usage(calls=2))

        async def step(self, state: Counted) -> Update:
            assert isinstance(state, Counted)
            return state.update(spent=(*state.spent, self.before))

    async def provide(spent: Usage) -> Nodes:
        return Nodes(spent)

    graph = MethodGraph(Counted, provide)
    graph.node("begin", Nodes.begin, first=True)
    graph.node("paid", Nodes.step, charge=True)
    graph.node("free", Nodes.step, nodes=Nodes(Usage(calls=9)))
    graph.edges(START, "begin", "paid", "free")
    graph.choose("free", lambda state: END if len(state.spent) > 2 else "paid", "paid", END)
    given: Any = {"question": "Who?"}
    final = await graph.graph.compile(checkpointer=InMemorySaver()).ainvoke(given, {"configurable": {"thread_id": "1"}})
    assert final["best"] == Usage(calls=1).model_dump(mode="json")
    assert [one.calls for one in Counted(final).spent] == [2, 9, 7, 9]
    assert Counted(final).usage == Usage(calls=7)


@pytest.mark.parametrize(
    ("method", "option"),
    [(tacomas, "embedder"), (tacomas, "grader"), (hiva, "judge"), (hera, "corpus"), (dytopo, "judge")],
)
def test_an_argument_that_a_method_does_not_use_is_refused(method: Any, option: str) -> None:
    with pytest.raises(ConfigError, match=f"{method.DESCRIPTOR.name} does not use {option}; leave it out"):
        method.build(**{option: "offline"})


def test_a_judge_is_taken_where_it_judges() -> None:
    assert evomas.build(judge="offline", embedder="hashing").compile().name
