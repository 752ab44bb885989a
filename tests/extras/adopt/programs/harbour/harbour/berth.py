from typing import TypedDict

from langgraph.config import get_store
from langgraph.graph import StateGraph

from .llm import fast


class Berth(TypedDict):
    ship: str
    berth: str


def assign(state: Berth):
    known = get_store().search(("berths",))
    free = ", ".join(item.value["text"] for item in known) or "all berths are free"
    return {"berth": fast.invoke(f"Assign a berth to {state['ship']}. Free: {free}").text}


berth = StateGraph(Berth).add_node("assign", assign).set_entry_point("assign").set_finish_point("assign").compile()
