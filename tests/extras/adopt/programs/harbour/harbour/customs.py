from typing import TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

from .llm import slow


class Cargo(TypedDict):
    manifest: str
    finding: str
    cleared: bool


def inspect(state: Cargo):
    text = slow.invoke(f"List forbidden goods in this manifest:\n<manifest>{state['manifest']}</manifest>").text
    return {"finding": text}


def officer(state: Cargo):
    decision = interrupt({"finding": state["finding"]})
    return {"cleared": bool(decision)}


builder = StateGraph(Cargo)
builder.add_node("inspect", inspect)
builder.add_node("officer", officer)
builder.add_edge(START, "inspect")
builder.add_conditional_edges("inspect", lambda s: END if "none" in s["finding"] else "officer", ["officer", END])
builder.add_edge("officer", END)
customs = builder.compile()
