"""A hotel: a supervisor hands guests over to specialists by tools."""
from typing import Annotated, Literal

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain.tools import InjectedToolCallId, tool
from langchain_core.messages import ToolMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState
from langgraph.types import Command

MODEL = "openai:gpt-4o-mini"


class HotelState(MessagesState):
    room: str
    active: str


SPECIALISTS = {
    "concierge": "You book tables and tickets for guests. Always confirm the time.",
    "housekeeping": "You look after rooms. Ask for the room number if you do not know it.",
}

DESCRIPTIONS = {
    "concierge": "restaurants, theatre, sights",
    "housekeeping": "towels, cleaning, broken things",
}


def make_handoff(name: str):
    @tool(f"call_{name}", description=f"Hand the guest over to {name}: {DESCRIPTIONS[name]}.")
    def handoff(
        request: Annotated[str, "What the guest needs, in one sentence"],
        state: Annotated[HotelState, InjectedState],
        tool_call_id: Annotated[str, InjectedToolCallId],
    ) -> Command:
        done = ToolMessage(f"Transferred to {name}.", tool_call_id=tool_call_id, name=f"call_{name}")
        return Command(
            goto=name,
            graph=Command.PARENT,
            update={"messages": [*state["messages"], done], "active": name},
        )

    return handoff


@tool
def book_table(restaurant: str, time: str) -> str:
    """Book a table at a restaurant near the hotel."""
    return f"Booked {restaurant} at {time}."


@tool("order_towels")
def towels(room: str, count: int = 2) -> str:
    """Have towels brought to a room."""
    return f"{count} towels are on their way to {room}."


TOOLS = {"concierge": [book_table], "housekeeping": [towels]}

front_desk = create_agent(
    init_chat_model(MODEL),
    tools=[make_handoff(n) for n in SPECIALISTS],
    system_prompt=(
        "You are the front desk of a hotel. Hand every wish over to the right colleague.\n"
        "Colleagues:\n" + "\n".join(f"- {n}: {d}" for n, d in DESCRIPTIONS.items())
    ),
    state_schema=HotelState,
    name="front_desk",
)


def build_specialist(name: str):
    return create_agent(MODEL, TOOLS[name], system_prompt=SPECIALISTS[name], name=name)


def survey(state: HotelState) -> Command[Literal["__end__"]]:
    model = init_chat_model(MODEL)
    question = model.invoke(
        [
            *state["messages"],
            {"role": "user", "content": "Write one friendly question that asks whether the guest is content."},
        ]
    )
    return Command(goto=END, update={"messages": [question]})


builder = StateGraph(HotelState)
builder.add_node("front_desk", front_desk, destinations=("concierge", "housekeeping", "survey"))
for name in SPECIALISTS:
    builder.add_node(name, build_specialist(name))
    builder.add_edge(name, "survey")
builder.add_node("survey", survey)
builder.add_edge(START, "front_desk")
hotel = builder.compile()
