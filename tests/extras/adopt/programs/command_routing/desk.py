from typing import Literal

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command
from pydantic import BaseModel

llm = ChatOpenAI(model="gpt-4o")
MEMBERS = ["researcher", "coder"]


class Router(BaseModel):
    next: Literal["researcher", "coder", "FINISH"]


SYSTEM_PROMPT = (
    f"You are a supervisor tasked with managing a conversation between: {MEMBERS}. When finished, respond with FINISH."
)


def supervisor(state: MessagesState) -> Command[Literal["researcher", "coder", "__end__"]]:
    response = llm.with_structured_output(Router).invoke(
        [{"role": "system", "content": SYSTEM_PROMPT}] + state["messages"]
    )
    goto = response.next
    if goto == "FINISH":
        goto = END
    return Command(goto=goto)


def researcher(state: MessagesState):
    reply = llm.invoke([("system", "You do research. Do not write code."), *state["messages"]])
    return Command(update={"messages": [reply]}, goto="supervisor")


def coder(state: MessagesState):
    reply = llm.invoke([("system", "You write Python."), *state["messages"]])
    if "DONE" in reply.content:
        return Command(goto=END)
    return Command(update={"messages": [reply]}, goto="supervisor")


builder = StateGraph(MessagesState)
builder.add_edge(START, "supervisor")
builder.add_node("supervisor", supervisor)
builder.add_node("researcher", researcher)
builder.add_node("coder", coder)
graph = builder.compile()
