"""Prompts by a fluent builder, queues and operators."""
from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from io import StringIO
from typing import TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph


@dataclass(frozen=True)
class Prompt:
    head: str = ""
    rules: tuple[str, ...] = ()
    tail: str = field(default="")

    def role(self, text: str) -> Prompt:
        return replace(self, head=text)

    def rule(self, text: str) -> Prompt:
        return replace(self, rules=(*self.rules, text))

    def __add__(self, other: str) -> Prompt:
        return replace(self, tail=self.tail + other)

    def __str__(self) -> str:
        return "\n".join([self.head, *(f"* {r}" for r in self.rules), self.tail])


@contextmanager
def section(out: StringIO, title: str):
    out.write(f"<{title}>\n")
    yield out
    out.write(f"\n</{title}>\n")


BASE = Prompt().rule("Answer in metric units.").rule("Name the page of the manual.")
MECHANIC = BASE.role("You mend clocks of church towers.").rule("Never advise to oil the escapement.") + "Begin with safety."
BUYER = BASE.role("You buy parts for old clocks.")

queue = deque(["First find out how old the clock is.", "Then ask who wound it last."])
queue.appendleft("Greet the sexton.")
first_step = queue.popleft()
rest = []
push = rest.append
while queue:
    push(queue.popleft())
add = rest.append
add("At last look at the weights.")
llm = ChatOpenAI(model="gpt-4o-mini")


class Clock(TypedDict, total=False):
    trouble: str
    plan: str
    parts: str
    report: str


def plan(state: Clock):
    body = f"{first_step}\n" + "\n".join(rest) + f"\n\nTrouble: {state['trouble']}"
    return {"plan": llm.invoke([("system", str(MECHANIC)), ("user", body)]).content}


def parts(state: Clock):
    wants = str(BUYER + "List at most four parts.")
    return {"parts": llm.invoke([("system", wants), ("user", state["plan"])]).content}


def report(state: Clock):
    out = StringIO()
    with section(out, "plan"):
        out.write(state["plan"])
    with section(out, "parts"):
        out.write(state["parts"])
    print("Write to the vicar what it will cost.", file=out)
    out.write("Do not mention the bats.")
    return {"report": llm.invoke(out.getvalue()).content}


sg = StateGraph(Clock)
add_node, add_edge = sg.add_node, sg.add_edge
for fn in (plan, parts, report):
    add_node(fn)
add_edge(START, "plan")
add_edge("plan", "parts")
add_edge("parts", "report")
add_edge("report", END)
clock = sg.compile()
