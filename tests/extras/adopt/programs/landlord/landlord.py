"""Letters of a landlord, approved by a person."""

import os
from dataclasses import dataclass, field
from typing import Annotated, Literal
from uuid import uuid4

from langchain.chat_models import init_chat_model
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedStore, ToolNode, tools_condition
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt


@dataclass(kw_only=True)
class Ctx:
    model: Annotated[str, {"__template_metadata__": {"kind": "llm"}}] = field(
        default="openai/gpt-4.1", metadata={"description": "Model that writes."}
    )
    voice: str = field(default="Write as a polite landlord of an old house.")
    signature: str = field(default_factory=lambda: os.environ.get("SIGNATURE", "Signed, the caretaker"))
    user_id: str = "tenant-1"


class House(MessagesState):
    tone: Literal["firm", "mild"]


@tool
def remember(fact: str, store: Annotated[BaseStore, InjectedStore()], kind: str = "flat") -> str:
    """Remember a fact about the tenant.

    Args:
        fact: one sentence.
        kind: flat or person.
    """
    store.put(("facts", kind), uuid4().hex, {"fact": fact})
    return f"Noted for the file: {fact}"


@tool("send_letter", return_direct=False)
def send(body: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command:
    """Send the letter by registered mail once the owner has agreed."""
    answer = interrupt({"question": "May this letter go out?", "body": body})
    if answer == "yes":
        said = "The letter is at the post office."
    else:
        said = f"The owner refuses: {answer}. Write it anew."
    return Command(update={"messages": [ToolMessage(said, tool_call_id=tool_call_id)]})


TOOLS = [remember, send]


def write(state: House, config: RunnableConfig, *, runtime: Runtime[Ctx]) -> House:
    ctx = runtime.context or Ctx()
    provider, _, name = ctx.model.partition("/")
    llm = init_chat_model(name, model_provider=provider).bind_tools(TOOLS)
    facts = runtime.store.search(("facts", "flat"), limit=5) if runtime.store else []
    memory = "\n".join("* " + item.value["fact"] for item in facts) or "* nothing is known of this tenant yet"
    demand = {"firm": "Insist on the date of payment.", "mild": "Ask kindly, once."}[state.get("tone", "mild")]
    system = f"{ctx.voice}\n{demand}\n\nWhat we know:\n{memory}\n\n{ctx.signature}"
    return {"messages": [llm.invoke([SystemMessage(content=system)] + state["messages"], config)]}


store = InMemoryStore()
store.put(("facts", "flat"), "heating", {"fact": "The heating was replaced in 2019."})

b = StateGraph(House, context_schema=Ctx)
b.add_node("write", write)
b.add_node("tools", ToolNode(TOOLS, handle_tool_errors="That tool failed, write to the owner instead."))
b.add_edge(START, "write")
b.add_conditional_edges("write", tools_condition)
b.add_edge("tools", "write")
graph = b.compile(checkpointer=InMemorySaver(), store=store)
