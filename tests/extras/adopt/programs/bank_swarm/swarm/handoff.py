from typing import Annotated

from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.prebuilt import InjectedState
from langgraph.types import Command


def make_handoff(to: str, description: str):
    @tool(f"transfer_to_{to}", description=description)
    def handoff(
        reason: Annotated[str, "Why the other desk is better"],
        state: Annotated[dict, InjectedState],
        tool_call_id: Annotated[str, InjectedToolCallId],
    ) -> Command:
        note = ToolMessage(f"Moved to {to}. Carry on without a greeting.", tool_call_id=tool_call_id)
        return Command(goto=to, graph=Command.PARENT, update={"messages": [*state["messages"], note], "active": to})

    return handoff
