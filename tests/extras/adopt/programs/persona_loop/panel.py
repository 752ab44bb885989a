import functools
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

llm = ChatOpenAI(model="gpt-5-mini")


class Persona(NamedTuple):
    name: str
    brief: str


@dataclass(frozen=True)
class Expert:
    key: str
    brief: str
    temperature: float = 0.2


PERSONAS = [Persona("optimist", "You see chances everywhere."), Persona("sceptic", "You see risks everywhere.")]
EXPERTS = {"law": Expert("law", "You know the law of the sea."), "tax": Expert(key="tax", brief="You know taxes.")}


def merge(a: dict, b: dict) -> dict:
    return {**a, **b}


class State(TypedDict):
    question: str
    views: Annotated[dict, merge]
    answer: str


def speak(state: State, *, persona: Persona) -> dict:
    reply = llm.invoke([("system", persona.brief), ("human", state["question"])])
    return {"views": {persona.name: reply.text}}


def expert_node(expert: Expert):
    async def run(state: State) -> dict:
        reply = await llm.ainvoke([("system", expert.brief), ("human", state["question"])])
        return {"views": {expert.key: reply.text}}

    return run


def summarise(state: State, header: str) -> dict:
    return {"answer": llm.invoke(f"{header}\n{state['views']}").text}


builder = StateGraph(State)
for persona in PERSONAS:
    builder.add_node(persona.name, functools.partial(speak, persona=persona))
    builder.add_edge(START, persona.name)
    builder.add_edge(persona.name, "summary")
for key, expert in EXPERTS.items():
    builder.add_node(f"expert_{key}", expert_node(expert))
    builder.add_edge(START, f"expert_{key}")
builder.add_node("summary", lambda state: summarise(state, "Sum up these views in one line each."))
builder.add_edge([f"expert_{k}" for k in EXPERTS], "summary")
builder.add_edge("summary", END)
graph = builder.compile()
