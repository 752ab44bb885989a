from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Iterable, Protocol, TypedDict

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph


class Section(Protocol):
    def render(self) -> str: ...


@dataclass(frozen=True)
class Text:
    body: str

    def render(self) -> str:
        return self.body


@dataclass(frozen=True)
class Bullets:
    title: str
    items: tuple[str, ...] = ()

    def render(self) -> str:
        return "\n".join([f"{self.title}:", *(f"* {item}" for item in self.items)])


@dataclass
class PromptSpec:
    sections: list[Section] = field(default_factory=list)
    shots: list[tuple[str, str]] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n\n".join(section.render() for section in self.sections)

    def messages(self, user: str) -> list[BaseMessage]:
        out: list[BaseMessage] = [SystemMessage(str(self))]
        for question, answer in self.shots:
            out.extend((HumanMessage(question), AIMessage(answer)))
        return [*out, HumanMessage(user)]


TRANSLATE = PromptSpec(
    sections=[
        Text("You translate manuals from German to English."),
        Bullets("Rules", ("Keep part numbers as they are.", "Use the imperative.")),
    ],
    shots=[("Schraube lösen.", "Loosen the screw.")],
)
REVIEW = replace(TRANSLATE, sections=[Text("You review translations.")], shots=[])


class State(TypedDict, total=False):
    source: str
    english: str
    remarks: str


class Asker:
    def __init__(self, spec: PromptSpec, source: str, target: str, llm=None):
        self.spec, self.source, self.target = spec, source, target
        self.llm = llm if llm is not None else ChatOpenAI(model="gpt-4o-mini")

    async def __call__(self, state: State) -> State:
        reply = await self.llm.ainvoke(self.spec.messages(state[self.source]))
        return {self.target: reply.text}


def stitch(parts: Iterable[str]) -> str:
    return "".join(parts)


def finish(state: State) -> State:
    ask = stitch(("Apply these remarks:\n", state["remarks"], "\n\nto this text:\n", state["english"]))
    return {"english": ChatOpenAI(model="gpt-4o").invoke(ask).text}


builder = StateGraph(State)
builder.add_sequence(
    [
        ("translate", Asker(TRANSLATE, "source", "english")),
        ("review", Asker(REVIEW, "english", "remarks")),
        finish,
    ]
)
builder.add_edge(START, "translate")
builder.add_edge("finish", END)
graph = builder.compile()
