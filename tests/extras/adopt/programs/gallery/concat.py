from datetime import date
from pathlib import Path
from string import Template
from typing import Union
import csv
import io

from jinja2 import Template as Jinja
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate, HumanMessagePromptTemplate, PromptTemplate
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

HERE = Path(__file__).parent
llm = ChatOpenAI(model="gpt-4o")

base = PromptTemplate.from_template("You guide visitors through {place}. ")
guide_prompt = base + "Name the year of every picture. " + PromptTemplate.from_template("Question: {question}")
talk = (
    SystemMessage("You are the voice of a painting.")
    + HumanMessagePromptTemplate.from_template("{question}")
    + "Speak in the first person."
)
dated = ChatPromptTemplate.from_messages(
    [("system", "Today is {today}. Mention exhibitions."), ("human", "{question}")]
).partial(today=lambda: date.today().isoformat())
farewell = ChatPromptTemplate.from_messages(
    [("system", "Say farewell."), *[("human", q) for q in ("Was it nice?", "Will you come again?")]]
)
page = Jinja((HERE / "page.j2").read_text())
letter = Template((HERE / "letter.txt").read_text())
ROOMS = {path.stem: path.read_text() for path in sorted((HERE / "rooms").glob("*.md"))}
PRICES = list(csv.DictReader(io.StringIO("who,price\nchild,two euros\nadult,six euros\n")))


class Praise(BaseModel):
    """The visitor praises a picture."""

    picture: str


class Blame(BaseModel):
    """The visitor complains."""

    about: str = Field(description="What the complaint is about")


class Verdict(BaseModel):
    verdict: Union[Praise, Blame]


class Visit(TypedDict, total=False):
    question: str
    place: str
    room: str
    answer: str
    voice: str
    verdict: dict
    letter: str


def guide(v: Visit):
    return {"answer": llm.invoke(guide_prompt.format(place=v["place"], question=v["question"])).content}


def voice(v: Visit):
    chain = talk | llm
    first = chain.invoke({"question": v["question"]})
    second = (dated | llm).invoke({"question": first.content})
    room = ROOMS[v.get("room", "east")]
    third = llm.invoke([SystemMessage(room), HumanMessage(page.render(said=second.content))])
    return {"voice": third.content}


def judge(v: Visit):
    out = llm.with_structured_output(Verdict).invoke("Praise or blame? %(answer)s" % v)
    return {"verdict": out.model_dump()}


def write(v: Visit):
    lines = [f"{row['who']}: {row['price']}" for row in PRICES]
    text = letter.safe_substitute(visitor="a visitor", prices="; ".join(lines))
    bye = (farewell | llm).invoke({})
    return {"letter": llm.invoke(text + bye.content).content}


g = StateGraph(Visit)
for step in [guide, voice, judge, write]:
    g.add_node(step)
g.add_edge(START, "guide")
g.add_edge("guide", "voice")
g.add_edge("voice", "judge")
g.add_edge("judge", "write")
g.add_edge("write", END)
museum = g.compile()
