import datetime as dt
from typing import Annotated

from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool, tool
from langgraph.prebuilt import InjectedState
from pydantic import BaseModel, Field

STOCK_DESCRIPTION = "Look up how many pieces of an article are in stock."


class StockInput(BaseModel):
    """Input of the stock tool."""

    article: str = Field(description="Article number, eight digits.")


@tool(args_schema=StockInput, description=STOCK_DESCRIPTION)
def stock(article: str) -> str:
    """This docstring is replaced by the description."""
    return f"There are 12 pieces of {article}."


@tool(parse_docstring=True)
def order(article: str, pieces: int = 1) -> str:
    """Order an article for the shop.

    Args:
        article: Article number to order.
        pieces: How many pieces to order.
    """
    if pieces > 100:
        return "Too many pieces, ask the manager."
    return "ordered"


@tool("opening_hours")
def hours(day: Annotated[str, "Name of the weekday."], state: Annotated[dict, InjectedState]) -> str:
    """Tell the opening hours of the shop."""
    return "9 to 5"


def _discount(percent: int, user_id: Annotated[str, InjectedToolArg] = "") -> float:
    """Compute a price with a discount."""
    return 1 - percent / 100


discount = StructuredTool.from_function(_discount, name="discount", description="Apply a discount in percent.")


class Today(BaseTool):
    name: str = "today"
    description: str = "Return the date of today."

    def _run(self) -> str:
        return "It is " + dt.date.today().isoformat()


TOOLS = [stock, order, hours, discount, Today()]
