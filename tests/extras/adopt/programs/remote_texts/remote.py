import importlib
import os
import pickle
from pathlib import Path

import requests
from langchain import hub  # type: ignore[attr-defined]
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.pregel.remote import RemoteGraph
from sqlalchemy import create_engine, text

engine = create_engine(os.environ["DB_URL"])
llm = ChatOpenAI(model=os.environ.get("MODEL", "gpt-4o"))
remote = RemoteGraph("billing", url="https://billing.example")


def from_db(name: str) -> str:
    with engine.connect() as connection:
        return connection.execute(text("SELECT body FROM prompts WHERE name = :n"), {"n": name}).scalar_one()


def a(state: MessagesState):
    return {"messages": [llm.invoke([("system", from_db("a")), *state["messages"]])]}


def b(state: MessagesState):
    system = requests.get("https://prompts.example/b.txt", timeout=5).text
    return {"messages": [llm.invoke([("system", system), *state["messages"]])]}


def c(state: MessagesState):
    system = os.environ["C_PROMPT"]
    return {"messages": [llm.invoke([("system", system), *state["messages"]])]}


def d(state: MessagesState):
    module = importlib.import_module(f"prompts_{os.environ['LANG']}")
    return {"messages": [llm.invoke([("system", module.PROMPT), *state["messages"]])]}


def e(state: MessagesState):
    with open(os.environ["PROMPT_FILE"]) as fh:
        system = fh.read()
    return {"messages": [llm.invoke([("system", system), *state["messages"]])]}


def f(state: MessagesState):
    prompt = hub.pull("acme/rag")
    return {"messages": [(prompt | llm).invoke({"context": "", "question": ""})]}


def h(state: MessagesState):
    prompts = pickle.loads(Path("prompts.pkl").read_bytes())
    return {"messages": [llm.invoke([("system", prompts["h"]), *state["messages"]])]}


async def make_graph():
    client = MultiServerMCPClient({"math": {"command": "python", "args": ["math_server.py"], "transport": "stdio"}})
    tools = await client.get_tools()
    graph = StateGraph(MessagesState)
    for node in (a, b, c, d, e, f, h):
        graph.add_node(node.__name__, node)
    graph.add_node("tools", ToolNode(tools))
    graph.add_node("billing", remote)
    graph.add_sequence
    graph.add_edge(START, "a")
    graph.add_edge("a", "b")
    graph.add_edge("b", "c")
    graph.add_edge("c", "d")
    graph.add_edge("d", "e")
    graph.add_edge("e", "f")
    graph.add_edge("f", "h")
    graph.add_edge("h", "tools")
    graph.add_edge("tools", "billing")
    graph.add_edge("billing", END)
    return graph.compile()
