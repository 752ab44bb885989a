"""A chat client's messages, and interrupts at agents inside a team, in graphs from Python."""

from importlib import import_module
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph

from selfwire.core.errors import ConfigError
from selfwire.core.plugins import own_methods

ASKED = {"question": "What am I?"}
THREAD: Any = {"configurable": {"thread_id": "t"}}
FEW: dict[str, Any] = {"tacomas": {"rounds": 1}, "dytopo": {"rounds": 1}, "evomas": {"stages": 1}}
EVOLVES = {"hiva": {"evolve": True}}
INSIDE = {
    "hiva": ("forward", "aggregator"),
    "hera": ("rollout", "evidence_selector"),
    "tacomas": ("round", "searcher"),
    "dytopo": ("workers", "Reasoner"),
    "evomas": ("layers", "outcome"),
}


def compiled(method: str) -> Any:
    return import_module(f"selfwire.graphs.{method}").build().compile(checkpointer=InMemorySaver())


def said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def texts(result: Any) -> list[tuple[str, str]]:
    return [(message.type, message.content) for message in result["messages"]]


@pytest.mark.parametrize("method", own_methods())
def test_a_message_is_answered_as_a_question_is(method: str) -> None:
    graph, few = compiled(method), FEW.get(method, {})
    asked = graph.invoke(ASKED, {"configurable": {"thread_id": "other"}}, context=few)
    result = graph.invoke(said(ASKED["question"]), THREAD, context=few)
    assert (result["question"], result["answer"]) == (ASKED["question"], asked["answer"])
    assert texts(result) == [("human", ASKED["question"]), ("ai", asked["answer"])]
    assert texts(asked) == []


@pytest.mark.parametrize("method", own_methods())
def test_a_question_of_a_thread_begins_as_the_first_of_another_thread(method: str) -> None:
    graph, few, first = compiled(method), FEW.get(method, {}), "init_graph" if method == "tacomas" else "begin"
    graph.invoke(ASKED, THREAD, context={**few, **EVOLVES.get(method, {})})
    then = {"question": "And who are you?"}
    later, new = (
        graph.invoke(then, {"configurable": {"thread_id": thread}}, context=few, interrupt_after=[first])
        for thread in ("t", "new")
    )
    assert (later["usage"]["calls"], new["usage"]["calls"]) == (first == "init_graph",) * 2
    kept = {"workflow", "ran", "router", "scope", "usage"}  # teams that are learned, the place, and seconds
    assert {name: later[name] for name in later.keys() - kept} == {name: new[name] for name in new.keys() - kept}


def test_a_thread_takes_messages_and_questions_by_turns() -> None:
    graph = compiled("hiva")
    graph.invoke(said("First?"), THREAD)
    second = graph.invoke(said("Second?"), THREAD)
    assert [text for kind, text in texts(second) if kind == "human"] == ["First?", "Second?"]
    assert second["question"] == "Second?"
    third = graph.invoke({"question": "Third?"}, THREAD)
    assert (third["question"], texts(third)) == ("Third?", texts(second))
    fourth = graph.invoke(said("Fourth?"), THREAD)
    assert (fourth["question"], len(texts(fourth))) == ("Fourth?", 6)


def test_an_answer_that_is_evolved_replaces_the_one_before() -> None:
    result = compiled("hiva").invoke(said("What am I?"), THREAD, context={"evolve": True, "iterations": 2})
    assert texts(result) == [("human", "What am I?"), ("ai", result["answer"])]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"messages": []}, "it has neither, and other keys are not read"),
        ({"questoin": "What am I?"}, '"question": .* it has neither, and other keys are not read'),
        (said("  "), "it has '  '"),
        ({"messages": [{"role": "ai", "content": "I speak."}]}, "messages.*it has neither"),
        (
            {"messages": [("user", [{"type": "image_url", "image_url": {"url": "data:"}}])]},
            "the last one has image_url",
        ),
    ],
)
def test_an_input_without_text_is_refused(given: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        compiled("hiva").invoke(given, THREAD)


@pytest.mark.parametrize("method", INSIDE)
async def test_a_run_is_interrupted_before_an_agent_inside_the_team(method: str) -> None:
    graph, few, (outer, agent) = compiled(method), FEW.get(method, {}), INSIDE[method]
    whole = await graph.ainvoke(ASKED, {"configurable": {"thread_id": "whole"}}, context=few)
    names = [agent] if method == "hiva" else [f"{outer}:{agent}"]
    await graph.ainvoke(ASKED, THREAD, context=few, interrupt_before=names)
    state = await graph.aget_state(THREAD, subgraphs=True)
    assert state.next == (outer,)
    inside = state.tasks[0].state
    assert agent not in inside.values.get("_steps", inside.values.get("_said"))
    assert agent in inside.next or method == "hera", (
        "LangGraph lists what is next in the drawn team, not in a planned one"
    )
    result = await graph.ainvoke(None, THREAD, context=few, interrupt_before=names)
    while (await graph.aget_state(THREAD)).next:
        result = await graph.ainvoke(None, THREAD, context=few, interrupt_before=names)
    assert result["answer"] == whole["answer"]
    assert result["usage"]["calls"] == whole["usage"]["calls"], "no agent is asked twice"


def test_a_run_is_interrupted_after_an_agent_and_before_a_node_of_the_method() -> None:
    graph = compiled("hiva")
    graph.invoke(ASKED, THREAD, interrupt_before=["forward", "aggregator"], interrupt_after=["source"])
    assert graph.get_state(THREAD).next == ("forward",)
    assert not graph.get_state(THREAD, subgraphs=True).tasks[0].state.values
    graph.invoke(None, THREAD, interrupt_after=["source"])
    assert graph.get_state(THREAD, subgraphs=True).tasks[0].state.next == ("aggregator",)
    assert graph.invoke(None, THREAD)["answer"]


def test_a_compiled_graph_is_as_langgraphs_own() -> None:
    graph = import_module("selfwire.graphs.hiva").build()
    ours = graph.compile(checkpointer=InMemorySaver())
    assert vars(ours).keys() == vars(StateGraph.compile(graph)).keys()
    assert ours.invoke(ASKED, THREAD, version="v2").value["answer"]


def test_an_interrupt_at_no_node_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no node 'nobody'.*begin, .*forward.*inside it aggregator, source"):
        compiled("hiva").invoke(ASKED, THREAD, interrupt_before=["source", "nobody"])
    with pytest.raises(ConfigError, match="no node 'elsewhere:source'"):
        compiled("hiva").invoke(ASKED, THREAD, interrupt_after=["elsewhere:source"])
