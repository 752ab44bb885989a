from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel

env = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
env.filters["shout"] = str.upper


class Person(BaseModel):
    name: str = "Anna Berg"
    born: int = 1871
    children: list[str] = ["Karl"]


class Tree(BaseModel):
    person: Person = Person()
    biography: str = ""
    remarks: str = ""


def _ask(template: str, **values) -> str:
    text = env.get_template(f"{template}.j2").render(**values)
    return ChatOpenAI(model="gpt-4o").invoke(text).text


def write(state: Tree) -> dict:
    return {"biography": _ask("biography", person=state.person)}


def check(state: Tree) -> dict:
    hint = env.from_string("Answer in {{ n }} lines.").render(n=3)
    return {"remarks": _ask("check", biography=state.biography) + ChatOpenAI(model="gpt-4o").invoke(hint).text}


workflow = StateGraph(Tree)
for name, node in {"write": write, "check": check}.items():
    workflow.add_node(name, node)
workflow.add_edge(START, "write")
workflow.add_edge("write", "check")
workflow.add_edge("check", END)
tree = workflow.compile()
