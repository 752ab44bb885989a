"""Descriptions of a graph's tools are evolved as its prompts are, and names and arguments of the tools stay."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from tests.commands import call
from tests.wire.server import Body, WireServer, asked_kind

AGENT = '''
import os

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

model = ChatOpenAI(model="mine", base_url=os.environ["MY_MODEL"], api_key="k", max_retries=0)
STATES = {f"A{number}": ("sent", "paid", "lost")[number % 3] for number in range(99)}


@tool(parse_docstring=True)
def find_order(order: str) -> str:
    """Finds orders.

    Args:
        order: The order.
    """
    return STATES.get(order, f"there is no order {order!r}")


@tool
def find_shop(town: str) -> str:
    """Finds the shop of a town."""
    return "Main Street 1"


graph = create_agent(model, [find_order, find_shop], system_prompt="You answer customers of a shop.")
'''
NODES = """
import os

from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

STATES = {f"A{number}": ("sent", "paid", "lost")[number % 3] for number in range(99)}


async def find(order: str) -> str:
    return STATES.get(order, f"there is no order {order!r}")


tools = [StructuredTool.from_function(coroutine=find, name="find_order", description="Finds orders.")]
model = ChatOpenAI(model="mine", base_url=os.environ["MY_MODEL"], api_key="k", max_retries=0, streaming=True)


async def chat(state: MessagesState) -> dict:
    return {"messages": [await model.bind_tools(tools).ainvoke(state["messages"])]}


builder = StateGraph(MessagesState)
builder.add_node(chat)
builder.add_node(ToolNode(tools))
builder.add_edge(START, "chat")
builder.add_conditional_edges("chat", tools_condition)
builder.add_edge("tools", "chat")
graph = builder.compile()
"""
GOOD = "Finds the state of an order by its number, a letter and digits."
STATES = ("sent", "paid", "lost")


class Model:
    """The model behind everything: it calls the tool with a name, and with the number once its description says so."""

    def __init__(self) -> None:
        self.asked: list[Body] = []
        self.wish = {"overall_feedback": "", "concerns": "semantics"}
        self.rewrites = [f"{GOOD}\nArgs:\n    number: The number.", GOOD]

    async def __call__(self, body: Body) -> AIMessage:
        self.asked.append(body)
        kind, said = asked_kind(body), "\n".join(str(message["content"]) for message in body["messages"])
        if kind:
            return AIMessage(json.dumps(self.criticise(kind, said)))
        last = body["messages"][-1]
        if last["role"] == "tool":
            return AIMessage(f"The state: {last['content']}.")
        described = next(tool["function"] for tool in body["tools"] if tool["function"]["name"] == "find_order")
        number = re.search(r"A\d+", last["content"])
        assert number
        order = number[0] if GOOD in described["description"] else "Ann's"
        return AIMessage("", tool_calls=[{"id": "c1", "name": "find_order", "args": {"order": order}}])

    def criticise(self, kind: str, said: str) -> Body:
        if kind == "GlobalGradient":
            blamed = "critical" if "and offers tools" in said else "neutral"
            own = "Call find_order with the number." if blamed == "critical" else ""
            return {"feedback": "The order was not found.", "own_feedback": own, "sentiment": blamed}
        if kind == "AgentGradient":
            return {
                "system_prompt_feedback": "",
                "tool_feedback": "find_order was called with a name.",
                **self.wish,
                "sentiment": "critical",
            }
        assert kind == "PromptRewrite"
        if "<name>" not in said:
            return {"prompt": "You answer customers of a shop."}
        return {"prompt": self.rewrites.pop(0) if len(self.rewrites) > 1 else self.rewrites[0]}


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def home(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    Path("order_app.py").write_text(AGENT, encoding="utf-8")
    Path("node_app.py").write_text(NODES, encoding="utf-8")
    rows = [{"input": f"Where is Ann's order A{n}?", "reference": STATES[n % 3]} for n in range(30)]
    Path("orders.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with WireServer(model) as server:
        monkeypatch.setenv("MY_MODEL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        yield tmp_path / "home"


def evolve(home: Path, graph: str, *more: str, code: int = 0) -> Any:
    asked = ("--model", "openai:mine", "--base-url", os.environ["MY_MODEL"], "--retries", "0")
    tasks = ("--benchmark", "orders.jsonl", "--grader", "contains", "--iterations", "2", "--batch", "2")
    return call(home, "evolve", graph, *tasks, "--name", "desk", *asked, *more, code=code)


def find_shown(model: Model, kind: str) -> list[str]:
    return [str(body["messages"][-1]["content"]) for body in model.asked if asked_kind(body) == kind]


def test_a_description_is_mended_and_taken_home(home: Path, model: Model) -> None:
    done = evolve(home, "order_app.py:graph", "--freeze", "agent:graph-2")
    assert "evolved - seed, paired over 10 tasks: +1.00" in done.output
    assert "'Args:' begins a section, which stays in the source as it is" in done.output  # the first rewriting
    shown = find_shown(model, "AgentGradient")[0]
    assert "find_order: Finds orders.\nfind_shop: Finds the shop of a town." in shown
    assert "tool find_order(order: Ann's) -> there is no order" in shown
    assert len(find_shown(model, "PromptRewrite")) == 2  # of one tool, in two iterations
    agent = [body for body in model.asked if not asked_kind(body)][-1]
    order, shop = (tool["function"] for tool in agent["tools"])
    assert (order["name"], order["description"], shop["description"]) == (
        "find_order", GOOD, "Finds the shop of a town.",
    )  # fmt: skip
    assert order["parameters"]["properties"]["order"]["description"] == "The order."
    call(home, "export", "desk", "mine.patch")
    reason = Path("mine.patch").read_text(encoding="utf-8").splitlines()[0]
    assert reason.startswith("order_app.py:14 find-order: find_order was called with a name.")
    subprocess.run(["git", "apply", "mine.patch"], check=True)
    assert Path("order_app.py").read_text(encoding="utf-8") == AGENT.replace("Finds orders.", GOOD)


def test_critics_who_ask_an_agent_of_langchain_for_a_step_are_told_the_way_out(home: Path, model: Model) -> None:
    model.wish = {"overall_feedback": "Nobody checks the answer.", "concerns": "topology"}
    done = evolve(home, "order_app.py:graph", "--iterations", "1")
    assert "make it a node of a StateGraph of yours" in " ".join(done.output.split())
    assert not find_shown(model, "ProgramEdit")


def test_a_tool_of_an_agent_without_a_prompt_is_blamed_where_the_answer_is(home: Path, model: Model) -> None:
    done = evolve(home, "node_app.py:graph")
    assert "evolved - seed, paired over 10 tasks: +1.00" in done.output
    assert "and offers tools:\nfind_order: Finds orders." in find_shown(model, "GlobalGradient")[0]
    call(home, "export", "desk", "mine.patch")
    subprocess.run(["git", "apply", "mine.patch"], check=True)
    assert Path("node_app.py").read_text(encoding="utf-8") == NODES.replace("Finds orders.", GOOD)


def test_frozen_tools_keep_their_descriptions(home: Path, model: Model) -> None:
    evolve(home, "order_app.py:graph", "--freeze", "tools")
    assert not [text for text in find_shown(model, "PromptRewrite") if "<name>" in text]
    refused = evolve(home, "node_app.py:graph", "--freeze", "tools", code=2)
    told = "only prompts, descriptions of tools, settings and edges of its builder are evolved, and all are frozen"
    assert told in " ".join(refused.stderr.split())
