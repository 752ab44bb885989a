from typing import Annotated

from langchain.agents import create_agent
from langchain.tools import InjectedToolCallId, tool
from langchain_core.messages import ToolMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

model = ChatOpenAI(model="gpt-4o")


def make_handoff(agent_name: str):
    name = f"transfer_to_{agent_name}"

    @tool(name, description=f"Transfer to {agent_name}.")
    def handoff(tool_call_id: Annotated[str, InjectedToolCallId]) -> Command:
        message = ToolMessage("Successfully transferred", tool_call_id=tool_call_id)
        return Command(goto=agent_name, graph=Command.PARENT, update={"messages": [message]})

    return handoff


alice = create_agent(model, [make_handoff("bob")], system_prompt="You are Alice, an addition expert.", name="alice")
bob = create_agent(model, [make_handoff("alice")], system_prompt="You are Bob, you speak like a pirate.", name="bob")
graph = StateGraph(MessagesState).add_node("alice", alice).add_node("bob", bob).add_edge(START, "alice").compile()
