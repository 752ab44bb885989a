from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import ClassVar, Literal

from langchain_core.messages import AIMessage, SystemMessage
from langchain_core.tools import BaseTool, tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

log = logging.getLogger(__name__)


class GardenState(MessagesState):
    visited: list[str]


class Gardener(ABC):
    """A node that answers from the point of view of one trade."""

    name: ClassVar[str]
    footer = "Sign with your trade's name."

    def __init__(self, model: ChatOpenAI):
        self.model = model.bind_tools(self.tools) if self.tools else model
        self.prompt = self.describe()

    @property
    def tools(self) -> list[BaseTool]:
        return []

    @abstractmethod
    def describe(self) -> str: ...

    def __call__(self, state: GardenState) -> dict:
        log.info("gardener %s is asked", self.name)
        reply = self.model.invoke([SystemMessage(content=f"{self.prompt}\n{self.footer}"), *state["messages"]])
        return {"messages": [reply], "visited": state.get("visited", []) + [self.name]}


@tool
def soil_report(bed: str) -> str:
    """Return the last soil measurement of a garden bed.

    Args:
        bed: Name of the bed, such as "north".
    """
    return f"Bed {bed}: pH 6.2, dry"


class Soil(Gardener):
    name = "soil"

    @property
    def tools(self) -> list[BaseTool]:
        return [soil_report]

    def describe(self) -> str:
        return "You know soils. Measure before you advise."


class Water(Gardener):
    name = "water"
    months = ("June", "July")

    def describe(self) -> str:
        return f"You plan watering. In {' and '.join(self.months)} water twice a day."


class Pests(Gardener):
    name = "pests"
    footer = "Sign as the pest controller and warn about poisons."

    def describe(self) -> str:
        lines = ["You control pests without chemicals."]
        lines.append("Prefer useful insects.")
        return " ".join(lines)


def needs_tools(state: GardenState) -> Literal["tools", "water"]:
    last = state["messages"][-1]
    return "tools" if isinstance(last, AIMessage) and last.tool_calls else "water"


def make_graph():
    model = ChatOpenAI(model="gpt-4.1-mini")
    soil, others = Soil(model), [Water(model), Pests(model)]
    graph = StateGraph(GardenState)
    graph.add_node(soil.name, soil)
    graph.add_node("tools", ToolNode(soil.tools))
    for gardener in others:
        graph.add_node(gardener.name, gardener)
    graph.add_edge(START, "soil")
    graph.add_conditional_edges("soil", needs_tools)
    graph.add_edge("tools", "soil")
    graph.add_edge("water", "pests")
    graph.add_edge("pests", END)
    return graph.compile()


graph = make_graph()
