from contextlib import asynccontextmanager

from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langchain_mcp_adapters.client import MultiServerMCPClient
from langgraph.types import Command
from typing_extensions import Annotated

INSTRUCTIONS = "\n".join(
    [
        "You control a smart home.",
        "Ask before you open a door.",
    ]
)


@tool
def set_mode(mode: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command:
    """Set the mode of the home, such as night."""
    return Command(update={"mode": mode, "messages": [ToolMessage("The mode is set.", tool_call_id=tool_call_id)]})


@asynccontextmanager
async def make_graph():
    client = MultiServerMCPClient({"home": {"url": "http://127.0.0.1:9/mcp", "transport": "streamable_http"}})
    tools = await client.get_tools()
    yield create_agent("openai:gpt-5-mini", tools=[*tools, set_mode], system_prompt=INSTRUCTIONS)
