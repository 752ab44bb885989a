from typing import TypedDict

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

from .core import Library


class Call(TypedDict):
    order: str
    allergens: str
    answer: str


llm = ChatOpenAI(model="gpt-4o-mini")


def check(state: Call) -> dict:
    return {"allergens": llm.invoke(Library.check(order=state["order"])).text}


def answer(state: Call) -> dict:
    system = Library.answer(hours=Library.hours.text)
    order = HumanMessage(f"Order: {state['order']}\nAllergens: {state['allergens']}")
    return {"answer": llm.invoke([SystemMessage(system), order]).text}


builder = StateGraph(Call)
builder.add_node("check", check)
builder.add_node("answer", answer)
builder.add_edge(START, "check")
builder.add_edge("check", "answer")
builder.add_edge("answer", END)
bakery = builder.compile()
