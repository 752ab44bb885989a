"""The old prebuilt agent, as many repositories still have it."""
import warnings
from datetime import date
from typing import Annotated, Optional

from langchain_core.messages import AnyMessage, SystemMessage, trim_messages
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, ToolException, tool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import InjectedState, InjectedStore, ToolNode, create_react_agent
from langgraph.prebuilt.chat_agent_executor import AgentState
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from pydantic import BaseModel, Field, create_model

warnings.filterwarnings("ignore")


class State(AgentState):
    customer: str
    structured_response: dict


class PriceTool(BaseTool):
    name: str = "price"
    description: str = "Price of an article in shillings."
    currency: str = "shillings"

    def _run(self, article: str) -> str:
        if article == "anvil":
            raise ToolException("An anvil is sold by weight; ask for the weight.")
        return f"{article} costs twelve {self.currency}."


StockArgs = create_model("StockArgs", article=(str, Field(description="Article as in the catalogue, singular")))


@tool("stock", args_schema=StockArgs)
def stock(article: str) -> str:
    """How many are on the shelf."""
    return "Seven on the shelf, two in the cellar."


@tool(parse_docstring=True)
def order(article: str, count: int, state: Annotated[dict, InjectedState], note: Optional[str] = None) -> str:
    """Place an order for the customer.

    Args:
        article: What is ordered, as in the catalogue.
        count: How many pieces, at most twelve.
        note: Wish of the customer for the packing.
    """
    who = state.get("customer") or "a passer-by"
    return "Ordered {} x {} for {who}.".format(count, article, who=who)


@tool
def remember(fact: str, store: Annotated[BaseStore, InjectedStore()]) -> str:
    """Keep a fact about the customer for next time."""
    store.put(("facts",), fact[:8], {"fact": fact})
    return "Noted in the green book."


def trouble(e: Exception) -> str:
    return f"The till jammed: {e}. Try once more with fewer articles."


class Receipt(BaseModel):
    """Receipt of a visit."""

    total: float = Field(description="Sum of all articles, in shillings")
    thanks: str = Field(description="A line of thanks in rhyme")


def prompt(state: State, config: RunnableConfig) -> list[AnyMessage]:
    shop = config.get("configurable", {}).get("shop", "the ironmonger's in Mill Lane")
    who = state.get("customer")
    head = f"You stand behind the counter of {shop}."
    if who:
        head += f" You serve {who} and know the family."
    return [SystemMessage(head + " Today's offer is wire."), *state["messages"]]


def trim(state):
    kept = trim_messages(state["messages"], max_tokens=30, token_counter=len, strategy="last", include_system=True)
    return {"llm_input_messages": kept}


tools = ToolNode([PriceTool(handle_tool_error=True), stock, order, remember], handle_tool_errors=trouble)
shop = create_react_agent(
    ChatOpenAI(model="gpt-4o-mini"),
    tools,
    prompt=prompt,
    pre_model_hook=trim,
    state_schema=State,
    response_format=("Write the receipt of what was bought, and nothing more.", Receipt),
    store=InMemoryStore(),
    name="counter",
)
