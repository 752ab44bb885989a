"""Asks critics and agents of the stand-in what a method's prompt would ask them."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic import BaseModel

from selfwire.core.protocols import Tool
from selfwire.core.scope import Scope
from selfwire.extras.offline import critics
from selfwire.extras.offline.model import OfflineChat
from selfwire.extras.offline.worker import PlainMessage

Reply = TypeVar("Reply", bound=BaseModel)


def replied(
    schema: type[Reply], *, system: str = "", seed: int = 0, error_rate: float = 0.0, slip: float = 0.0, **sections: str
) -> Reply:
    text = "\n".join(f"<{name}>\n{value}\n</{name}>" for name, value in sections.items())
    messages = [PlainMessage("system", system), PlainMessage("user", text)]
    form = schema.model_json_schema()
    found = critics.reply(form["title"], form, messages, lambda purpose: Random(f"{seed} {purpose}"), error_rate, slip)
    return schema.model_validate(found)


async def run_team(prompts: Sequence[str], task: str, tool: Tool, model: OfflineChat) -> str:
    """The output of the last of several agents with a tool, each of which reads the one before."""
    offered = {"name": tool.spec.name, "description": tool.spec.description, "parameters": dict(tool.spec.parameters)}
    bound, output = model.bind_tools([{"type": "function", "function": offered}]), ""
    for prompt in prompts:
        asked = f"Task:\n{task}" + (f"\n\nFrom before:\n{output}" if output else "")
        messages: list[BaseMessage] = [SystemMessage(prompt), HumanMessage(asked)]
        while (reply := await bound.ainvoke(messages)).tool_calls:
            messages.append(reply)
            for call in reply.tool_calls:
                result = await tool.run(call["args"], scope=Scope())
                messages.append(ToolMessage(result, tool_call_id=call["id"]))
        output = str(reply.text)
    return output
