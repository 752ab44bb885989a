from typing import TypedDict

from langgraph.checkpoint.memory import MemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from .berth import berth
from .customs import customs
from .llm import fast


class Arrival(TypedDict, total=False):
    ship: str
    manifest: str
    finding: str
    cleared: bool
    berth: str
    log: str


store = InMemoryStore()
store.put(("berths",), "east", {"text": "East quay, 90 metres"})


def moor(state: Arrival) -> Arrival:
    result = berth.invoke({"ship": state["ship"]})
    return {"berth": result["berth"]}


def log(state: Arrival, *, store: BaseStore) -> Arrival:
    store.put(("log",), state["ship"], {"text": state["berth"]})
    status = "cleared" if state.get("cleared") else "held by customs"
    message = fast.invoke(
        [
            {"role": "system", "content": "You keep the log of the harbour master."},
            {"role": "user", "content": f"{state['ship']} at {state['berth']}, {status}."},
        ]
    )
    return {"log": message.text}


g = StateGraph(Arrival)
g.add_node("customs", customs)
g.add_node("moor", moor)
g.add_node("log", log)
g.add_edge(START, "customs")
g.add_edge("customs", "moor")
g.add_edge("moor", "log")
g.add_edge("log", END)
harbour = g.compile(checkpointer=MemorySaver(), store=store, interrupt_before=["log"])
