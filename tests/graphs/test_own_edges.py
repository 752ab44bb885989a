"""Agents are inserted on edges of a graph of the user's own, and taken home into its source."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands import call
from tests.wire.server import WireServer, by_kind

APP = '''
import os
from typing import TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

model = ChatOpenAI(model="mine", base_url=os.environ["MY_MODEL"], api_key="k", max_retries=0)
DECIDE = """You sort messages of a shop.

{question}"""


class Desk(TypedDict):
    question: str
    calls: int
    answer: str


def look(state: Desk) -> dict:
    return {"calls": 1}


def decide(state: Desk) -> dict:
    return {"answer": model.invoke(DECIDE.format(question=state["question"])).text}


builder = StateGraph(Desk)
builder.add_node(look)
builder.add_node(decide)
builder.add_edge(START, "look")
builder.add_edge("look", "decide")
builder.add_edge("decide", END)
graph = builder.compile()
'''
CHECKER = 'You check the desk. "Sales" is written as trade; leave all else as it is.'
RULE = "Write the name of the desk and nothing else."
GOOD = f"You sort messages of a shop. {RULE}\n\n{{question}}"
DESKS = {"billing": "billing", "tech": "tech", "sales": "trade"}


class Shop:
    """The model behind everything: it knows no desk called trade, so that only a checker can mend its answers.

    It names the desk alone if it is told to. As a critic it asks for the checker, and for the rule.
    """

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.insertion: dict[str, str] = {
            "place": "decide.answer", "name": "desk checker", "description": CHECKER, "reason": "Nobody checks the desk.",
        }  # fmt: skip

    def __call__(self, kind: str, body: dict[str, Any]) -> dict[str, Any] | str:
        said = "\n".join(str(message["content"]) for message in body["messages"])
        self.asked.append({"kind": kind, "text": said})
        if kind == "GlobalGradient":
            return {"feedback": "The desk is wrong.", "own_feedback": "", "sentiment": "neutral"}
        if kind == "AgentGradient":
            mine = "You sort messages" in said.partition("<role>")[2].partition("</role>")[0]
            return {
                "system_prompt_feedback": "Write the desk alone." if mine and RULE not in said else "",
                "tool_feedback": "",
                "overall_feedback": "A step that checks the desk is missing." if mine else "",
                "concerns": "both" if mine else "none",
                "sentiment": "critical" if mine else "positive",
            }
        if kind == "PromptRewrite":
            return {"prompt": GOOD}
        if kind == "AgentInsertion":
            return {name: "" for name in self.insertion} if CHECKER.split(".")[0] in said else self.insertion
        if said.startswith("<task>"):
            text = said.partition("<text>\n")[2].partition("\n</text>")[0]
            return text.replace("sales", "trade") if CHECKER in said else text
        desk = next(name for name in DESKS if f"about {name}" in said)
        return desk if RULE in said else f"I think that {desk} is the desk."

    def list_asked(self, kind: str) -> list[str]:
        return [asked["text"] for asked in self.asked if asked["kind"] == kind]


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def home(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    Path("shop_app.py").write_text(APP, encoding="utf-8")
    names = list(DESKS)
    rows = [
        {"input": f"Message {n} is about {names[n % 3]}. Which desk?", "reference": DESKS[names[n % 3]]}
        for n in range(90)
    ]
    Path("desk.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with WireServer(by_kind(shop)) as server:
        monkeypatch.setenv("MY_MODEL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        yield tmp_path / "home"


def evolve(home: Path, *more: str, code: int = 0) -> Any:
    model = ("--model", "openai:mine", "--base-url", os.environ["MY_MODEL"], "--retries", "0")
    tasks = ("--benchmark", "desk.jsonl", "--iterations", "1", "--batch", "3", "--name", "desk")
    return call(home, "evolve", "shop_app.py:graph", *tasks, *model, *more, code=code)


def score(home: Path, graph: str, tasks: int = 30) -> float:
    found = json.loads(call(home, "eval", graph, "--benchmark", "desk.jsonl", "--json", "--tasks", str(tasks)).stdout)
    return float(found["systems"][-1]["score"])


def test_a_prompt_and_a_missing_checker_are_mended(home: Path, shop: Shop) -> None:
    done = evolve(home)
    assert "evolved - seed, paired over 30 tasks: +1.00" in done.output
    print(call(home, "export", "desk", "mine.patch").output)
    print(Path("mine.patch").read_text())
    subprocess.run(["git", "apply", "mine.patch"], check=True)
    print(Path("shop_app.py").read_text())
    assert 0
