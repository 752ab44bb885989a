"""Counter of a pharmacy: desks register themselves, their docstrings are their prompts."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import Annotated, ClassVar, Literal

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command
from typing_extensions import TypedDict


class Counter(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    desk: str
    warnings: list[str]


class Desk(ABC):
    registry: ClassVar[dict[str, type[Desk]]] = {}
    temperature: ClassVar[float] = 0.0
    closing: ClassVar[str] = "Never name a dose without the leaflet."

    def __init_subclass__(cls, *, route: str, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.registry[route] = cls

    def __init__(self) -> None:
        self.llm = ChatOpenAI(model="gpt-4.1-nano", temperature=self.temperature)

    @property
    def instructions(self) -> str:
        return f"{inspect.getdoc(type(self))}\n\n{self.closing}"

    @abstractmethod
    def extra(self, state: Counter) -> list[AnyMessage]: ...

    def __call__(self, state: Counter) -> Command[Literal["pharmacist"]]:
        prompt = [SystemMessage(self.instructions), *state["messages"], *self.extra(state)]
        return Command(update={"messages": [self.llm.invoke(prompt)]}, goto="pharmacist")


class Prescriptions(Desk, route="rx"):
    """You check prescriptions for missing signatures."""

    def extra(self, state):
        return []


class Supplements(Desk, route="otc"):
    """You advise on vitamins and herbal teas."""

    temperature = 0.4
    closing = "Send pregnant customers to a doctor."

    def extra(self, state):
        if state.get("warnings"):
            return [HumanMessage("Known allergies: " + ", ".join(state["warnings"]))]
        return [HumanMessage("No allergies are on file.")]


def triage(state: Counter) -> Counter:
    said = ChatOpenAI(model="gpt-4.1-nano").invoke(
        [{"role": "system", "content": [{"type": "text", "text": "Reply rx for prescriptions and otc for the rest."}]}]
        + state["messages"]
    )
    return {"desk": "rx" if "rx" in said.text else "otc"}


def pharmacist(state: Counter) -> Counter:
    match state["messages"]:
        case [*_, AIMessage() as last]:
            order = "Countersign this advice, or correct it in one sentence:"
        case _:
            last, order = HumanMessage(""), "There is no advice yet; greet the customer."
    return {"messages": [ChatOpenAI(model="gpt-4.1").invoke(f"{order}\n{last.text}")]}


builder = StateGraph(Counter)
builder.add_node(triage)
builder.add_node(pharmacist)
for route, cls in Desk.registry.items():
    builder.add_node(route, cls())
builder.add_edge(START, "triage")
builder.add_conditional_edges("triage", lambda s: s["desk"], [*Desk.registry])
builder.add_edge("pharmacist", END)
graph = builder.compile()
