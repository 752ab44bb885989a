import importlib
import json
import os
from enum import Enum
from pathlib import Path
from typing import TypedDict

import yaml
from langchain_core.messages import HumanMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from pydantic import Field, create_model

FOLDER = Path(__file__).parent / "cards"
CARDS: dict[str, dict] = {}
for card in FOLDER.iterdir():
    CARDS[card.stem] = yaml.safe_load(card.read_text(encoding="utf-8"))


class Mood(Enum):
    CALM = ("calm", "The caller is calm: be quick.")
    ANGRY = ("angry", "The caller is angry: say sorry first.")

    def __init__(self, key: str, advice: str):
        self.key = key
        self.advice = advice


Rating = create_model("Rating", score=(int, Field(description="How content the caller is, from 1 to 5.")))
greeting = importlib.import_module(f"greetings.{os.getenv('CENTRE_LANGUAGE', 'en')}")


class Call(TypedDict, total=False):
    said: str
    answer: str
    notes: dict[str, str]


llm = ChatOpenAI(model="gpt-4o-mini")


def greet(state: Call) -> Call:
    advice = " ".join(mood.advice for mood in Mood)
    return {"notes": {"greeting": llm.invoke([("system", greeting.TEXT), ("system", advice)]).text}}


def help_caller(state: Call) -> Call:
    prompt = ChatPromptTemplate.from_messages([("system", CARDS["orders"]["prompt"])])
    if len(state["said"]) > 10:
        prompt.append(("system", CARDS["waiting"]["prompt"]))
    prompt.append(("human", "The caller says: {said}"))
    prompt = prompt + HumanMessage("Notes: " + json.dumps({"hint": "Be kind.", **state["notes"]}))
    return {"answer": (prompt | llm).invoke({"said": state["said"], "product": "garden"}).text}


def rate(state: Call) -> Call:
    llm.with_structured_output(Rating).invoke(f"Rate this call.\n{state['said']}\n{Mood.CALM.advice}")
    return {}


graph = StateGraph(Call)
graph.add_node("greet", greet)
graph.add_node("help", help_caller)
graph.add_node("rate", rate)
graph.add_edge(START, "greet")
graph.add_edge("greet", "help")
graph.add_edge("help", "rate")
graph.add_edge("rate", END)
centre = graph.compile()
