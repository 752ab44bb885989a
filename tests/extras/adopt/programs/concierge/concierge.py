"""Hotel concierge built on langchain.agents."""
from dataclasses import dataclass
from typing import Annotated, Literal, Optional

from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ModelRequest,
    SummarizationMiddleware,
    TodoListMiddleware,
    dynamic_prompt,
)
from langchain.tools import ToolRuntime, tool
from langchain_core.tools import BaseTool, StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.store.memory import InMemoryStore
from pydantic import BaseModel, Field

llm = ChatOpenAI(model="gpt-4o-mini")


@dataclass
class Guest:
    name: str = "guest"
    tier: Literal["standard", "gold"] = "standard"
    greeting: str = "Address the guest formally."


BASE = "You are the concierge of the Grand Hotel. Help guests with tables, tickets and taxis."
GOLD = "This guest is a gold member: offer the lounge before anything else."


@dynamic_prompt
def concierge_prompt(request: ModelRequest) -> str:
    guest = request.runtime.context or Guest()
    parts = [BASE, guest.greeting]
    if guest.tier == "gold":
        parts.append(GOLD)
    if len(request.messages) > 8:
        parts += ["Be brief, this conversation is long already."]
    return "\n\n".join(parts)


@tool
def book_table(restaurant: str, people: int, runtime: ToolRuntime[Guest]) -> str:
    """Book a table at a restaurant in town.

    Args:
        restaurant: name of the restaurant
        people: size of the party
    """
    name = runtime.context.name if runtime.context else "the guest"
    return f"Table for {people} at {restaurant} is booked for {name}."


class TaxiArgs(BaseModel):
    """Details of a ride."""

    to: str = Field(description="Street address where the ride ends")
    when: Optional[str] = Field(default=None, description="Pick-up time, 24h clock")


def _order_taxi(to: str, when: str | None = None) -> str:
    return "A taxi is on its way."


order_taxi = StructuredTool.from_function(
    func=_order_taxi,
    name="order_taxi",
    description="Order a taxi to the front door of the hotel.",
    args_schema=TaxiArgs,
)


class TicketSearch(BaseTool):
    name: str = "search_tickets"
    description: str = "Search tickets for shows tonight."

    def _run(self, show: Annotated[str, "Title of the show"]) -> str:
        return "No seats left."


class PolitenessMiddleware(AgentMiddleware):
    reminder = "Never mention prices unless asked."

    def wrap_model_call(self, request, handler):
        from langchain_core.messages import HumanMessage

        return handler(request.override(messages=[*request.messages, HumanMessage(self.reminder)]))


concierge = create_agent(
    llm,
    tools=[book_table, order_taxi, TicketSearch()],
    middleware=[
        concierge_prompt,
        PolitenessMiddleware(),
        TodoListMiddleware(),
        SummarizationMiddleware(llm, trigger=("messages", 40), summary_prompt="Condense this hotel chat:\n{messages}"),
    ],
    context_schema=Guest,
    store=InMemoryStore(),
    name="concierge",
)
