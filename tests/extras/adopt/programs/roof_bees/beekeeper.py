from typing import Any, Callable

from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelRequest,
    ModelResponse,
    TodoListMiddleware,
    after_model,
    before_model,
    hook_config,
    wrap_tool_call,
)
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, ToolException, tool
from langchain_openai import ChatOpenAI
from langgraph.runtime import Runtime
from pydantic import BaseModel, Field


class HiveArgs(BaseModel):
    hive: int = Field(description="number painted on the hive")


class Weigh(BaseTool):
    name: str = "weigh_hive"
    description: str = "Weigh a hive in kilograms."
    args_schema: type[BaseModel] = HiveArgs
    handle_tool_error: bool = True

    def _run(self, hive: int) -> str:
        if hive > 40:
            raise ToolException(f"there is no hive {hive}, hives end at forty")
        return f"The hive weighs {20 + hive} kilograms"


def _smoke(hive: int) -> str:
    return "The bees are calm now."


smoke = StructuredTool.from_function(_smoke, name="smoke", description="Calm the bees of a hive with smoke.")


@tool
def harvest(frames: int) -> str:
    "Take out frames of honey."
    return {1: "One frame is taken."}.get(frames, "The supers are empty by now.")


harvest.description += " Only in July."


class Season(AgentMiddleware):
    tools = [smoke]

    def __init__(self, month: str = "July"):
        super().__init__()
        self.month = month

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]) -> ModelResponse:
        old = request.system_message.text if request.system_message else ""
        new = SystemMessage(f"{old}\n\nIt is {self.month}, so think of the drones.")
        return handler(request.override(system_message=new))

    @hook_config(can_jump_to=["end"])
    def before_agent(self, state: AgentState, runtime: Runtime) -> dict[str, Any] | None:
        if "wasp" in state["messages"][-1].text:
            return {"messages": [AIMessage("We keep no wasps.")], "jump_to": "end"}
        return None


@before_model
def remind(state: AgentState, runtime: Runtime):
    if len(state["messages"]) % 5 == 4:
        return {"messages": [HumanMessage("Remember to close the hive.")]}


@wrap_tool_call
def guard(request, handler):
    try:
        return handler(request)
    except ZeroDivisionError as e:
        return ToolMessage(content=f"The scales are broken ({e}).", tool_call_id=request.tool_call["id"])


BASE = "You keep bees on a roof in Vienna."
keeper = create_agent(
    model=ChatOpenAI(model="gpt-4.1"),
    tools=[Weigh(), harvest],
    system_prompt=SystemMessage(content=[{"type": "text", "text": BASE}, {"type": "text", "text": "Wear a veil, always."}]),
    middleware=[
        Season("August"),
        remind,
        guard,
        TodoListMiddleware(system_prompt="Keep a list of hives to visit."),
        HumanInTheLoopMiddleware(interrupt_on={"harvest": {"allowed_decisions": ["approve", "reject"]}}, description_prefix="Honey is about to be taken"),
    ],
    name="keeper",
)
