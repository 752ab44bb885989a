"""ReAct by hand: tools are described in the prompt."""
import asyncio
import inspect
import json
import pprint
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, TypedDict

from langchain_core.output_parsers import PydanticOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import chain
from langchain_core.tools import render_text_description, tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel, Field


class Body(Enum):
    PLANET = "planet"
    MOON = "moon"


class Fact(BaseModel):
    """One fact on a body."""

    body: str = Field(description="Its usual name")
    mass: float = Field(description="In kilograms")


class Quiz(BaseModel):
    question: str = Field(description="The question of the quiz")


@tool
def distance(body: str) -> str:
    """Distance of a body from the sun."""
    return "far"


@tool
def diameter(body: str) -> str:
    """Diameter of a body."""
    return "wide"


TOOLS = [distance, diameter]
TABLE = {"Mars": {"color": "red and dusty"}, "Venus": {"color": "pale yellow"}}

parser = PydanticOutputParser(pydantic_object=Fact)
llm = ChatOpenAI(model="gpt-4o-mini")


class State(TypedDict, total=False):
    topic: str
    facts: list[str]
    fact: Any
    quiz: str
    code: str


def score(facts: list[str]) -> int:
    # longer facts count more
    return sum(len(fact) for fact in facts)


@chain
def explain(topic: str):
    prompt = ChatPromptTemplate.from_template("Explain {topic} to a pupil.")
    return prompt | llm


async def gather(state: State):
    listed = "\n".join(f"- {t.name}: {t.description}" for t in TOOLS)
    prompts = [f"Say something on the {kind.value} {state['topic']}.\nTools:\n{listed}" for kind in Body]
    replies = await asyncio.gather(*[llm.ainvoke(p) for p in prompts])
    return {"facts": [r.content for r in replies]}


async def more(state: State):
    out = await llm.abatch([[("system", "Correct this fact."), ("human", fact)] for fact in state["facts"]])
    rendered = render_text_description(TOOLS)
    measured = [distance.invoke({"body": state["topic"]}), diameter.invoke({"body": state["topic"]})]
    last = await llm.ainvoke("Which tool helps here?\n" + rendered + "\nMeasured: " + ", ".join(measured))
    return {"facts": [o.content for o in out] + [last.content]}


def fact(state: State):
    template = ChatPromptTemplate.from_messages(
        [("system", "Extract a fact.\n{format_instructions}"), ("human", "{text}")]
    ).partial(format_instructions=parser.get_format_instructions())
    return {"fact": (template | llm).invoke({"text": "\n".join(state["facts"])}).content}


def quiz(state: State):
    ask = (
        "Write a quiz question as JSON with this schema:\n"
        + json.dumps(Quiz.model_json_schema(), indent=2)
        + "\nColours:\n"
        + pprint.pformat(TABLE, width=200)
        + "\nKinds: "
        + ", ".join(k.value for k in Body)
    )
    return {"quiz": llm.invoke(ask).content}


def review(state: State):
    said = explain.invoke(state["topic"]).content
    source = inspect.getsource(score)
    return {"code": llm.invoke(f"Does this code score the facts well?\n{source}\n{said}").content}


b = StateGraph(State)
b.add_node(gather)
b.add_node(more)
b.add_node("fact", fact)
b.add_node("quiz", quiz)
b.add_node("review", review)
b.add_edge(START, "gather")
b.add_edge("gather", "more")
b.add_edge("more", "fact")
b.add_edge("more", "quiz")
b.add_edge(["fact", "quiz"], "review")
b.add_edge("review", END)
graph = b.compile()
