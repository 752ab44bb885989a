from typing import Literal, TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

from studio.agents import REGISTRY


class State(TypedDict, total=False):
    subject: str
    draft: str
    review: str
    verdict: str
    rounds: int


def again(state: State) -> Literal["painter", "__end__"]:
    if state["verdict"] == "ACCEPT" or state["rounds"] > 1:
        return END
    return "painter"


def build(model: str = "gpt-4o-mini"):
    llm = ChatOpenAI(model=model)
    extras = {"critic": "You write for a daily paper."}
    builder = StateGraph(State)
    for key, cls in REGISTRY.items():
        builder.add_node(key, cls(llm, extra=extras.get(key, "")))
    builder.add_edge(START, "painter")
    builder.add_edge("painter", "critic")
    builder.add_conditional_edges("critic", again)
    return builder.compile()


graph = build()
