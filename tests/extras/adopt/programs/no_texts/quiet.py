"""Program whose strings never reach a model."""

import logging
import warnings
from typing import TypedDict

from langchain_core.messages import RemoveMessage
from langgraph.graph import END, START, StateGraph

logger = logging.getLogger("quiet")
API = "https://api.example.com/v1/prices"
HEADERS = {"Accept": "application/json", "User-Agent": "a quiet program"}
SQL = "select price from prices where item = ?"
UNUSED = "You are a helpful assistant that nobody asks."


class State(TypedDict):
    """The state, whose docstring no model reads."""

    item: str
    price: float
    note: str


def fetch(state: State) -> dict:
    """Fetch a price; a node's docstring is not sent."""
    logger.info("fetching the price of %s from %s", state["item"], API)
    if not state["item"]:
        raise ValueError("the item is empty, please name one")
    if state["item"] == "unknown thing":
        warnings.warn("this item has no price", stacklevel=2)
    return {"price": 1.0, "note": "the price was fetched"}


def clean(state: State) -> dict:
    assert state["price"] > 0, "prices are positive numbers"
    rows = [SQL, HEADERS["User-Agent"], f"{API}/{state['item']}"]
    return {"messages": [RemoveMessage(id="the first message")], "note": ", ".join(rows)}


builder = StateGraph(State)
builder.add_node("fetch", fetch, metadata={"owner": "the price team"})
builder.add_node("clean", clean)
builder.add_edge(START, "fetch")
builder.add_edge("fetch", "clean")
builder.add_edge("clean", END)
graph = builder.compile(name="A quiet graph")
