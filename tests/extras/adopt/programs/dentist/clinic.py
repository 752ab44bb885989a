from pathlib import Path
from typing import Any, TypedDict

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

FOLDER = Path(__file__).with_name("prompts")
_cache: dict[str, str] = {}


def load(name: str) -> str:
    if name not in _cache:
        _cache[name] = (FOLDER / f"{name}.md").read_text(encoding="utf-8").strip()
    return _cache[name]


class Visit(TypedDict, total=False):
    complaint: str
    greeting: str
    plan: str
    bill: str


async def call_llm(step: str, content: str, **values: Any) -> str:
    system = load(step).format(**values) if values else load(step)
    llm = ChatOpenAI(model="gpt-4o-mini")
    return (await llm.ainvoke([SystemMessage(system), HumanMessage(content)])).text


async def run_step(step: str, state: Visit, **values: Any) -> str:
    return await call_llm(step, state.get("plan") or state["complaint"], **values)


async def greet(state: Visit) -> Visit:
    return {"greeting": await run_step("greet", state, dentist="Dr. Moor")}


async def plan(state: Visit) -> Visit:
    return {"plan": await run_step("plan", state)}


async def bill(state: Visit) -> Visit:
    return {"bill": await run_step("bill", state, patient="Kim")}


EDGES = [(START, "greet"), ("greet", "planning"), ("planning", "billing"), ("billing", END)]
builder = StateGraph(Visit)
for key, fn in (("greet", greet), ("planning", plan), ("billing", bill)):
    builder.add_node(key, fn)
for edge in EDGES:
    builder.add_edge(*edge)
clinic = builder.compile()
