from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property, partialmethod, singledispatch, singledispatchmethod
from typing import Annotated

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph, add_messages

tone: ContextVar[str] = ContextVar("tone", default="Speak softly, as a nurse would.")
_locale = ContextVar("locale")


@contextmanager
def using(text: str):
    token = tone.set(text)
    try:
        yield
    finally:
        tone.reset(token)


@dataclass(frozen=True)
class Pain:
    where: str


@dataclass(frozen=True)
class Fever:
    degrees: float


@singledispatch
def explain(symptom: object) -> str:
    return "The patient gave no symptom that we know."


@explain.register
def _(symptom: Pain) -> str:
    return f"The patient feels pain in the {symptom.where}; ask how long."


@explain.register(Fever)
def _fever(symptom) -> str:
    return f"The patient has {symptom.degrees:.1f} degrees; ask about chills."


class Desk:
    def __init__(self, llm):
        self._llm = llm

    @cached_property
    def rules(self) -> str:
        return "Never name a diagnosis."

    def ask(self, messages, *, task: str, limit: int = 2):
        system = "\n".join((tone.get(), self.rules, task, f"At most {limit} sentences."))
        return self._llm.invoke([SystemMessage(system), *messages])

    triage = partialmethod(ask, task="Say how urgent this is: red, yellow or green.", limit=1)
    advise = partialmethod(ask, task="Say what to bring to the appointment.")

    @singledispatchmethod
    def label(self, thing) -> str:
        return "unknown thing at the desk"

    @label.register
    def _(self, thing: str) -> str:
        return "Note of the desk: " + thing

    @label.register
    def _(self, thing: list) -> str:
        return f"The desk has {len(thing)} notes in one pile."


desk = Desk(ChatOpenAI(model="gpt-4o-mini"))


@dataclass
class State:
    messages: Annotated[list[AnyMessage], add_messages] = field(default_factory=list)
    urgency: str = ""
    advice: str = ""


def parse(text: str):
    if "fever" in text:
        return Fever(38.5)
    return Pain("knee") if "pain" in text else None


def triage(state: State) -> dict:
    _locale.set("Reply in British English.")
    found = explain(parse(state.messages[-1].text))
    with using("Be brisk, as a dispatcher would."):
        reply = desk.triage([HumanMessage(found), HumanMessage(_locale.get())])
    return {"urgency": reply.text}


def advise(state: State) -> dict:
    labels = [HumanMessage(desk.label(part)) for part in (state.urgency, [state.urgency])]
    reply = desk.advise([*state.messages, *labels])
    return {"advice": reply.text, "messages": [reply]}


graph = StateGraph(State).add_sequence([triage, advise]).add_edge(START, "triage").add_edge("advise", END).compile()
