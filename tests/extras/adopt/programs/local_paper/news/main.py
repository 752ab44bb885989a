from typing import TypedDict

from langgraph.graph import END, START, StateGraph

from .steps import ORDER, load


class Paper(TypedDict, total=False):
    facts: str
    town: str
    headline: str
    body: str
    ok: bool
    retry: bool
    tries: int


def route(state: Paper) -> str:
    return "print" if state["ok"] or state["tries"] > 1 else "again"


def build(steps=None):
    g = StateGraph(Paper)
    for name, run in (steps or load()).items():
        g.add_node(name, run)
    previous = START
    for name in ORDER:
        g.add_edge(previous, name)
        previous = name
    g.add_conditional_edges("check", route, {"print": END, "again": "body"})
    return g.compile()


paper = build()
