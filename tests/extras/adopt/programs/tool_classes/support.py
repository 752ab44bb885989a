from typing import Annotated

from langchain.agents import create_agent
from langchain_core.tools import BaseTool, tool
from langgraph.types import interrupt
from pydantic import BaseModel, Field

REFUND_DESCRIPTION = "Refunds an order."


class RefundInput(BaseModel):
    order: str = Field(description="Number of the order, such as A-17.")


class RefundTool(BaseTool):
    name: str = "refund"
    description: str = REFUND_DESCRIPTION
    args_schema: type[BaseModel] = RefundInput

    def _run(self, order: str) -> str:
        answer = interrupt({"ask": "Refund this order?"})
        if answer != "yes":
            return "The refund was refused."
        return f"Order {order} was refunded."


@tool
def look_up(order: Annotated[str, "Number of the order."], detailed: bool = False) -> str:
    """Look an order up."""
    return database[order]


database = {"A-17": "two lamps"}
support = create_agent(
    "openai:gpt-4o", [RefundTool(), look_up], system_prompt="\n".join(["You are a support agent.", "Be kind."])
)
