from typing import Literal

from langchain_core.messages import AnyMessage, SystemMessage
from langchain_core.messages.utils import count_tokens_approximately, trim_messages
from langchain_core.runnables import RunnableConfig
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import create_react_agent
from langgraph.prebuilt.chat_agent_executor import AgentState
from pydantic import BaseModel, Field


def get_weather(city: Literal["nyc", "sf"]) -> str:
    """Use this to get the weather of a city."""
    if city == "nyc":
        return "It might be cloudy in nyc"
    return "It's always sunny in sf"


class WeatherReport(BaseModel):
    """Conditions in a city."""

    conditions: str = Field(description="Weather conditions in three words")


def prompt(state: AgentState, config: RunnableConfig) -> list[AnyMessage]:
    user = config.get("configurable", {}).get("user_name", "friend")
    system = f"You report the weather. Address the user as {user}."
    return [SystemMessage(system)] + state["messages"]


def shorten(state):
    kept = trim_messages(state["messages"], strategy="last", token_counter=count_tokens_approximately, max_tokens=384)
    return {"llm_input_messages": kept}


graph = create_react_agent(
    ChatOpenAI(model="gpt-5-mini"),
    [get_weather],
    prompt=prompt,
    pre_model_hook=shorten,
    response_format=("Summarise the weather as data.", WeatherReport),
    name="weather",
)
