from typing import Literal

from langchain_google_genai import ChatGoogleGenerativeAI
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel, Field

llm = ChatGoogleGenerativeAI(model="gemini-2.0-flash")


class Ticket(BaseModel):
    question: str
    tone: str = "friendly and brief"
    category: str = ""
    answer: str = ""


class Category(BaseModel):
    """The desk that a ticket belongs to."""

    category: Literal["billing", "technical"] = Field(description="The desk that should answer the ticket.")
    reason: str = Field(..., description="One sentence that says why.")


def classify(state: Ticket):
    found = llm.with_structured_output(Category).invoke(f"Classify this ticket: {state.question}")
    return {"category": found.category}


def billing(state: Ticket):
    return {"answer": llm.invoke(f"You answer billing tickets. Be {state.tone}.\n\n{state.question}").content}


def technical(state: Ticket):
    return {"answer": llm.invoke(f"You answer technical tickets. Be {state.tone}.\n\n{state.question}").content}


builder = StateGraph(Ticket)
builder.add_node(classify)
builder.add_node(billing)
builder.add_node(technical)
builder.add_edge(START, "classify")
builder.add_conditional_edges(
    "classify", lambda state: state.category, {"billing": "billing", "technical": "technical"}
)
builder.add_edge(["billing", "technical"], END)
graph = builder.compile()
