from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

from company.models import fast


def outline(state: MessagesState):
    """Make an outline."""
    return {"messages": [fast.invoke([("system", "Write an outline."), *state["messages"]])]}


def draft(state: MessagesState):
    reply = fast.invoke([("system", "Write a draft along the outline."), *state["messages"]])
    return Command(goto="reporter", graph=Command.PARENT, update={"messages": [reply]})


graph = (
    StateGraph(MessagesState)
    .add_node(outline)
    .add_node(draft)
    .add_edge(START, "outline")
    .add_edge("outline", "draft")
    .compile()
)
