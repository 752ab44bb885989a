import textwrap
from typing import TypedDict

from langgraph.graph import END, START, StateGraph

from office import wording
from office.llm import client, load


class Article(TypedDict, total=False):
    facts: str
    headline: str
    answer: str


class Writer:
    def __init__(self, part: str):
        self.part = part

    async def write(self, state: Article) -> Article:
        prompt = getattr(wording, f"{self.part.upper()}_PROMPT")
        return {self.part: await client.race(prompt, state["facts"])}


async def draft(state: Article) -> Article:
    quoted = textwrap.indent("Quote nobody.", "> ")
    text = await client.complete("Facts: {facts}", "Headline: {headline}", quoted, **state)
    return {"answer": text}


async def proof(state: Article) -> Article:
    system = load("proof").format(paper="the Gazette")
    return {"answer": await client.complete(state["answer"], rules=(system, "Keep names."))}


builder = StateGraph(Article)
builder.add_node("headline", Writer("headline").write)
builder.add_node("draft", draft)
builder.add_node("proof", proof)
names = [START, "headline", "draft", "proof", END]
for before, after in zip(names, names[1:]):
    builder.add_edge(before, after)
graph = builder.compile()
