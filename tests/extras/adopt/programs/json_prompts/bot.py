import json
import os
from contextlib import asynccontextmanager
from typing import Any

import jinja2
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph

HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(HERE, "prompts.json"), encoding="utf-8") as stream:
    PROMPTS: dict[str, Any] = json.load(stream)
templates = jinja2.Environment(loader=jinja2.FileSystemLoader(os.path.join(HERE, "templates")))
llm = ChatOpenAI(model="gpt-4o")


async def chat(state: MessagesState):
    system = PROMPTS["chat"]["system"]
    return {"messages": [await llm.ainvoke([{"role": "system", "content": system}, *state["messages"]])]}


async def close(state: MessagesState):
    prompt = templates.get_template("close.j2").render(name="Ada")
    return {"messages": [await llm.ainvoke(prompt)]}


async def describe(state: MessagesState):
    parts = [
        {"type": "text", "text": "Describe the picture."},
        {"type": "image_url", "image_url": {"url": "https://example.com/picture.png"}},
    ]
    return {"messages": [await llm.ainvoke([{"role": "user", "content": parts}])]}


@asynccontextmanager
async def make_graph():
    builder = StateGraph(MessagesState)
    builder.add_node("chat", chat)
    builder.add_node("close", close)
    builder.add_node("describe", describe)
    builder.add_edge(START, "chat")
    builder.add_edge("chat", "describe")
    builder.add_edge("describe", "close")
    builder.add_edge("close", END)
    yield builder.compile()
