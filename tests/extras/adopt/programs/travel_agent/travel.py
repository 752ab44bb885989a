from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ModelRequest,
    ModelResponse,
    SummarizationMiddleware,
    dynamic_prompt,
    wrap_model_call,
)
from langchain.tools import ToolRuntime, tool
from langchain_core.messages import SystemMessage
from langchain_core.tools import BaseTool, StructuredTool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field


@dataclass
class Traveller:
    name: str = "guest"
    is_member: bool = False
    house_rules: str = "Never book without a confirmation."


class FlightQuery(BaseModel):
    """What is needed to look for flights."""

    origin: str = Field(description="IATA code of the airport of departure")
    to: str = Field(..., description="IATA code of the destination")


def find_flights(origin: str, to: str) -> str:
    if origin == to:
        return "Origin and destination are the same airport."
    return f"One flight from {origin} to {to} at 9:40"


flights = StructuredTool.from_function(
    func=find_flights,
    name="find_flights",
    description="Find flights between two airports.",
    args_schema=FlightQuery,
)


class HotelTool(BaseTool):
    name: str = "find_hotels"
    description: str = "Find hotels in a city, cheapest first."
    limit: int = 3

    def _run(self, city: str) -> str:
        return f"{self.limit} hotels found in {city}"


@tool("note_wish", parse_docstring=True)
def note_wish(wish: str, runtime: ToolRuntime[Traveller]) -> str:
    """Write down a wish of the traveller.

    Args:
        wish: The wish in the traveller's own words.
    """
    return f"Noted for {runtime.context.name}."


BASE = "You are a travel agent. Ask for missing dates."
MEMBERS = " Offer the lounge, as this traveller is a member."


@dynamic_prompt
def greet(request: ModelRequest) -> str:
    traveller: Traveller = request.runtime.context or Traveller()
    prompt = BASE
    if traveller.is_member:
        prompt += MEMBERS
    return f"{prompt}\nHouse rules: {traveller.house_rules}\nThe traveller is called {traveller.name}."


@wrap_model_call
async def remind(request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> ModelResponse:
    if len(request.messages) > 6:
        reminder = SystemMessage("This conversation is long: close it politely.")
        request = request.override(messages=[*request.messages, reminder])
    return await handler(request)


class Currency(AgentMiddleware):
    def __init__(self, currency: str = "EUR"):
        super().__init__()
        self.hint = f"All prices are in {currency}."

    async def awrap_model_call(self, request, handler):
        prompt = f"{request.system_prompt}\n\n{self.hint}"
        return await handler(request.override(system_message=SystemMessage(content=prompt)))


small = ChatOpenAI(model="gpt-4.1-nano")
agent = create_agent(
    model="openai:gpt-4.1",
    tools=[flights, HotelTool(), note_wish],
    middleware=[
        greet,
        Currency("USD"),
        remind,
        SummarizationMiddleware(
            model=small,
            trigger=("messages", 40),
            summary_prompt="Summarise the trip so far for a colleague:\n{messages}",
        ),
    ],
    context_schema=Traveller,
)
