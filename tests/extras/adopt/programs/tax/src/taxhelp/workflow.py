from __future__ import annotations

import operator
from typing import Annotated, TypedDict

from langchain.chat_models import init_chat_model
from langchain_core.messages import HumanMessage, SystemMessage
from langgraph.graph import END, START, StateGraph

from .settings import get_settings


class TaxState(TypedDict, total=False):
    question: str
    name: str
    year: int
    facts: Annotated[list[str], operator.add]
    answer: str


class TaxWorkflow:
    """Wires the tax workflow."""

    def __init__(self) -> None:
        self.settings = get_settings()
        self.llm = init_chat_model(self.settings.model, temperature=0)

    async def intake(self, state: TaxState) -> TaxState:
        prompts = self.settings.prompts
        result = await self.llm.ainvoke(
            [SystemMessage(prompts.intake), HumanMessage(state["question"])]
        )
        return {"facts": [result.text]}

    async def assess(self, state: TaxState) -> TaxState:
        prompt = self.settings.prompts.assess.format(
            name=state.get("name", "the client"),
            year=state.get("year", 2025),
            facts="\n".join(f"* {fact}" for fact in state["facts"]),
        )
        result = await self.llm.ainvoke([HumanMessage(prompt)])
        return {"answer": result.text}

    async def letter(self, state: TaxState) -> TaxState:
        tone = {"formal": "Use full sentences.", "friendly": "Use the first name."}[self.settings.tone]
        system = " ".join((tone, self.settings.prompts.farewell))
        result = await self.llm.ainvoke([SystemMessage(system), HumanMessage(content=state["answer"])])
        return {"answer": result.text}

    def enough(self, state: TaxState) -> str:
        return "assess" if len(state["facts"]) >= 2 else "intake"

    def build(self):
        graph = StateGraph(TaxState)
        graph.add_node("intake", self.intake)
        graph.add_node("assess", self.assess)
        graph.add_node("letter", self.letter)
        graph.add_edge(START, "intake")
        graph.add_conditional_edges("intake", self.enough, ["assess", "intake"])
        graph.add_edge("assess", "letter")
        graph.add_edge("letter", END)
        return graph.compile(name="tax")


app = TaxWorkflow().build()
