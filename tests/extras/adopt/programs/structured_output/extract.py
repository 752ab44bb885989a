from enum import Enum
from typing import Annotated, Literal, Optional

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel, Field, field_validator
from typing_extensions import TypedDict


class Currency(str, Enum):
    """Currencies that we know."""

    EUR = "EUR"
    USD = "USD"


class Line(BaseModel):
    """A line of an invoice."""

    article: str = Field(..., description="The name of the article as printed.")
    price: float = Field(ge=0, description="Price per piece, without tax.")
    currency: Currency = Currency.EUR


class Invoice(BaseModel):
    """An invoice that was read from a mail."""

    number: str = Field(description="The number of the invoice, such as R-2026-17.")
    lines: list[Line] = Field(default_factory=list, description="All lines of the invoice.")
    note: Optional[str] = None

    @field_validator("number")
    @classmethod
    def _number(cls, value: str) -> str:
        if not value:
            raise ValueError("an invoice must have a number")
        return value


class Verdict(TypedDict):
    """The verdict of the accountant."""

    decision: Annotated[Literal["pay", "refuse"], ..., "Whether the invoice is paid."]
    reason: Annotated[str, ..., "One sentence for the supplier."]


class State(TypedDict):
    mail: str
    invoice: Invoice
    decision: str
    answer: str


llm = ChatOpenAI(model="gpt-5-mini")
reader = llm.with_structured_output(Invoice)
judge = llm.with_structured_output(Verdict, include_raw=True)


def read(state: State) -> dict:
    return {"invoice": reader.invoke("Read this mail:\n" + state["mail"])}


def decide(state: State) -> dict:
    result = judge.invoke(
        [
            ("system", "You check invoices for a bakery."),
            ("user", state["invoice"].model_dump_json()),
        ]
    )
    return {"decision": result["parsed"]["decision"], "answer": result["parsed"]["reason"]}


def refuse(state: State) -> dict:
    """Write a polite refusal."""
    return {"answer": llm.invoke([("system", "Refuse politely."), ("user", state["answer"])]).content}


builder = StateGraph(State)
builder.add_node(read)
builder.add_node(decide)
builder.add_node(refuse)
builder.add_edge(START, "read")
builder.add_edge("read", "decide")
builder.add_conditional_edges("decide", lambda s: "refuse" if s["decision"] == "refuse" else END, ["refuse", END])
builder.add_edge("refuse", END)
app = builder.compile()
