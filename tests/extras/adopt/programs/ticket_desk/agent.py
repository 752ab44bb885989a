"""Deployable graph factory: langgraph.json points at make_graph."""
from contextlib import asynccontextmanager
from typing import Any, TypedDict, cast

from langchain_core.runnables import Runnable, RunnableConfig, chain
from langchain_core.tools import BaseTool, tool
from langchain_openai import ChatOpenAI
from langgraph.config import get_store, get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command

DEFAULTS = {"lang": "en", "verbosity": 1}


class Ticket(TypedDict, total=False):
    text: str
    kind: str
    answer: str
    trace: list


TEAMS = [
    {"id": "billing", "prompt": "You settle questions on invoices.", "currency": "EUR"},
    {"id": "tech", "prompt": "You solve technical problems step by step.", "currency": "USD"},
]


def make_tools(currency: str) -> list[BaseTool]:
    @tool
    def customer(name: str) -> str:
        """Read the record of a customer."""
        return "Customer since 2019."

    @tool
    def refund(amount: float) -> str:
        """Refund an amount to the customer's card."""
        return f"Refunded in {currency}."

    return [customer, refund]


async def make_graph(config: RunnableConfig):
    conf = {**DEFAULTS, **config.get("configurable", {})}
    llm = ChatOpenAI(model=conf.get("model", "gpt-4o-mini"))
    language = {"en": "English", "fr": "French"}[conf["lang"]]

    @chain
    def classify(state: Ticket) -> Command:
        names = " or ".join(team["id"] for team in TEAMS)
        reply = llm.invoke(f"Which team, {names}, answers this ticket?\n\n{state['text']}")
        team = next((t["id"] for t in TEAMS if t["id"] in reply.text), "tech")
        return Command(goto=team, update={"kind": team})

    def team_node(team: dict[str, Any]):
        bound = llm.bind_tools(make_tools(team["currency"]))

        async def node(state: Ticket):
            get_stream_writer()({"status": f"team {team['id']} is working"})
            system = team["prompt"]
            if conf["verbosity"] < 1:
                system += " Use few words."
            elif conf["verbosity"] > 1:
                system += " Explain every step."
            reply = await bound.ainvoke([("system", system), ("user", f"{state['text']}\n\nReply in {language}.")])
            return {"answer": reply.text}

        return node

    builder = StateGraph(Ticket)
    builder.add_node("classify", classify, destinations={t["id"]: t["id"] for t in TEAMS})
    for team in TEAMS:
        builder.add_node(team["id"], team_node(team))
        builder.add_edge(team["id"], END)
    builder.add_edge(START, "classify")
    return builder.compile()
