"""Customs clerk: an agent with a stack of middleware."""

from dataclasses import dataclass
from typing import Any, Callable

from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    AgentState,
    HumanInTheLoopMiddleware,
    ModelRequest,
    ModelResponse,
    SummarizationMiddleware,
    TodoListMiddleware,
    ToolCallLimitMiddleware,
    after_model,
    before_model,
    dynamic_prompt,
    wrap_model_call,
    wrap_tool_call,
)
from langchain.agents.structured_output import ToolStrategy
from langchain.messages import HumanMessage, SystemMessage, ToolMessage
from langchain.tools import ToolRuntime, tool
from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

TONES = {
    "strict": "Quote the regulation in every sentence.",
    "kind": "Explain things to people who ship their first parcel.",
}


@dataclass
class Ctx:
    office: str = "Rotterdam"
    tone: str = "kind"


class Declaration(BaseModel):
    """What a shipper has to declare."""

    tariff_code: str = Field(description="Eight digits of the combined nomenclature")
    duty_free: bool


@tool(parse_docstring=True)
def tariff(goods: str, origin: str = "CN") -> str:
    """Look up the tariff of goods.

    Args:
        goods: what is imported, in plain words
        origin: two letters of the country
    """
    return f"{goods} from {origin}: 4.7 percent"


@tool
def release(parcel: str, runtime: ToolRuntime[Ctx]) -> str:
    """Release a parcel from the bonded store."""
    if runtime.context.office != "Rotterdam":
        return "This office may not release parcels."
    return "released"


@dynamic_prompt
def office_prompt(request: ModelRequest) -> str:
    ctx = request.runtime.context
    base = f"You are a customs clerk in {ctx.office}."
    if len(request.messages) > 10:
        base += " Be concise, the talk is long."
    return base + "\n" + TONES[ctx.tone]


@before_model
def remind(state: AgentState, runtime: Runtime[Ctx]) -> dict[str, Any] | None:
    if len(state["messages"]) == 1:
        return {"messages": [HumanMessage("Remember: weapons are never released.")]}
    return None


@wrap_tool_call
def catch(request, handler):
    try:
        return handler(request)
    except Exception as error:
        return ToolMessage(
            content=f"The register is down ({error}); tell the shipper to wait.", tool_call_id=request.tool_call["id"]
        )


class Disclaimer(AgentMiddleware):
    """Adds a disclaimer."""

    note = "Add that rates may change."

    def wrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]
    ) -> ModelResponse:
        system = request.system_prompt or ""
        return handler(request.override(system_message=SystemMessage(system + "\n" + self.note)))

    async def awrap_model_call(self, request, handler):
        return await handler(
            request.override(system_message=SystemMessage((request.system_prompt or "") + "\n" + self.note))
        )


clerk = create_agent(
    "openai:gpt-4.1",
    tools=[tariff, release],
    middleware=[
        office_prompt,
        remind,
        catch,
        Disclaimer(),
        SummarizationMiddleware(
            "openai:gpt-4.1-mini", trigger=("tokens", 4000), summary_prompt="Sum up the case file so far:\n{messages}"
        ),
        TodoListMiddleware(system_prompt="Keep a list of open papers."),
        HumanInTheLoopMiddleware(
            interrupt_on={
                "release": {"allowed_decisions": ["approve", "reject"], "description": "Please check this release"}
            }
        ),
        ToolCallLimitMiddleware(run_limit=8),
    ],
    response_format=ToolStrategy(Declaration, tool_message_content="The declaration is filed."),
    context_schema=Ctx,
    name="clerk",
)
