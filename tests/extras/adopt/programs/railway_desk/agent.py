from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelRequest,
    ModelResponse,
    before_model,
    dynamic_prompt,
    wrap_model_call,
    wrap_tool_call,
)
from langchain.messages import HumanMessage, SystemMessage, ToolMessage
from langchain.tools import ToolRuntime, tool
from langgraph.runtime import Runtime


@dataclass
class Ctx:
    user: str = "guest"
    premium: bool = False


@tool
def refund(amount: float, runtime: ToolRuntime[Ctx]) -> str:
    """Refund an amount in euros to the customer."""
    return f"Refunded {amount} to {runtime.context.user}."


class PolicyMiddleware(AgentMiddleware):
    """Adds the policy of the house."""

    POLICY = "Never refund more than 50 euros."

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]) -> ModelResponse:
        old = request.system_message.content if request.system_message else ""
        return handler(request.override(system_message=SystemMessage(f"{old}\n\n{self.POLICY}")))

    async def awrap_model_call(self, request, handler):
        old = request.system_message.content if request.system_message else ""
        return await handler(request.override(system_message=SystemMessage(f"{old}\n\n{self.POLICY}")))


@before_model
def remind(state: AgentState, runtime: Runtime) -> dict[str, Any] | None:
    if len(state["messages"]) > 3:
        return {"messages": [HumanMessage("Please come to an end now.")]}
    return None


@wrap_tool_call
def catch(request, handler):
    try:
        return handler(request)
    except Exception as e:
        return ToolMessage(content=f"The tool is broken: {e}", tool_call_id=request.tool_call["id"])


@dynamic_prompt
def persona(request: ModelRequest) -> str:
    prompt = "You are the complaints desk of a railway."
    if request.runtime.context and request.runtime.context.premium:
        prompt += " This customer travels first class."
    return prompt


agent = create_agent(
    "openai:gpt-5-mini",
    tools=[refund],
    middleware=[
        persona,
        PolicyMiddleware(),
        remind,
        catch,
        HumanInTheLoopMiddleware(interrupt_on={"refund": True}, description_prefix="A refund waits for a manager"),
    ],
    context_schema=Ctx,
)
