from __future__ import annotations

import asyncio
import operator
from dataclasses import dataclass, replace
from typing import Annotated, Generic, TypedDict, TypeVar

from langgraph.graph import END, START, StateGraph

from .decorators import docprompt, node, with_prefix
from .model import get_chat

T = TypeVar("T")


class State(TypedDict, total=False):
    case: str
    opinions: Annotated[list[str], operator.add]
    verdict: str
    style: str


@docprompt
def opinion_prompt(*, view: str, case: str):
    """You judge a cooking contest from the view of {view}.

    The dish: {case}
    """


@with_prefix("House rule: judge the dish, not the cook.")
def verdict_prompt(opinions: list[str]) -> str:
    return "Join {n} opinions into one verdict.".format(n=len(opinions))


@dataclass(frozen=True)
class Judge(Generic[T]):
    view: str
    warning: str = "Do not mention the price."

    async def __call__(self, state: State) -> State:
        system = opinion_prompt(view=self.view, case=state["case"])
        return {"opinions": [await get_chat().complete(system, self.warning)]}


taste = Judge("taste and smell")
looks = replace(taste, view="colour and plating", warning="Mention the plate.")
JUDGES = {"taste": taste, "looks": looks}


@node("verdict")
async def decide(state: State) -> State:
    chat = get_chat()
    drafts = await asyncio.gather(
        *(chat.complete(verdict_prompt(state["opinions"]), hint) for hint in ("Be kind.", "Be strict."))
    )
    best = max(drafts, key=len)
    return {"verdict": best}


@node("style")
async def restyle(state: State) -> State:
    forms = {"poem": "a limerick", "news": "a headline"}
    system = "Rewrite the verdict as " + forms.get(state.get("style", ""), "one plain sentence") + "."
    return {"verdict": await get_chat().complete(system, state["verdict"])}


def assemble(*steps) -> StateGraph:
    g = StateGraph(State)
    for name, judge in JUDGES.items():
        g.add_node(name, judge)
        g.add_edge(START, name)
    for step in steps:
        g.add_node(step.node_name, step)
    g.add_edge(list(JUDGES), "verdict")
    g.add_edge("verdict", "style")
    g.add_edge("style", END)
    return g


graph = assemble(decide, restyle).compile()
