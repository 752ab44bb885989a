import re
from pathlib import Path
from typing import TypedDict

import frontmatter
import yaml
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

PROMPTS = Path(__file__).parent / "prompts"
HEAD = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
TOPICS = (("distance", "lengths and times of paths"), ("equipment", "what to bring"))
llm = ChatOpenAI(model="gpt-4o-mini")


def load_prompt(name):
    _, head, body = (PROMPTS / f"{name}.md").read_text().split("---", 2)
    return yaml.safe_load(head), body.strip()


class Hike(TypedDict):
    question: str
    plan: str
    gear: str
    answer: str


def plan(state: Hike) -> dict:
    settings, prompt = load_prompt("planner")
    chosen = llm.bind(temperature=settings["temperature"])
    return {"plan": chosen.invoke([SystemMessage(prompt), HumanMessage(state["question"])]).text}


def pack(state: Hike) -> dict:
    post = frontmatter.load(PROMPTS / "packer.md")
    return {"gear": llm.invoke([SystemMessage(post.content), HumanMessage(state["plan"])]).text}


def check(state: Hike) -> dict:
    prompt = HEAD.sub("", (PROMPTS / "critic.md").read_text())
    topics = "\n".join(f"- {topic}: {meaning}" for topic, meaning in TOPICS)
    asked = f"Check these topics.\n{topics}\n\n{state['plan']}\n{state['gear']}"
    return {"answer": llm.invoke([SystemMessage(content=prompt), HumanMessage(asked)]).text}


builder = StateGraph(Hike)
builder.add_sequence([plan, pack, check])
builder.add_edge(START, "plan")
builder.add_edge("check", END)
graph = builder.compile()
