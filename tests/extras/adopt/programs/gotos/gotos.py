from typing import Any

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, Send

llm = ChatOpenAI(model="gpt-4o")
WORKERS = ["left", "right"]


def plan(state: MessagesState) -> Any:
    """Send the work to all workers."""
    return Command(goto=[Send(worker, state) for worker in WORKERS])


def work(state: MessagesState):
    reply = llm.invoke([("system", "Work on your half."), *state["messages"]])
    return {"messages": [reply]}


def merge(state: MessagesState):
    reply = llm.invoke([("system", "Merge the halves."), *state["messages"]])
    target = reply.additional_kwargs.get("target")
    return Command(goto=target, update={"messages": [reply]})


def check(state: MessagesState):
    is_long = len(state["messages"]) > 5
    return Command(goto=END if is_long else "plan")


def finish(state: MessagesState):
    return state


builder = StateGraph(MessagesState)
builder.add_node("plan", plan, destinations=("left", "right"))
for worker in WORKERS:
    builder.add_node(worker, work)
builder.add_node("merge", merge)
builder.add_node("check", check)
builder.add_node("finish", finish)
builder.add_edge(START, "plan")
builder.add_edge(WORKERS, "merge")
for source, target in [("finish", END), ("check", "finish")]:
    builder.add_edge(source, target)
graph = builder.compile(interrupt_after=WORKERS)
