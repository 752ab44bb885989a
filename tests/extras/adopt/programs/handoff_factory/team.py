from typing import Annotated

from langchain_core.tools import InjectedToolCallId, tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, create_react_agent
from langgraph.types import Command


def create_handoff(*, agent_name: str, description: str | None = None):
    name = f"transfer_to_{agent_name}"
    description = description or f"Ask {agent_name} for help."

    @tool(name, description=description)
    def handoff(
        state: Annotated[MessagesState, InjectedState],
        tool_call_id: Annotated[str, InjectedToolCallId],
    ) -> Command:
        message = {
            "role": "tool",
            "content": f"Transferred to {agent_name}",
            "name": name,
            "tool_call_id": tool_call_id,
        }
        return Command(goto=agent_name, update={"messages": state["messages"] + [message]}, graph=Command.PARENT)

    return handoff


to_flights = create_handoff(agent_name="flights", description="Hand the traveller to the flight desk.")
to_hotels = create_handoff(agent_name="hotels")


@tool
def book_hotel(name: str) -> str:
    """Book a hotel"""
    return f"Booked {name}"


@tool
def book_flight(number: str) -> str:
    """Book a flight"""
    return f"Booked flight {number}"


llm = ChatOpenAI(model="gpt-5-mini")
flights = create_react_agent(llm, [book_flight, to_hotels], prompt="You book flights only.", name="flights")
hotels = create_react_agent(llm, [book_hotel, to_flights], prompt="You book hotels only.", name="hotels")

builder = StateGraph(MessagesState)
builder.add_node(flights)
builder.add_node(hotels)
builder.add_edge(START, "flights")
graph = builder.compile()
