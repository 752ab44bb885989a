from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langgraph.checkpoint.memory import InMemorySaver
from langgraph_swarm import create_handoff_tool, create_swarm

model = init_chat_model("openai:gpt-4o")
FLIGHTS = [{"from": "BOS", "to": "JFK", "id": "1"}]


def search_flights(departure: str, arrival: str) -> list[dict]:
    """Search flights between two airports, given by their codes."""
    return [flight for flight in FLIGHTS if flight["from"] == departure and flight["to"] == arrival]


transfer_to_hotel_assistant = create_handoff_tool(
    agent_name="hotel_assistant",
    description="Transfer user to the hotel-booking assistant that can search for and book hotels.",
)
transfer_to_flight_assistant = create_handoff_tool(
    agent_name="flight_assistant", description="Transfer user to the flight-booking assistant."
)
flight_assistant = create_agent(
    model,
    [search_flights, transfer_to_hotel_assistant],
    system_prompt="You are a flight booking assistant",
    name="flight_assistant",
)
hotel_assistant = create_agent(
    model,
    [transfer_to_flight_assistant],
    system_prompt="You are a hotel booking assistant",
    name="hotel_assistant",
)
builder = create_swarm([flight_assistant, hotel_assistant], default_active_agent="flight_assistant")
app = builder.compile(checkpointer=InMemorySaver())
