from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from langchain.chat_models import init_chat_model
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import Runtime, get_runtime

if TYPE_CHECKING:
    from nowhere import Missing

try:
    from private_prompts import HOUSE_STYLE
except ImportError:
    HOUSE_STYLE = "Write in the style of the house."

if os.getenv("STRICT"):
    POLICY = "Refuse everything risky."
else:
    POLICY = "Help with most things."


@dataclass
class Ctx:
    system: str = "You are a concierge."
    extra: str | None = None


def build(name: str, *, prompt: str | None = None):
    def node(state: MessagesState, runtime: Runtime[Ctx]):
        ctx = runtime.context or Ctx()
        system = prompt or ctx.system
        parts = [system, POLICY, ctx.extra or "There are no extras."]
        llm = init_chat_model("openai:gpt-5-mini")
        return {"messages": [llm.invoke([("system", " ".join(filter(None, parts))), *state["messages"]])]}

    node.__name__ = name
    return node


def style(state: MessagesState):
    ctx = get_runtime(Ctx).context
    llm = init_chat_model("openai:gpt-5-nano")
    who = ctx.system if ctx else "nobody"
    return {"messages": [llm.invoke([("system", HOUSE_STYLE), ("user", f"Restyle the answer of {who}")])]}


b = StateGraph(MessagesState, context_schema=Ctx)
for name, prompt in {"door": None, "desk": "You sit at the front desk."}.items():
    b.add_node(name, build(name, prompt=prompt))
b.add_node(style)
b.add_edge(START, "door")
b.add_edge("door", "desk")
b.add_edge("desk", "style")
b.add_edge("style", END)
graph = b.compile()
