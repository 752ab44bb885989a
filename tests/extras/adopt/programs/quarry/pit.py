import configparser
from pathlib import Path
from typing import TypedDict

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send

rules = configparser.ConfigParser()
rules.read(Path(__file__).with_name("rules.ini"))
BLAST = {
    "type": "function",
    "function": {
        "name": "blast",
        "description": "Blast a wall of the quarry.",
        "parameters": {
            "type": "object",
            "properties": {"wall": {"type": "string", "description": "north or south"}},
            "required": ["wall"],
        },
    },
}


class Quarry(TypedDict, total=False):
    order: str
    walls: list[str]
    wall: str
    plan: str


llm = ChatOpenAI(model="gpt-4o")
blaster = llm.bind(tools=[BLAST], tool_choice={"type": "function", "function": {"name": "blast"}})
strict = ChatOpenAI(model="gpt-4o-mini").bind(stop=["STOP"])


def plan(state: Quarry):
    text = strict.invoke([SystemMessage(rules["quarry"]["plan"]), HumanMessage(state["order"])]).text
    sends = [Send("work", {"wall": wall, "plan": text}) for wall in ("north", "south")]
    return Command(update={"plan": text}, goto=sends)


def work(state: Quarry):
    blaster.invoke(f"Blast the {state['wall']} wall by this plan: {state['plan']}")
    return None


def report(state: Quarry):
    return {"plan": llm.invoke([{"type": "human", "content": "Report what was done: " + state["plan"]}]).text}


builder = StateGraph(Quarry)
builder.add_node("plan_step", plan, destinations=("work",))
builder.add_node("work", work)
builder.add_node("report", report, defer=True)
builder.set_entry_point("plan_step")
builder.add_edge("work", "report")
builder.add_edge("report", END)
quarry = builder.compile()
