from dataclasses import dataclass
from typing import TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

llm = ChatOpenAI(model="gpt-4o-mini")


@dataclass
class Manner:
    style: str = "You answer a guest of the museum in one friendly sentence."
    drafts: int = 2


class Visit(TypedDict):
    question: str
    notes: str
    answer: str


class Line(StateGraph[Visit]):
    """A graph whose steps follow each other."""

    def __init__(self, steps):
        super().__init__(Visit, context_schema=Manner)
        before = START
        for name, step in steps:
            self.put(name, step, before)
            before = name
        self.close(before)

    def put(self, name, step, before):
        self.add_node(name, step)
        self.add_edge(before, name)

    def close(self, last):
        self.add_edge(last, END)


class Other(Line):
    """Nobody uses it."""

    def __init__(self):
        super().__init__([])
        self.add_node("nothing", print)


def look_up(state: Visit) -> dict:
    return {"notes": llm.invoke(f"List what our museum shows about: {state['question']}").text}


def reply(state: Visit, runtime: Runtime[Manner]) -> dict:
    drafts = [
        llm.invoke(f"{runtime.context.style}\n\nNotes: {state['notes']}\n\n{state['question']}").text
        for _ in range(runtime.context.drafts)
    ]
    return {"answer": max(drafts, key=len)}


museum = Line([("look_up", look_up), ("reply", reply)]).compile(name="museum")
