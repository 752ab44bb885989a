from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

model = ChatOpenAI(model="gpt-4o-mini", temperature=0)


@tool
def get_weather(city: str) -> str:
    """Get the current weather in a city.

    Args:
        city: name of the city, without its country.
    """
    if city == "Atlantis":
        raise ValueError("this city is under water")
    return f"It is sunny in {city}."


@tool("get_forecast", description="Get the forecast for the next three days.")
def forecast(city: str) -> str:
    """This docstring is not sent, as there is a description."""
    return "Rain, rain, sun."


agent = create_agent(
    model,
    tools=[get_weather, forecast],
    system_prompt="You are a weather assistant. Always name the city in your answer.",
    name="weather",
)
