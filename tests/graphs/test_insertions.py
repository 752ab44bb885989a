"""Agents on edges of a graph: the graph that has them keeps everything else, and the given one stays as it is."""

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeListChatModel, ParrotFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, Send, interrupt
from pydantic import BaseModel
from typing_extensions import TypedDict

from selfwire.core.agent import Agent
from selfwire.core.edits import AddAgent, AddEdge, AddNode, RemoveAgent, Rewiring
from selfwire.core.errors import ConfigError
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.topology import make_chain
from selfwire.core.trajectory import Trajectory
from selfwire.evolvers.frozen import drop_frozen, find_frozen_change
from selfwire.graphs.insertions import (
    BESIDE,
    INSERTED,
    LED,
    PASSED,
    READ,
    TAKEN_OUT,
    WROTE,
    Insertion,
    Removal,
    Specialist,
    UpdateReader,
    build_variant,
    find_places,
    find_removals,
    find_specialists,
    list_chains,
    list_conditional_edges,
    list_insertions,
    list_removals,
    tell_closed,
)
from selfwire.graphs.pruning import remove_agent
from selfwire.models.text_layer import TextLayer

Graph = CompiledStateGraph[Any, Any, Any, Any]
model = ParrotFakeChatModel()


class Desk(TypedDict, total=False):
    question: str
    parts: list[str]
    answer: str


def read(state: Desk) -> dict[str, Any]:
    return {"answer": model.invoke(f"Read {state['question']}").text}


def make_team(*insertions: Insertion, prompt: str = "You check it.") -> Team:
    team = Team(method="x", agents=(Agent(id="graph", prompt="x"),), topology=make_chain("graph"))
    for found in insertions:
        team = team.apply(Rewiring(AddAgent(Agent(id=found.agent, prompt=f"{prompt} {found.agent}")), why="a check"))
    return team.with_memory(**{INSERTED: [found.model_dump(mode="json") for found in insertions]})


def insert(after: str, before: str, agent: str = "checker", **fields: Any) -> Insertion:
    return Insertion(agent=agent, after=after, before=tuple(before.split()), **{"field": "answer", **fields})


def make(graph: Graph, *insertions: Insertion, prompt: str = "You check it.") -> Graph:
    made: Graph = build_variant("my_app:graph", graph, make_team(*insertions, prompt=prompt))
    return made


def ask(graph: Graph, given: Any, config: Any = None) -> Any:
    with TextLayer((), None, ParrotFakeChatModel).active():
        return graph.invoke(given, config)


def make_pipeline(**compiled: Any) -> Graph:
    builder = StateGraph(Desk).add_node(read).add_edge(START, "read").add_edge("read", END)
    return builder.compile(**compiled)


def test_without_inserted_agents_it_is_the_same_object() -> None:
    graph = make_pipeline()
    assert build_variant("my_app:graph", graph, make_team()) is graph
    assert build_variant("my_app:graph", model, make_team()) is model


def test_the_given_graph_stays_as_it_is_and_what_it_was_compiled_with_stays_too() -> None:
    saver, store = InMemorySaver(), InMemoryStore()
    graph = make_pipeline(checkpointer=saver, store=store, interrupt_before=["read"], name="mine", debug=False)
    graph = graph.with_config(tags=["a"])
    graph.step_timeout = 60
    edges = {*graph.builder.edges}
    made = make(graph, insert("read", END))
    assert (graph.builder.edges, [*graph.builder.nodes]) == (edges, ["read"])
    assert made.builder.edges == {(START, "read"), ("read", "checker"), ("checker", END)}
    assert made.checkpointer is saver
    assert (made.store, made.name, made.interrupt_before_nodes, made.config, made.step_timeout) == (
        store, "mine", ["read"], graph.config, 60,
    )  # fmt: skip
    assert "answer" not in graph.invoke({"question": "it"}, {"configurable": {"thread_id": "1"}})


class Wired(StateGraph[Desk]):
    """A builder that adds an edge as it is compiled."""

    def compile(self, *args: Any, **more: Any) -> Any:
        self.add_edge(START, "decide")
        self.add_edge("decide", END)
        return super().compile(*args, **more)


def test_a_builder_of_a_subclass_adds_no_edge_again() -> None:
    builder = Wired(Desk)
    builder.add_node("decide", read)
    graph = builder.compile()
    found = make(graph, insert("decide", END, "checker"))
    assert ("decide", END) in graph.builder.edges
    assert found.builder.edges == {(START, "decide"), ("decide", "checker"), ("checker", END)}


async def test_two_variants_run_side_by_side() -> None:
    graph, found = make_pipeline(), insert("read", END, question="question")
    variants = [make(graph, found, prompt=prompt) for prompt in ("First.", "Second.")]

    async def run(variant: Graph) -> str:
        with TextLayer((), None, ParrotFakeChatModel).active():
            return str((await variant.ainvoke({"question": "it"}))["answer"])

    answers = await asyncio.gather(*map(run, [*variants, graph]))
    assert answers[0] == (
        "<task>\nit\n</task>\n\n<text>\nRead it\n</text>\n\nFirst. checker\n\n"
        "Reply with the whole text that takes the place of what stands between <text> and </text>, and with nothing "
        "else."
    )
    assert answers[1] == answers[0].replace("First", "Second")
    assert answers[2] == "Read it"


def test_an_answer_among_messages_is_replaced() -> None:
    builder = StateGraph(MessagesState).add_node("talk", lambda state: {"messages": [AIMessage("Hello", id="x")]})
    graph = builder.add_edge(START, "talk").add_edge("talk", END).compile()
    said = ask(make(graph, insert("talk", END, field="messages")), {"messages": [HumanMessage("Hi")]})["messages"]
    assert [(message.text.split("\n")[0], message.id) for message in said[1:]] == [("You check it. checker", "x")]


class Tagged(ParrotFakeChatModel):
    """A model whose replies say which it is."""

    tag: str

    def _generate(self, messages: Any, *args: Any, **given: Any) -> Any:
        return super()._generate([HumanMessage(f"{self.tag}: {messages[-1].text}")], *args, **given)


def test_an_agent_asks_the_model_of_the_node_before_it_and_else_the_last_or_the_given_one() -> None:
    first, second, own = Tagged(tag="first"), Tagged(tag="second"), Tagged(tag="own")
    builder = StateGraph(Desk).add_node("a", lambda state: {"answer": first.bind(stop=["x"]).invoke("q").text})
    builder.add_node("b", lambda state: {"answer": second.invoke("q").text}).add_node("c", lambda state: {})
    builder.add_edge(START, "a").add_edge("a", "b").add_edge("b", "c").add_edge("c", END)
    places = {
        "after-c": insert("c", END, "after-c"),
        "after-a": insert("a", "b", "after-a"),
        "at-start": insert(START, "a", "at-start", field="question"),
        "behind": insert("after-a", "b", "behind", field="parts"),
    }
    graph = make(builder.compile(), *places.values())
    with TextLayer((), None, lambda: own).active():
        steps = [*graph.stream({"question": "it", "parts": []})]
    assert [(node, next(iter(update.values()))[:6]) for step in steps for node, update in step.items() if update] == [
        ("at-start", "own: <"),
        ("a", "first:"),
        ("after-a", "first:"),
        ("behind", "first:"),
        ("b", "second"),
        ("after-c", "second"),
    ]


def test_conditional_edges_commands_sends_interrupts_and_subgraphs_keep_working() -> None:
    def plan(state: Desk) -> Command[Literal["split"]]:
        return Command(goto="split", update={"parts": ["x", "y"]})

    def fan(state: Desk) -> list[Send]:
        return [Send("work", {"question": part, "parts": state["parts"]}) for part in state["parts"]]

    def decide(state: Desk) -> Literal["ask", "__end__"]:
        return "ask" if "sure" not in state["answer"] else "__end__"

    builder = StateGraph(Desk).add_node("plan", plan).add_node("split", lambda state: {})
    builder.add_node("work", lambda state: {}).add_node("inner", make_pipeline())
    builder.add_node("ask", lambda state: {"answer": interrupt("sure?")})
    builder.add_edge(START, "plan").add_conditional_edges("split", fan, ["work"])
    builder.add_edge("work", "inner").add_conditional_edges("inner", decide).add_edge("ask", END)
    graph, config = builder.compile(checkpointer=InMemorySaver()), {"configurable": {"thread_id": "1"}}
    assert [*find_places(graph, [run(WROTE_ALL)], "question")] == ["START.question", "ask.answer", "work.answer"]
    made = make(graph, insert("ask", END), insert(START, "plan", "asker", field="question"))
    waits = ask(made, {"question": "it"}, config)
    assert waits["__interrupt__"][0].value == "sure?"
    assert waits["answer"].startswith("Read <text>\nit\n</text>\n\nYou check it. asker")
    done = ask(made, Command(resume="yes, sure"), config)
    assert done["answer"].startswith("<text>\nyes, sure\n</text>\n\nYou check it. checker")


WROTE_ALL = {node: ["answer", "parts", "messages"] for node in ("plan", "split", "work", "inner", "ask", "read")}


def run(wrote: dict[str, list[str]]) -> Trajectory:
    return Trajectory(question=Question(id="1", input="x"), workflow="x", notes={WROTE: wrote})


def test_places_are_behind_nodes_that_write_a_text() -> None:
    graph = make_pipeline()
    assert find_places(graph, [run({})], "question")["START.question"].describe() == (
        "the question in question, before read"
    )
    found = find_places(graph, [run({"read": ["answer"]}), run(WROTE_ALL)], "question")
    assert {name: (place.before, place.question) for name, place in found.items()} == {
        "START.question": (("read",), ""),
        "read.answer": ((END,), "question"),
    }
    assert found["read.answer"].describe() == "what read has written into answer, before END"
    spoken = insert("ask", END, field="messages").describe()
    assert spoken == "the last message that ask has written into messages, before END"
    assert insert(START, "plan", field="messages").describe() == "the last message in messages, before plan"
    assert not find_places(graph, [run({})], "")
    assert not find_places(model, [run({})], "question")
    again = find_places(make(graph, insert("read", END)), [run({"checker": ["answer"]})], "")
    assert [(place.after, place.before) for place in again.values()] == [("checker", (END,))]


def test_an_agent_of_langchain_has_no_places_but_as_a_node_of_a_graph() -> None:
    agent = create_agent(FakeListChatModel(responses=["Hello, too."]), [], name="desk")
    assert not find_places(agent, [run({"model": ["messages"]})], "")
    assert "nodes and edges of such an agent are those of its package; make it a node" in tell_closed(agent)
    assert "the graph is no StateGraph" in tell_closed(model)
    builder = StateGraph(MessagesState).add_node("agent", agent).add_edge(START, "agent").add_edge("agent", END)
    graph = builder.compile()
    assert not tell_closed(graph)
    reader = UpdateReader()
    graph.invoke({"messages": [HumanMessage("Hello.")]}, {"callbacks": [reader]})
    assert {*find_places(graph, [run(reader.list_texts())], "")} == {"agent.messages"}


def test_a_graph_whose_nodes_all_decide_tells_why_none_may_come_in() -> None:
    builder = StateGraph(Desk).add_node(read).add_conditional_edges(START, lambda state: "read", ["read"])
    builder.add_conditional_edges("read", lambda state: END, [END])
    assert not tell_closed(builder.compile())
    builder = StateGraph(Desk).add_node(read).add_conditional_edges(START, lambda state: "read", ["read"])
    builder.add_conditional_edges("read", lambda state: END)
    assert "behind each node code decides" in tell_closed(builder.compile())


def test_nodes_side_by_side_are_no_places() -> None:
    builder = StateGraph(Desk).add_node("a", read).add_node("b", read).add_node("c", read)
    builder.add_edge(START, "a").add_edge(START, "b").add_edge("a", "c").add_edge("b", "c").add_edge("c", END)
    wrote = {node: ["answer"] for node in "abc"}
    assert [*find_places(builder.compile(), [run(wrote)], "question")] == ["START.question", "c.answer"]
    builder = StateGraph(Desk).add_node("a", read).add_node("b", read).add_edge(START, "a").add_edge("a", "b")
    joined = builder.add_node("c", read).add_edge(START, "c").add_edge(["b", "c"], END).compile()
    assert [*find_places(joined, [run(wrote)], "question")] == ["START.question", "a.answer"]


def make_looped(route: Callable[[Desk], Any], ends: Any = None) -> Graph:
    """A node whose router sends it to itself, by way of another one, or to the end."""
    builder = StateGraph(Desk).add_node(read).add_node("ask", read)
    builder.add_edge(START, "read").add_conditional_edges("read", route, ends).add_edge("ask", "read")
    return builder.compile()


def choose(state: Desk) -> Literal["ask", "__end__"]:
    return "__end__" if "Read Read" in state["question"] + state["answer"] else "ask"


def test_an_agent_comes_before_one_end_of_a_router_where_it_was_a_text_that_led_there() -> None:
    graph, reader = make_looped(choose), UpdateReader()
    graph.invoke({"question": "Read"}, {"callbacks": [reader]})
    assert reader.led == {"read": {"__end__": ["answer"]}}
    noted = Trajectory(question=Question(id="1", input="x"), workflow="x", notes={LED: reader.led})
    other = noted.replace(notes={LED: {"read": {"ask": []}}})
    found = find_places(graph, [noted, other], "")
    assert [*found] == ["read.answer to END"]
    place = found["read.answer to END"]
    assert place.describe() == "what read has written into answer, before END if code leads there"
    made = make(graph, place.replace(agent="checker"))
    assert list_conditional_edges(made.builder) == {("read", "ask"): ("ask",), ("read", "checker"): ("__end__",)}
    assert ask(made, {"question": "Read"})["answer"].startswith("<text>\nRead Read\n</text>\n\nYou check it. checker")
    assert list_conditional_edges(graph.builder) == {("read", "ask"): ("ask",), ("read", END): ("__end__",)}
    once_not = noted.replace(notes={LED: {"read": {"__end__": []}}})
    assert not find_places(graph, [noted, once_not], "")


def test_a_visit_that_writes_nothing_counts_where_a_router_leads_on() -> None:
    def write(state: Desk) -> dict[str, str] | None:
        return {"answer": "a text"} if state["question"] == "a" else None

    builder = StateGraph(Desk).add_node(write).add_node("ask", read).add_edge(START, "write").add_edge("ask", END)
    graph, noted = builder.add_conditional_edges("write", lambda state: "ask", ["ask", END]).compile(), []
    for question, fields in (("a", ["answer"]), ("b", [])):
        reader = UpdateReader()
        graph.invoke({"question": question}, {"callbacks": [reader]})
        assert reader.led == {"write": {"ask": fields}}
        noted.append(Trajectory(question=Question(id="1", input="x"), workflow="x", notes={LED: reader.led}))
    assert [*find_places(graph, noted[:1], "")] == ["write.answer to ask"]
    assert not find_places(graph, noted, "")


def test_steps_of_a_sequence_are_no_routers() -> None:
    steps: Any = (
        RunnableLambda(lambda state: "a long reply") | (lambda text: text.upper()) | (lambda text: {"answer": text})
    )
    builder = StateGraph(Desk).add_node("write", steps).add_node(read).add_edge(START, "write")
    alone, reader = builder.add_edge("write", "read").compile(), UpdateReader()
    alone.invoke({"question": "it"}, {"callbacks": [reader]})
    assert (reader.led, reader.list_texts()) == ({}, {"write": ["answer"], "read": ["answer"]})
    routed = StateGraph(Desk).add_node("write", steps).add_node(read).add_edge(START, "write")
    routed.add_conditional_edges("write", lambda state: "read", ["read", END]).compile().invoke(
        {"question": "it"}, {"callbacks": [reader := UpdateReader()]}
    )
    assert reader.led == {"write": {"read": ["answer"]}}


class Verdict(str, Enum):  # noqa: UP042 - as many programs have it
    """What a router returns as a member of an Enum."""

    OPEN = "open"
    DONE = "done"


@pytest.mark.parametrize("ends", [{"open": "ask", "done": END}, {Verdict.OPEN: "ask", Verdict.DONE: END}])
def test_a_router_may_return_members_of_an_enum(ends: dict[Any, str]) -> None:
    graph, reader = make_looped(lambda state: Verdict.DONE, ends), UpdateReader()
    graph.invoke({"question": "it"}, {"callbacks": [reader]})
    noted = Trajectory(question=Question(id="1", input="x"), workflow="x", notes={LED: reader.led})
    assert [*find_places(graph, [noted], "")] == ["read.answer to END"]


def test_a_router_that_leads_to_several_at_once_gives_no_places() -> None:
    graph, reader = make_looped(lambda state: ["__end__"], ["ask", END]), UpdateReader()
    graph.invoke({"question": "it"}, {"callbacks": [reader]})
    assert reader.led == {"read": {"__end__": []}}
    assert not list_conditional_edges(make_looped(lambda state: END).builder)
    builder = StateGraph(Desk).add_node(read).add_node("ask", read).add_edge(START, "read").add_edge("read", "ask")
    beside = builder.add_conditional_edges("read", choose).add_edge("ask", END).compile()
    assert not list_conditional_edges(beside.builder)


def test_agents_on_edges_of_one_router_stay_on_their_own() -> None:
    conditional = {"is_conditional": True}
    team = make_team(
        insert("read", END, "a", **conditional), insert("read", "ask", "b", **conditional), insert("a", END, "c"),
        insert("read", "a", "d", **conditional),
    )  # fmt: skip
    assert [(found.agent, found.after, found.before, found.is_conditional) for found in list_insertions(team)] == [
        ("d", "read", (END,), True),
        ("a", "d", (END,), False),
        ("c", "a", (END,), False),
        ("b", "read", ("ask",), True),
    ]
    made = make(make_looped(choose), *list_insertions(team))
    assert list_conditional_edges(made.builder) == {("read", "b"): ("ask",), ("read", "d"): ("__end__",)}
    assert {("d", "a"), ("a", "c"), ("c", END), ("b", "ask")} <= made.builder.edges


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (insert("read", END, is_conditional=True), "'checker' needs the edge read -> END"),
        (insert("decide", END), "'checker' needs the edge decide -> END, which 'my_app:graph' does not have any more"),
        (insert("read", "x"), "the edge read -> x"),
        (insert("read", END, field="note"), "the field 'note' of the state"),
        (insert("read", END, question="ask"), "the field 'ask' of the state"),
        (insert("read", END, "read"), "agent 'read' cannot be a node of 'my_app:graph'"),
    ],
)
def test_what_a_program_does_not_have_any_more_is_named(found: Insertion, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        make(make_pipeline(), found)
    with pytest.raises(ConfigError, match="'my_app:graph' is no StateGraph any more"):
        build_variant("my_app:graph", model, make_team(found))


def test_agents_behind_one_that_was_taken_out_move_up() -> None:
    team = make_team(insert("read", END, "a"), insert("a", END, "b"), insert("read", "a", "c"), insert("b", END, "d"))
    [(root, ends, chain)] = list_chains(list_insertions(team))
    assert (root, ends, [found.agent for found in chain]) == ("read", (END,), ["c", "a", "b", "d"])
    fewer = team.apply(Rewiring(RemoveAgent("a"), RemoveAgent("b"), why="of no use"))
    assert [(found.agent, found.after, found.before) for found in list_insertions(fewer)] == [
        ("c", "read", (END,)),
        ("d", "c", (END,)),
    ]
    assert make(make_pipeline(), *list_insertions(fewer)).builder.edges == {
        (START, "read"), ("read", "c"), ("c", "d"), ("d", END),
    }  # fmt: skip


def test_what_nodes_write_is_read_from_their_updates() -> None:
    replies: list[Any] = [
        lambda state: {"answer": "x", "parts": []},
        lambda state: {"answer": None},
        lambda state: Command(update={"answer": "x"}),
        lambda state: make_pipeline().invoke({"question": "it"}),
        make_pipeline(),
    ]
    builder = StateGraph(Desk)
    for before, name, reply in zip((START, *"abcd"), "abcde", replies, strict=True):
        builder.add_node(name, reply).add_edge(before, name)
    graph, updates = builder.compile(), UpdateReader()
    graph.invoke({"question": "it"}, {"callbacks": [updates]})
    both = ["question", "answer"]
    assert updates.list_texts() == {"a": ["answer"], "b": [], "c": ["answer"], "d": both, "e": both}


# nodes that are taken out


def write(name: str) -> Any:
    return lambda state: {"answer": f"{state.get('answer', '')}{name}"}


def make_line(names: str, **compiled: Any) -> Graph:
    builder = StateGraph(Desk)
    for before, name in zip((START, *names), names, strict=False):
        builder.add_node(name, write(name)).add_edge(before, name)
    return builder.add_edge(names[-1], END).compile(**compiled)


def make_line_team(names: str) -> Team:
    agents = tuple(Agent(id=name, prompt=f"You are {name}.") for name in (*names, "graph"))
    return Team(method="x", agents=agents, topology=make_chain(*names, "graph"))


def find(
    graph: Any, passed: dict[str, bool], texts: dict[str, list[str]], team: Team | None = None
) -> tuple[list[str], Any]:
    done = Trajectory(question=Question(id="1", input="x"), workflow="x", notes={PASSED: passed})
    found, why = find_removals(graph, [done], texts, team or make_line_team("abcd"))
    return [f"{'+'.join(removal.after)} {removal.node} {removal.before}" for removal in found], why


ALL = {name: [name] for name in "abcd"}


def test_a_node_between_two_edges_that_wrote_over_what_stood_there_may_go() -> None:
    found, why = find(make_line("abcd"), {"a": True, "b": True, "c": False}, {**ALL, "d": []})
    assert found == ["a b c"]
    assert why == {
        "a": "its prompt is the first of the program, with which every run begins",
        "c": "it does more than ask a model and write over a text that stood there already",
        "d": "no prompt is known that it alone sends",
    }
    assert find(model, {"a": True}, ALL) == ([], {})


def make_fork(*ends: Literal["b", "c", "d"]) -> Graph:
    """Make a graph whose code leads from a to one of some ends; b and c lead to d, which is the last."""

    def decide(state: Desk) -> str:
        return state["question"]

    builder = StateGraph(Desk)
    for name in "abcd":
        builder.add_node(name, write(name))
    builder.add_edge(START, "a").add_conditional_edges("a", decide, [*ends])
    return builder.add_edge("b", "d").add_edge("c", "d").add_edge("d", END).compile()


def test_a_node_behind_several_others_goes_and_each_of_these_is_led_past_it() -> None:
    graph, team = make_fork("b", "c"), make_line_team("abcd")
    found, _ = find(graph, dict.fromkeys("abcd", True), ALL)
    assert found == ["b+c d __end__"]
    [removal] = find_removals(graph, None, ALL, team)[0]
    assert removal.describe() == "d is taken out, and what b or c hands on goes to END as it is"
    smaller = team.apply(remove_agent(team, "d")).with_memory(**{TAKEN_OUT: [removal.model_dump(mode="json")]})
    variant = build_variant("x", graph, smaller)
    assert [variant.invoke({"question": end})["answer"] for end in "bc"] == ["ab", "ac"]
    assert [graph.invoke({"question": end})["answer"] for end in "bc"] == ["abd", "acd"]
    with pytest.raises(ConfigError, match="'d' is taken out between b or c and END, where 'x' does not have it"):
        build_variant("x", make_line("abcd"), smaller)


def test_no_node_goes_that_others_than_edges_of_the_builder_lead_to() -> None:
    found, why = find(make_fork("b", "c", "d"), dict.fromkeys("abcd", True), ALL)
    assert not found
    told = "not edges of the builder alone lead to it, each the only one of its node, and one from it"
    assert set(why.values()) == {told}
    aside = StateGraph(Desk).add_node("a", write("a")).add_node("b", write("b")).add_node("c", write("c"))
    aside.add_edge(START, "a").add_edge(START, "b").add_edge("a", "c").add_edge("b", "c").add_edge("c", END)
    assert find(aside.compile(), dict.fromkeys("abc", True), ALL)[0] == []
    jumping = StateGraph(Desk).add_node("a", write("a")).add_node("b", write("b")).add_node("c", write("c"))
    jumping.add_node("d", write("d"), destinations=("c",)).add_edge(START, "a").add_edge("a", "b")
    joined = jumping.add_edge("b", "c").add_edge("c", "d").add_edge("d", END).compile()
    assert find(joined, dict.fromkeys("abcd", True), ALL)[0] == ["a b c"]


def test_no_node_goes_at_which_a_person_is_asked_or_that_is_a_graph() -> None:
    def ask(state: Desk) -> dict[str, Any]:
        return {"answer": interrupt("sure?")}

    graph = make_line("abcd", interrupt_before=["b"], interrupt_after=["c"])
    found, why = find(graph, dict.fromkeys("abcd", True), ALL)
    assert found == ["c d __end__"]
    assert why["b"] == why["c"] == "the program waits for a person at it"
    builder = StateGraph(Desk).add_node("a", write("a")).add_node("b", ask).add_node("c", make_line("x"))
    graph = builder.add_edge(START, "a").add_edge("a", "b").add_edge("b", "c").add_edge("c", END).compile()
    found, why = find(graph, dict.fromkeys("abc", True), ALL)
    assert not found
    assert (why["b"], why["c"][:24]) == ("the program waits for a person at it", "it is a graph of its own")
    assert find(make_line("a"), {"a": True}, {"a": ["x"]})[1] == {"a": "no other node would be left"}


def test_no_node_goes_beside_an_inserted_agent() -> None:
    team = make_line_team("abcd").with_memory(**{INSERTED: [insert("b", "c", "d").model_dump(mode="json")]})
    found, why = find(make_line("abcd"), dict.fromkeys("abcd", True), ALL, team)
    assert found == ["c d __end__"]
    assert why["b"] == why["c"] == "an inserted agent stands beside it"


def test_a_node_has_passed_that_only_asked_a_model_and_wrote_over_texts() -> None:
    builder, updates = StateGraph(Desk), UpdateReader()
    nodes = {
        "first": lambda state: {"answer": "x"},
        "over": lambda state: {"answer": model.invoke(state["answer"]).text},
        "silent": lambda state: {},
        "lists": lambda state: {"parts": ["x"]},
        "inner": lambda state: {"answer": make_pipeline().invoke({"question": "it"})["answer"]},
        "jumps": lambda state: Command(update={"answer": "x"}),
    }
    for before, (name, action) in zip((START, *nodes), nodes.items(), strict=False):
        builder.add_node(name, action).add_edge(before, name)
    builder.compile().invoke({"question": "it"}, {"callbacks": [updates]})
    assert [name for name, passed in updates.passed.items() if passed] == ["over", "silent"]


def test_no_node_goes_behind_which_an_agent_stands_beside_one_where_several_lead_to_it() -> None:
    builder = StateGraph(Desk)
    for name in "abcde":
        builder.add_node(name, write(name))
    builder.add_edge(START, "a").add_conditional_edges("a", lambda state: "b", ["b", "c"]).add_edge("d", "e")
    graph = builder.add_edge("b", "d").add_edge("c", "d").add_edge("e", END).compile()
    texts, names = {**ALL, "e": ["e"]}, ("expert", "merge")
    beside = Specialist(agent="expert", beside="e", after="d", field="answer", reads=("answer",), merge="merge")
    team = make_line_team("abcde")
    grown = team.replace(agents=(*team.agents, *(Agent(id=name, prompt=name) for name in names))).with_memory(
        **{BESIDE: [beside.model_dump(mode="json")]}
    )
    assert find(graph, dict.fromkeys("abcde", True), texts, team)[0] == ["b+c d e", "d e __end__"]
    found, why = find(graph, dict.fromkeys("abcde", True), texts, grown)
    assert (found, why["d"]) == ([], "an inserted agent stands beside it")


def test_a_program_that_lacks_the_node_is_refused() -> None:
    gone = Removal(node="b", after=("a",), before="d", agents=("b",)).model_dump(mode="json")
    with pytest.raises(ConfigError, match="'b' is taken out between a and d, where 'my_app:graph' does not have it"):
        build_variant("my_app:graph", make_line("abc"), make_team().with_memory(**{TAKEN_OUT: [gone]}))


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 6), st.data())
def test_what_is_taken_out_is_left_out_and_nothing_frozen_goes(size: int, data: st.DataObject) -> None:
    names = "abcdef"[:size]
    graph, team = make_line(names), make_line_team(names)
    edges, answer = {*graph.builder.edges}, graph.invoke({"question": "it"})["answer"]
    assert build_variant("my_app:graph", graph, team) is graph
    gone = data.draw(st.sets(st.sampled_from(names[1:])), label="taken out")
    frozen = data.draw(st.sets(st.sampled_from(["edges", "prompts", *(f"agent:{name}" for name in names)])), "frozen")
    around = dict(zip(names, zip((START, *names), (*names[1:], END), strict=False), strict=False))
    removals = [Removal(node=n, after=(around[n][0],), before=around[n][1], agents=(n,)) for n in sorted(gone)]
    rewirings, now = list[Rewiring](), team
    for removal in removals:
        rewirings.append(remove_agent(now, removal.node))
        now = now.apply(rewirings[-1])
    kept, _ = drop_frozen(team, rewirings, [*frozen], team)
    after = team.apply_legal(kept)[0].with_memory(**{TAKEN_OUT: [removal.model_dump() for removal in removals]})
    out = {removal.node for removal in list_removals(after)}
    assert not find_frozen_change(team, after, [*frozen])
    assert out <= gone - {part.removeprefix("agent:") for part in frozen}
    assert not ("edges" in frozen and out)
    assert build_variant("x", graph, after).invoke({"question": "it"})["answer"] == "".join(
        name for name in names if name not in out
    )
    assert (graph.builder.edges, graph.invoke({"question": "it"})["answer"]) == (edges, answer)


# agents beside nodes


def beside(graph: Graph, read: dict[str, list[str]], *insertions: Insertion) -> tuple[dict[str, Specialist], Any]:
    variant = make(graph, *insertions)
    done = Trajectory(question=Question(id="1", input="x"), workflow="x", notes={READ: read, WROTE: WROTE_ALL})
    return find_specialists(graph, variant, [done], find_places(variant, [done], "question").values())


def test_an_agent_may_work_beside_a_node_whose_model_and_fields_are_known() -> None:
    graph = make_pipeline()
    found, why = beside(graph, {"read": ["question", "parts"]})
    assert found["beside read.answer"] == Specialist(
        agent="new", beside="read", after=START, field="answer", reads=("question",), question="question"
    )
    assert not why
    assert beside(graph, {})[1] == {"beside read.answer": "no field of the state is known that read shows to its model"}
    nameless = StateGraph(Desk).add_node("read", write("x")).add_edge(START, "read").add_edge("read", END).compile()
    assert "does not name one chat model" in beside(nameless, {"read": ["question"]})[1]["beside read.answer"]
    again, _ = beside(graph, {"read": ["question"], "checker": ["answer"]}, insert("read", END))
    assert not again.keys() - {"beside read.answer"}


def test_no_agent_works_beside_a_node_to_which_code_leads() -> None:
    def decide(state: Desk) -> Literal["read", "__end__"]:
        return "read"

    builder = StateGraph(Desk).add_node("first", write("x")).add_node(read)
    builder.add_conditional_edges(START, decide).add_edge("first", "read").add_edge("read", END)
    found, why = beside(builder.compile(), {"read": ["question"]})
    assert not found
    assert why["beside read.answer"] == "not one edge of the builder alone leads to it"


def make_expert(graph: Graph, prompt: str = "You judge.") -> Graph:
    found = Specialist(
        agent="expert", beside="read", after=START, field="answer", reads=("question",), question="question",
        merge="joiner",
    )  # fmt: skip
    merge = insert("read", END, "joiner", question="question")
    team = make_team(merge).apply(Rewiring(AddAgent(Agent(id="expert", prompt=prompt)), why="a view"))
    made: Graph = build_variant("my_app:graph", graph, team.with_memory(**{BESIDE: [found.model_dump(mode="json")]}))
    return made


async def test_both_read_the_same_at_once_and_a_third_agent_reads_both() -> None:
    class Typed(BaseModel):
        question: str
        answer: str = ""

    def read_typed(state: Typed) -> dict[str, Any]:
        return {"answer": model.invoke(f"Read {state.question}").text}

    typed = StateGraph(Typed).add_node("read", read_typed).add_edge(START, "read").add_edge("read", END).compile()
    for graph in (make_pipeline(), typed):
        edges, made = {*graph.builder.edges}, make_expert(graph)
        with TextLayer((), None, ParrotFakeChatModel).active():
            steps = [*made.stream({"question": "it"})]
            waited = await made.ainvoke({"question": "it"})
        assert [sorted(step) for step in steps] in (
            [["read"], ["expert"], ["joiner"]],
            [["expert"], ["read"], ["joiner"]],
        )
        said = waited["answer"]
        assert said.startswith(
            "<task>\nit\n</task>\n\n<text>\nRead it\n</text>\n\n<more>\n<task>\nit\n</task>\n\nYou judge.\n\nWhat you "
        )
        assert said.endswith(
            "You check it. joiner\n\nReply with the whole text that takes the place of what stands "
            "between <text> and </text>, and with nothing else."
        )
        assert waited.keys() == {"question", "answer"}
        assert (graph.builder.edges, {*graph.builder.channels}) == (
            edges,
            graph.builder.channels.keys() - {"expert_text"},
        )


def test_what_requests_show_of_the_state_is_read() -> None:
    builder, updates = StateGraph(Desk), UpdateReader()
    builder.add_node(read).add_node("b", lambda state: {"answer": model.invoke("none").text})
    builder.add_edge(START, "read").add_edge("read", "b")
    builder.compile().invoke({"question": "it?", "parts": ["x"], "answer": " "}, {"callbacks": [updates]})
    assert updates.read == {"read": ["question"], "b": []}


@settings(max_examples=30, deadline=None)
@given(st.sets(st.sampled_from(["edges", "prompts", "tools", "agent:a", "agent:b", "agent:c"])))
def test_no_agent_comes_in_beside_a_node_where_edges_are_frozen(frozen: set[str]) -> None:
    graph, team = make_line("abc"), make_line_team("abc")
    agents = [Agent(id=name, prompt=f"You are {name}.") for name in ("expert", "joiner")]
    ends = AddEdge("a", "expert"), AddEdge("expert", "joiner"), AddEdge("a", "joiner"), AddEdge("joiner", "graph")
    added = [*map(AddAgent, agents), *(AddNode(agent.id, agent.id) for agent in agents), *ends]
    kept, _ = drop_frozen(team, [Rewiring(edits=tuple(added), why="a view")], [*frozen], team)
    found = Specialist(agent="expert", beside="b", after="a", field="answer", reads=("answer",), merge="joiner")
    memory = {INSERTED: [insert("b", "c", "joiner").model_dump()], BESIDE: [found.model_dump()]}
    after = team.apply_legal(kept)[0].with_memory(**memory)
    made = build_variant("x", graph, after)
    assert not find_frozen_change(team, after, [*frozen])
    assert (made is graph) == ("edges" in frozen)
    assert ("expert" in made.builder.nodes) == ("edges" not in frozen)
