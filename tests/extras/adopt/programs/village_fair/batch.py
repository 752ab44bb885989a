import asyncio
import re
from string import Template
from textwrap import dedent, indent
from typing import TypedDict

from jinja2 import DictLoader, Environment
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableConfig
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

env = Environment(
    loader=DictLoader(
        {
            "rate.j2": "Rate the {{ thing }} from 1 to 5.\n{% for rule in rules %}- {{ rule }}\n{% endfor %}Text: {{ text }}",
            "base.j2": "Shared words of all templates.",
            "sum.j2": "{% include 'base.j2' %}\nSum up {{ n }} ratings in one line:{% if strict %} Be strict.{% endif %}\n{{ ratings|join(', ') }}",
        }
    ),
    trim_blocks=True,
)
RULES = ["Spelling counts half.", "Length does not count."]
STARS = Template("Give the entry $title a star name, like $$gold.\nEntry: $body")
BLURB = dedent(
    """\
    Write a blurb for the winner [[WINNER]].

        The jury said: [[JURY]]
    Keep the tone of a village fair.
    """
)
llm = ChatOpenAI(model="gpt-4o-mini")
shorten = ChatPromptTemplate.from_template("Shorten this entry to ten words: {entry}") | llm | StrOutputParser()


class Fair(TypedDict, total=False):
    entries: list[str]
    short: list[str]
    ratings: list[str]
    names: list[str]
    verdict: str
    blurb: str


def fill(template: str, **values: str) -> str:
    return re.sub(r"\[\[(\w+)\]\]", lambda m: values[m.group(1).lower()], template)


async def short(state: Fair):
    return {"short": await shorten.abatch([{"entry": e} for e in state["entries"]], RunnableConfig(max_concurrency=2))}


def rate(state: Fair):
    template = env.get_template("rate.j2")
    prompts = [template.render(thing="pie", rules=RULES, text=t) for t in state["short"]]
    return {"ratings": [r.content for r in llm.batch(prompts)]}


async def name(state: Fair):
    async def one(i, body):
        return (await llm.ainvoke(STARS.safe_substitute(title=f"no. {i}", body=body))).content

    return {"names": await asyncio.gather(*[one(i, b) for i, b in enumerate(state["short"])])}


def verdict(state: Fair):
    text = env.get_template("sum.j2").render(n=len(state["ratings"]), strict=True, ratings=state["ratings"])
    text += "\n" + indent("Names given: " + "; ".join(state["names"]), "  ")
    return {"verdict": llm.invoke(text).content}


def blurb(state: Fair):
    return {"blurb": llm.invoke(fill(BLURB, winner=state["names"][0], jury=state["verdict"])).content}


steps = [short, rate, name, verdict, blurb]
b = StateGraph(Fair)
for s in steps:
    b.add_node(s)
b.add_edge(START, "short")
for left, right in zip(steps, steps[1:]):
    b.add_edge(left.__name__, right.__name__)
b.add_edge("blurb", END)
fair = b.compile()
