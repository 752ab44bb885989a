from collections import defaultdict
from functools import partial
from typing import TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

llm = ChatOpenAI(model="gpt-5-mini")
PLAN = "Plan a walk in <PLACE> with {stops} stops."
TELL = "Tell the story of {place} to {who}."
PACK = "Pack a bag for {place}."
PROMPTS = {
    "poem": lambda place: f"Write a poem about {place}.",
    "song": lambda place: "Write a song about " + place,
}
EXAMPLES = [{"q": "Rome?", "a": "Go by train."}, {"q": "Oslo?", "a": "Go by ship."}]


class State(TypedDict):
    place: str
    text: str
    answer: str


def render(template: str, **values: str) -> str:
    return template.format(**values).strip()


tell = partial(render, TELL, who="children")


def ask(prompt: str = "Just say hello.", *, style: str = "Be terse.", **options) -> str:
    return llm.invoke([("system", style), ("user", prompt)]).text


KWARGS = dict(style="Be florid.")


def plan(state: State):
    return {"text": ask(render(PLAN, stops="3").replace("<PLACE>", state["place"]))}


def story(state: State):
    return {"text": ask(tell(place=state["place"]), **KWARGS)}


def pack(state: State):
    return {"text": ask(PACK.format_map(defaultdict(str, place=state["place"])), style="Be practical.")}


def poem(state: State):
    kind = "poem" if len(state["text"]) % 2 else "song"
    return {"answer": ask(PROMPTS[kind](state["place"]))}


def where(state: State):
    shots = ""
    for i, example in enumerate(EXAMPLES, start=1):
        shots += f"Example {i}: {example['q']} -> {example['a']}\n"
    return {"answer": llm.invoke(f"How do I get there?\n{shots}{state['place']}?").text}


graph = StateGraph(State).add_sequence([plan, story, pack, poem, where]).add_edge(START, "plan").compile()
