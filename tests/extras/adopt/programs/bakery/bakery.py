from typing import Annotated, Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, create_react_agent
from langgraph.types import Command
from pydantic import BaseModel, Field


class Desk(MessagesState, total=False):
    active: str


class HandoffInput(BaseModel):
    summary: str = Field(description="What the customer wants, in a sentence.")
    state: Annotated[dict, InjectedState]
    tool_call_id: Annotated[str, InjectedToolCallId]


class Handoff(BaseTool):
    """Passes the customer on."""

    target: str
    args_schema: type[BaseModel] = HandoffInput

    def _run(self, summary: str, state: dict, tool_call_id: str) -> Any:
        done = ToolMessage(f"You are now with {self.target}.", tool_call_id=tool_call_id)
        return Command(
            goto=self.target,
            graph=Command.PARENT,
            update={"messages": [*state["messages"], done], "active": self.target},
        )


def handoff(target: str, when: str) -> Handoff:
    return Handoff(
        name=f"ask_{target}",
        description=f"Pass the customer on to {target}. Use it when {when}.",
        target=target,
    )


def stock(item: str) -> str:
    """Look up how many pieces of an item are left."""
    return "12 left"


def place_order(item: str, count: int) -> str:
    """Place an order."""
    if count > 100:
        return "We cannot bake more than 100 pieces."
    return "Ordered %d x %s" % (count, item)


model = ChatOpenAI(model="gpt-4o", temperature=0.2)

counter = create_react_agent(
    model,
    [stock, handoff("orders", "they want to buy something"), handoff("complaints", "they are unhappy")],
    prompt="You stand at the counter of a bakery. Say what is left today.",
    name="counter",
)
orders = create_react_agent(
    model,
    [place_order, handoff("counter", "they ask about the shop")],
    prompt=lambda state: [
        {"role": "system", "content": f"You take orders. The shop closes in {len(state['messages'])} hours."},
        *state["messages"],
    ],
    name="orders",
)
APOLOGY = "You answer complaints. Apologise once, then offer a fresh loaf."
complaints = create_react_agent(model, tools=[], prompt=APOLOGY, name="complaints")

AGENTS = {agent.name: agent for agent in (counter, orders, complaints)}


def who_is_next(state: Desk) -> str:
    return state.get("active") or "counter"


builder = StateGraph(Desk)
for name, agent in AGENTS.items():
    builder.add_node(name, agent)
builder.add_conditional_edges(START, who_is_next, list(AGENTS))
graph = builder.compile()
