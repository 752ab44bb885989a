import inspect
from typing import Literal, Optional

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel, ConfigDict, Field


class Glaze(BaseModel):
    """A glaze with its firing."""

    colour: str = Field(..., description="Colour after firing")
    cone: Literal["06", "6", "10"] = Field("6", description="Orton cone")


class Pot(BaseModel):
    model_config = ConfigDict(title="Pot", json_schema_extra={"description": "What is thrown on the wheel."})

    shape: str = Field(description="bowl, vase or plate")
    glaze: Optional[Glaze] = None


class Order(BaseModel):
    wish: str = ""
    pot: Optional[Pot] = None
    quote: str = ""
    verdict: str = ""


class Studio:
    def __init__(self, model: str):
        self.llm = ChatOpenAI(model=model)
        self.designer = self.llm.with_structured_output(Pot, include_raw=True)

    def design(self, order: Order) -> dict:
        """You design pottery that can be thrown in one piece."""
        made = self.designer.invoke([("system", self.design.__doc__), ("human", order.wish)])
        return {"pot": made["parsed"]}

    def price(self, order: Order) -> dict:
        """Estimate a price in euros.

        Count a kilo of clay as four euros.
        """
        system = inspect.getdoc(self.price)
        said = self.llm.invoke([("system", system), ("human", f"The pot: {order.pot!r}")])
        return {"quote": said.text}

    def review(self, order: Order) -> dict:
        """Say whether the quote is fair, in one word."""
        ask = lambda text: self.llm.invoke([("system", inspect.cleandoc(Studio.review.__doc__)), ("human", text)])  # noqa: E731
        return {"verdict": ask(f"Quote: {order.quote}").text}


studio = Studio("gpt-4o")
flow = StateGraph(Order)
flow.add_node("design", studio.design)
flow.add_node("price", studio.price)
flow.add_node("review", studio.review)
flow.add_edge(START, "design")
flow.add_edge("design", "price")
flow.add_conditional_edges("price", lambda order: "review" if order.quote else END, {"review": "review", END: END})
flow.add_edge("review", END)
pottery = flow.compile()
