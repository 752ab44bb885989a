from typing import TypedDict

from langgraph.graph import END, START, StateGraph

from . import nodes


class State(TypedDict):
    question: str
    notes: str
    summary: str


def build_graph():
    builder = StateGraph(State)
    builder.add_node("research", nodes.research)
    builder.add_node("summarise", nodes.summarise)
    builder.add_edge(START, "research")
    builder.add_edge("research", "summarise")
    builder.add_edge("summarise", END)
    return builder.compile()
