import logging
from typing import Literal

from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Send

from company.models import smart
from company.writing import writing_graph

log = logging.getLogger(__name__)
Desk = Literal["writing", "reporter"]


def route(state: MessagesState) -> list[Send] | Desk:
    log.info("routing %s", state["messages"][-1].content)
    if len(state["messages"]) > 3:
        return [Send("writing", state), Send("reporter", {"messages": [("user", "Report at once.")]})]
    return "reporter"


def reporter(state: MessagesState):
    system = "You report." if len(state["messages"]) > 2 else "You report briefly."
    reply = smart.invoke([{"role": "system", "content": system}, *state["messages"]])
    return {"messages": [reply], "status": "the report is done"}


workflow = StateGraph(MessagesState)
workflow.add_node("writing", writing_graph)
workflow.add_node("reporter", reporter)
workflow.add_conditional_edges(START, route)
workflow.add_edge("reporter", END)
app = workflow.compile()
