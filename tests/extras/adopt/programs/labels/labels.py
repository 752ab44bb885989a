"""Labels for a museum: Jinja templates in a folder, and two inline."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2 import Template as Inline
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.prompts import (
    ChatPromptTemplate,
    HumanMessagePromptTemplate,
    PromptTemplate,
    SystemMessagePromptTemplate,
)
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel

HERE = Path(__file__).parent
env = Environment(loader=FileSystemLoader(HERE / "templates"), undefined=StrictUndefined, trim_blocks=True)
llm = ChatOpenAI(model="gpt-4o")


class Label(BaseModel):
    object: str
    audience: str = "adults"
    facts: list[str] = []
    draft: str = ""
    answer: str = ""


def render(name: str, **values) -> str:
    return env.get_template(f"{name}.j2").render(**values)


def collect(state: Label) -> dict:
    reply = llm.invoke([SystemMessage(render("curator")), HumanMessage(f"Tell me about the {state.object}.")])
    return {"facts": reply.text.splitlines()}


def write(state: Label) -> dict:
    text = render("label", facts=state.facts, object=state.object)
    return {"draft": llm.invoke(text).text}


CHECK = Inline(
    "Is this label right for {{ audience }}? {% if audience == 'kids' %}Use small words.{% endif %}\n{{ draft }}"
)


def check(state: Label) -> dict:
    reply = llm.invoke(CHECK.render(audience=state.audience, draft=state.draft))
    translator = ChatPromptTemplate.from_messages(
        [
            SystemMessagePromptTemplate.from_template(
                "You translate museum labels into {{ language }}.", template_format="jinja2"
            ),
            HumanMessagePromptTemplate(prompt=PromptTemplate.from_template("Translate the label: {label}")),
        ]
    )
    return {"answer": (translator | llm).invoke({"language": "Latin", "label": reply.text}).text}


graph = StateGraph(Label)
graph.add_node(collect)
graph.add_node(write)
graph.add_node(check)
graph.add_edge(START, "collect")
graph.add_edge("collect", "write")
graph.add_edge("write", "check")
graph.add_edge("check", END)
graph = graph.compile()
