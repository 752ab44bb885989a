"""A team of a graph of the user's own is a compiled graph: streamed, checkpointed, interrupted, a node of another."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.pregel import Pregel
from langgraph.types import Command
from langgraph_sdk import get_sync_client

import selfwire
from selfwire.core.errors import ConfigError
from selfwire.core.team import Team
from selfwire.graphs.own_graph import OwnGraph, load_graph
from tests.graphs.desk import open_shop
from tests.graphs.dev_server import dev_server

APP = """
import os
from typing import TypedDict

from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from pydantic import BaseModel, Field

model = ChatOpenAI(model="mine", base_url=os.environ["MY_MODEL"], api_key="k", max_retries=0)


class Limits(BaseModel):
    sentences: int = Field(default=1, ge=1, le=3)


class Desk(TypedDict, total=False):
    question: str
    wish: str
    answer: str


def read(state: Desk, runtime: Runtime[Limits]) -> dict:
    said = model.invoke(f"Say what this customer wants: {state['question']}").text
    return {"wish": f"{said} {runtime.context.sentences if runtime.context else 0}"}


def decide(state: Desk) -> dict:
    asked = f"You sort messages of a shop. {state['wish']}"
    return {"answer": model.invoke(asked).text}


def ask(state: Desk) -> dict:
    return {"answer": f"{state['answer']}, {interrupt('send it?')}"}


builder = StateGraph(Desk, context_schema=Limits)
builder.add_node(read)
builder.add_node(decide)
builder.add_edge(START, "read")
builder.add_edge("read", "decide")
graph = builder.compile()
builder.add_node(ask)
builder.add_edge("decide", "ask")
waiting = builder.compile()
chain = RunnableLambda(lambda question: model.invoke(f"You sort messages of a shop. {question}").text)
"""
OLD, NEW = "You sort messages of a shop.", "You write the desk's name."
ASKED = {"question": "It crashes."}
ANSWER = {"question": "It crashes.", "wish": "help 2", "answer": "tech"}


class Shop:
    """The model of the program, which names the desk if it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, kind: str, body: dict[str, Any]) -> str:
        said = str(body["messages"][-1]["content"])
        self.asked.append(said)
        return "help" if said.startswith("Say what") else "tech" if NEW in said else "I think that it is tech."


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def home(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with open_shop(APP, {}, shop, tmp_path, monkeypatch) as folder:
        yield folder


def make_team(graph: str = "graph") -> Team:
    """The team of a graph with another prompt and another setting."""
    team = OwnGraph(f"shop_app.py:{graph}", {}).seed()
    changed = {"decide": f"{NEW} {{state['wish']}}", "sentences": "2"}
    agents = [agent.replace(prompt=changed.get(agent.id, agent.prompt)) for agent in team.agents]
    return team.replace(agents=agents)


def test_each_way_of_asking_sends_the_prompts_of_the_team(home: Path, shop: Shop) -> None:
    selfwire.save(make_team(), "desk", home=home)
    graph = selfwire.load("desk", home=home).graph()

    async def ask() -> list[Any]:
        streamed = [part async for part in graph.astream(ASKED, stream_mode="updates")]
        events = [event async for event in graph.astream_events(ASKED, version="v2")]
        return [await graph.ainvoke(ASKED), streamed, events[-1]["data"]["output"]]

    updates = [{"read": {"wish": "help 2"}}, {"decide": {"answer": "tech"}}]
    assert isinstance(graph, Pregel)
    assert graph.invoke(ASKED) == ANSWER
    assert list(graph.stream(ASKED, stream_mode="updates")) == updates
    assert graph.batch([ASKED, ASKED]) == [ANSWER, ANSWER]
    assert asyncio.run(ask()) == [ANSWER, updates, ANSWER]
    assert graph.with_config(tags=["served"]).invoke(ASKED) == ANSWER
    assert (
        graph.copy(update={"checkpointer": InMemorySaver()}).invoke(ASKED, {"configurable": {"thread_id": 1}}) == ANSWER
    )
    assert not [said for said in shop.asked if OLD in said]


def test_what_runs_between_two_steps_and_the_program_itself_send_their_own(home: Path, shop: Shop) -> None:
    program = load_graph("shop_app.py:graph")
    for _ in make_team().graph().stream(ASKED):
        program.invoke({**ASKED, "answer": ""})
    assert [OLD in said for said in shop.asked if not said.startswith("Say what")] == [True, False, True]


def test_an_edited_team_takes_no_reply_to_another_prompt_from_the_cache_of_the_program(home: Path, shop: Shop) -> None:
    source = APP.replace("add_node(decide)", "add_node(decide, cache_policy=CachePolicy(key_func=lambda _: 'key'))")
    source = source.replace("import interrupt", "import CachePolicy, interrupt")
    source = "from langgraph.cache.memory import InMemoryCache\n" + source
    source = source.replace("graph = builder.compile()", "graph = builder.compile(cache=InMemoryCache())")
    Path("cached_app.py").write_text(source, encoding="utf-8")
    edited = make_team().replace(method="cached_app.py:graph")
    as_it_is = edited.replace(agents=OwnGraph("cached_app.py:graph", {}).seed().agents)
    answers = [team.graph().invoke(ASKED)["answer"] for team in (as_it_is, edited, as_it_is)]
    assert answers == ["I think that it is tech.", "tech", "I think that it is tech."]
    assert [OLD in said for said in shop.asked if not said.startswith("Say what")] == [True, False]  # the last: cached


def test_a_context_of_the_caller_comes_before_that_of_the_team(home: Path) -> None:
    graph = make_team().graph()
    assert graph.invoke(ASKED, context={"sentences": 3})["wish"] == "help 3"
    assert graph.invoke(ASKED, context={})["wish"] == "help 2"


def test_a_config_of_the_caller_comes_before_the_settings_of_the_team_however_it_is_given(home: Path) -> None:
    source = APP.replace("RunnableLambda\n", "RunnableConfig, RunnableLambda\n")
    source = source.replace("runtime: Runtime[Limits])", "runtime: Runtime[Limits], config: RunnableConfig)")
    source = source.replace("else 0}", "else 0} {config['configurable']['sentences']}")
    Path("configured_app.py").write_text(source, encoding="utf-8")
    graph = make_team().replace(method="configured_app.py:graph").graph()
    assert graph.invoke(ASKED)["wish"] == "help 2 2"
    assert graph.invoke(ASKED, {"configurable": {"sentences": 3}})["wish"] == "help 2 3"
    assert graph.with_config(configurable={"sentences": 3}).invoke(ASKED)["wish"] == "help 2 3"


def test_an_interrupt_waits_in_a_checkpoint_and_is_resumed(home: Path, shop: Shop) -> None:
    graph, config = make_team("waiting").graph(checkpointer=InMemorySaver()), {"configurable": {"thread_id": "1"}}
    assert graph.invoke(ASKED, config)["__interrupt__"][0].value == "send it?"
    assert graph.get_state(config).next == ("ask",)
    assert graph.invoke(Command(resume="yes"), config)["answer"] == "tech, yes"
    assert len(shop.asked) == 2


def test_it_is_a_node_of_another_graph_that_keeps_its_checkpoints(home: Path, shop: Shop) -> None:
    state = OwnGraph("shop_app.py:graph", {}).graph.builder.state_schema  # type: ignore[attr-defined]
    outer = StateGraph(state).add_node("desk", make_team("waiting").graph()).add_edge(START, "desk")
    app: Any = outer.compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    parts = list(app.stream(ASKED, config, stream_mode="updates", subgraphs=True))
    assert [next(iter(part)) for _, part in parts] == ["read", "decide", "__interrupt__", "__interrupt__"]
    assert app.invoke(Command(resume="no"), config)["answer"] == "tech, no"
    assert not [said for said in shop.asked if OLD in said]


def test_what_cannot_be_compiled_says_what_can(home: Path) -> None:
    with pytest.raises(ConfigError, match=r"a RunnableLambda and no LangGraph; ask the team with selfwire.run"):
        OwnGraph("shop_app.py:chain", {}).seed().graph()
    with pytest.raises(ConfigError, match="is a graph of your own, with which budget, tools cannot be used"):
        make_team().graph(tools=[len], budget=1)


@pytest.mark.slow
def test_langgraph_dev_serves_it_and_an_interrupt_waits_on_the_server(home: Path, shop: Shop, tmp_path: Path) -> None:
    selfwire.save(make_team("waiting"), "desk", home=home)
    place = tmp_path / "served"
    place.mkdir()
    (place / "shop_app.py").write_text(APP, encoding="utf-8")
    (place / "serve.py").write_text("import selfwire\n\ngraph = selfwire.load('desk').graph()\n", encoding="utf-8")
    (tmp_path / "graphs.json").write_text(json.dumps({"dependencies": ["."], "graphs": {"desk": "./serve.py:graph"}}))
    with dev_server(place, home, tmp_path / "graphs.json") as address, get_sync_client(url=address) as client:
        thread = client.threads.create()["thread_id"]
        said = client.runs.wait(thread, "desk", input=ASKED)
        assert said["__interrupt__"][0]["value"] == "send it?"  # type: ignore[call-overload]
        done: Any = client.runs.wait(thread, "desk", command={"resume": "yes"})
    assert done["answer"] == "tech, yes"
    assert [NEW in text for text in shop.asked] == [False, True]
