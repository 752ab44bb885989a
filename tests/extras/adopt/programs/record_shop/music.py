from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, hook_config
from langchain.tools import tool
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI


class Listener(TypedDict):
    mood: NotRequired[str]


@tool
def find_album(artist: str) -> list[str]:
    """Find albums of an artist in the shop."""
    return ["Blue"]


@tool
def add_to_basket(album: str) -> str:
    """Put an album into the basket of the listener."""
    return f"{album} is in the basket."


class BasketMiddleware(AgentMiddleware):
    """Brings the basket and its rules."""

    tools = [add_to_basket]
    rules = "Never put more than three albums into the basket."

    def before_model(self, state: AgentState, runtime: Any) -> dict[str, Any] | None:
        if not state["messages"]:
            return {"messages": [HumanMessage("Greet the listener first.")]}
        return None

    async def awrap_model_call(self, request: ModelRequest, handler):
        mood = (request.runtime.context or {}).get("mood", "cheerful")
        base = request.system_message.content_blocks if request.system_message else []
        extra = {"type": "text", "text": f"{self.rules} The listener is in a {mood} mood."}
        return await handler(request.override(system_message=SystemMessage(content=[*base, extra])))


class AuditMiddleware(AgentMiddleware):
    @hook_config(can_jump_to=["end"])
    def after_model(self, state: AgentState, runtime: Any) -> dict[str, Any] | None:
        if "refund" in state["messages"][-1].text:
            print("somebody asked for a refund, which the log should show")
        return None


SYSTEM = SystemMessage(
    content=[
        {"type": "text", "text": "You sell records in a small shop."},
        {"type": "text", "text": "Recommend one album at a time.", "cache_control": {"type": "ephemeral"}},
    ]
)
shop = create_agent(
    model=ChatOpenAI(model="gpt-4o-mini"),
    tools=[find_album],
    system_prompt=SYSTEM,
    middleware=[BasketMiddleware(), AuditMiddleware()],
    context_schema=Listener,
)
