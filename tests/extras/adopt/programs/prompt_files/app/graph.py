from pathlib import Path
from string import Template
from typing import TypedDict

import yaml
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

PROMPTS = Path(__file__).parent / "prompts"
CONFIG = yaml.safe_load((PROMPTS / "prompts.yaml").read_text())
llm = ChatOpenAI(model="gpt-4o")


def load_prompt(name: str) -> str:
    return (PROMPTS / f"{name}.md").read_text(encoding="utf-8").strip()


class State(TypedDict):
    topic: str
    outline: str
    text: str
    review: str


def outline(state: State):
    prompt = Template(load_prompt("outline")).substitute(topic=state["topic"])
    return {"outline": llm.invoke(prompt).content}


def write(state: State):
    chain = (
        ChatPromptTemplate.from_messages([("system", CONFIG["writer"]["system"]), ("human", CONFIG["writer"]["user"])])
        | llm
    )
    return {"text": chain.invoke({"topic": state["topic"], "outline": state["outline"]}).content}


def review(state: State):
    with open(PROMPTS / "review.txt") as file:
        system = file.read()
    return {"review": llm.invoke([("system", system), ("user", state["text"])]).content}


graph = StateGraph(State)
for node in (outline, write, review):
    graph.add_node(node)
graph.add_edge(START, "outline")
graph.add_edge("outline", "write")
graph.add_edge("write", "review")
graph.add_edge("review", END)
app = graph.compile()
