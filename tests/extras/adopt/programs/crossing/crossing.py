from __future__ import annotations

import enum
from typing import Annotated, Literal, TypedDict
import operator

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send

llm = ChatOpenAI(model="gpt-4o-mini")


class N(str, enum.Enum):
    LOOK = "look"
    WAIT = "wait"
    WALK = "walk"
    CALL = "call_help"


class S(TypedDict, total=False):
    street: str
    seen: Annotated[list[str], operator.add]
    verdict: str


SAFETY = "You help a blind person to cross a street."
SHORT = "Answer in five words."


def ask(*parts: str) -> str:
    return llm.invoke([("system", SAFETY), ("user", "\n".join(parts))]).content


def look(state: S):
    return {
        "seen": [
            ask("What may come from the left?", state["street"]),
            ask("What may come from the right?", state["street"], SHORT),
        ]
    }


def wait(state: S) -> Command:
    verdict = ask("Is the street free now? Say FREE or BUSY.", *state["seen"])
    if verdict.startswith("FREE"):
        return Command(goto=N.WALK.value, update={"verdict": verdict})
    goto = [N.LOOK.value, "log"] if len(state["seen"]) < 4 else N.CALL.value
    return Command(goto=goto)


def walk(state: S):
    return {"verdict": ask("Describe the way over the street.", SHORT)}


class Router:
    targets = {"calm": N.WALK, "busy": N.WAIT}

    def __init__(self, limit: int = 3):
        self.limit = limit

    def __call__(self, state: S) -> str:
        if len(state.get("seen", [])) > self.limit:
            return "busy"
        return "calm"


def log(state: S):
    return {}


def after_walk(state: S) -> list[str]:
    if state["verdict"] == "stuck":
        return ["log", N.CALL.value]
    return [END]


def fan(state: S) -> list[Send] | Literal["call_help"]:
    if not state["seen"]:
        return "call_help"
    return [Send("note", {"street": seen}) for seen in state["seen"]]


g = StateGraph(S)
g.add_node(N.LOOK.value, look)
g.add_node(N.WAIT.value, wait, destinations={"walk": "free", "look": "again", "log": "", "call_help": "late"})
g.add_node("walk", walk)
g.add_node(N.CALL.value, lambda s: {"verdict": ask("Write a text message that asks a relative for help.")})
g.add_node("log", log)
g.add_node("note", lambda s: {"verdict": s["street"]})
g.add_edge(START, "look")
g.add_conditional_edges("look", Router(), dict(zip(["calm", "busy"], ["walk", "wait"])))
g.add_conditional_edges("walk", after_walk, ["log", "call_help", END])
g.add_conditional_edges("log", fan, ["note", "call_help"])
for last in ("note", "call_help"):
    g.add_edge(last, END)
graph = g.compile()
