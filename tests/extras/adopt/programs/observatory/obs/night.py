"""Plans and reports a night at the telescope."""

import operator
from typing import Annotated, TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import StateGraph

from obs.render import render


class Night(TypedDict, total=False):
    site: str
    targets: list
    plan: str
    notes: Annotated[list[str], operator.add]
    report: str


def llm():
    return ChatOpenAI(model="gpt-4.1", temperature=0.2)


async def plan(night: Night) -> Night:
    asked = render("plan", site=night["site"], targets=night.get("targets", []), age=9)
    return {"plan": (await llm().ainvoke(asked)).content}


async def observe(night: Night) -> Night:
    out = await llm().ainvoke(
        [
            ("system", "You operate a small telescope. Report what you see, one object a line."),
            ("human", night["plan"]),
        ]
    )
    return {"notes": [out.content, f"seen from {night['site']}"]}


async def report(night: Night) -> Night:
    return {"report": (await llm().ainvoke(render("report", notes=night["notes"], clouds=False))).content}


app = (
    StateGraph(Night)
    .add_sequence([plan, observe, ("report", report)])
    .set_entry_point("plan")
    .set_finish_point("report")
    .compile()
)
