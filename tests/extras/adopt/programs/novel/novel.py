import functools
import os
from datetime import date
from string import Template
from textwrap import dedent
from typing import Annotated, Sequence, TypedDict

from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain.chat_models import init_chat_model
from langchain_core.messages import AnyMessage, HumanMessage, RemoveMessage, SystemMessage
from langgraph.graph import StateGraph, add_messages
from langgraph.types import Command, interrupt
from pydantic import BaseModel

llm = init_chat_model(os.getenv("NOVEL_MODEL", "openai:gpt-4o"), max_tokens=500)
LANGUAGE = os.environ.get("NOVEL_LANGUAGE", "English")


class Outline(BaseModel):
    """An outline of a novel."""

    chapters: list[str]


OUTLINE = Template("Outline a novel in $language about $theme. Date: $today.")
STYLES = {
    "noir": dedent(
        """
        Short sentences. Rain.
        Nobody is innocent.
        """
    ),
    "fairy tale": "Begin with 'Once upon a time'.",
}
CRITIC_PERSONAS: Sequence[tuple[str, str]] = (
    ("editor", "You are a strict editor."),
    ("reader", "You are a reader who gets bored easily."),
)


class Novel(TypedDict):
    theme: str
    style: str
    outline: list[str]
    messages: Annotated[list[AnyMessage], add_messages]
    summary: str


outliner = create_agent(
    llm,
    system_prompt=f"You outline novels. All chapters are in {LANGUAGE}.",
    response_format=ToolStrategy(Outline, tool_message_content="The outline was saved."),
)


def outline(state):
    ask = OUTLINE.substitute(language=LANGUAGE, theme=state["theme"], today=date.today().isoformat())
    result = outliner.invoke({"messages": [HumanMessage(ask)]})
    return {"outline": result["structured_response"].chapters}


def approve(state) -> Command:
    if os.getenv("NOVEL_APPROVE"):
        answer = interrupt("Shall I write this novel?")
        if answer != "yes":
            return Command(goto="__end__")
    return Command(goto="write")


def write(state):
    style = STYLES.get(state.get("style", ""), "Write plainly.")
    system = SystemMessage(f"Write the first chapter. {style}")
    return {"messages": [llm.invoke([system, HumanMessage("\n".join(state["outline"]))])]}


def critic(name, persona, state):
    """One critic's view."""
    reply = llm.invoke([SystemMessage(persona + " Name the weakest sentence."), *state["messages"]])
    return {"messages": [HumanMessage(reply.text, name=name)]}


def compress(state):
    kept = state.get("summary", "")
    ask = "Extend the summary: " + kept if kept else "Summarise the talk above."
    summary = llm.invoke(state["messages"] + [HumanMessage(ask)]).text
    return {"summary": summary, "messages": [RemoveMessage(id=m.id) for m in state["messages"][:-1]]}


builder = StateGraph(Novel)
builder.add_node("outline", outline)
builder.add_node("approve", approve, destinations=("write", "__end__"))
builder.add_node("write", write)
builder.add_node("compress", compress)
for name, persona in CRITIC_PERSONAS:
    builder.add_node(name, functools.partial(critic, name, persona))
    builder.add_edge("write", name)
    builder.add_edge(name, "compress")
builder.set_entry_point("outline")
builder.add_edge("outline", "approve")
builder.set_finish_point("compress")
graph = builder
