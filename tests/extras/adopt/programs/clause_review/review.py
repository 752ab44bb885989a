"""Contract clause review. Prompts live in an Enum."""
from __future__ import annotations

import operator
from enum import Enum
from textwrap import dedent
from typing import Annotated, Literal, TypedDict

from langchain.chat_models import init_chat_model
from langchain_core.messages import HumanMessage, SystemMessage
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, RetryPolicy


class Prompt(str, Enum):
    RISK = dedent(
        """\
        You assess the legal risk of contract clauses.
        Grade every clause from 1 to 5.
        """
    )
    CLARITY = "You judge whether a clause can be understood by a layperson."
    SUMMARY = (
        "You merge the reports of several reviewers. "
        "Write at most {limit} bullet points."
    )

    def filled(self, **kw) -> str:
        return self.value.format(**kw)


ASPECTS = ("risk", "clarity")


class State(TypedDict, total=False):
    clause: str
    reports: Annotated[list[str], operator.add]
    verdict: str


def _llm(temperature: float = 0.0):
    return init_chat_model("gpt-4o-mini", model_provider="openai", temperature=temperature)


def make_reviewer(aspect: str):
    prompt = Prompt[aspect.upper()]

    def review(state: State) -> dict:
        out = _llm().invoke([SystemMessage(content=prompt.value), HumanMessage(content="Clause:\n" + state["clause"])])
        return {"reports": [f"{aspect}: {out.content}"]}

    return review


def gate(state: State) -> Command[Literal["review_risk", "review_clarity", "summarise"]]:
    if len(state["clause"]) < 3:
        return Command(goto="summarise")
    return Command(goto=[f"review_{a}" for a in ASPECTS])


def summarise(state: State) -> dict:
    text = Prompt.SUMMARY.filled(limit=5)
    joined = "\n\n".join(state.get("reports") or ["(no reports)"])
    out = _llm(0.2).invoke([("system", text), ("user", joined)])
    return {"verdict": out.content}


def build() -> StateGraph:
    g = StateGraph(State)
    g.add_node("gate", gate)
    for aspect in ASPECTS:
        g.add_node(f"review_{aspect}", make_reviewer(aspect), retry_policy=RetryPolicy(max_attempts=2))
        g.add_edge(f"review_{aspect}", "summarise")
    g.add_node(summarise)
    g.add_edge(START, "gate")
    g.add_edge("summarise", END)
    return g


graph = build().compile(name="clause-review")
