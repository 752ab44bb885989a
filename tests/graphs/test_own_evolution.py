"""A graph of the user's own is evolved: its prompts change in what is sent, and nothing else does."""

import json
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

What the customer wants: {wish}

{question}"""


class Desk(TypedDict):
    question: str
    wish: str
    answer: str


def read(state: Desk) -> dict:
    return {"wish": model.invoke(f"Say in a few words what this customer wants: {state['question']}").text}


def decide(state: Desk) -> dict:
    asked = DECIDE.format(wish=state["wish"], question=state["question"])
    return {"answer": model.invoke(asked).text}


builder = StateGraph(Desk)
builder.add_node(read)
builder.add_node(decide)
builder.add_edge(START, "read")
builder.add_edge("read", "decide")
builder.add_edge("decide", END)
graph = builder.compile()
'''
RULE = "Write the name of the desk and nothing else."
GOOD = "You sort messages of a shop. " + RULE + "\n\nWhat the customer wants: {wish}\n\n{question}"
DESKS = ("billing", "tech", "sales")


class Shop:
    """The model behind everything: it names the desk alone if it is told to, and mends the prompt that decides."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.rewrites = ["Write the name of the desk and nothing else.", GOOD]

    def __call__(self, kind: str, body: dict[str, Any]) -> dict[str, Any] | str:
        said = "\n".join(str(message["content"]) for message in body["messages"])
        self.asked.append({"kind": kind, "text": said})
        if kind == "GlobalGradient":
            return {"feedback": "The desk stands in a sentence.", "own_feedback": "", "sentiment": "neutral"}
        if kind == "AgentGradient":
            mine = "You sort messages" in said.partition("<role>")[2].partition("</role>")[0]
            return {
                "system_prompt_feedback": "Write the desk alone." if mine else "",
                "tool_feedback": "",
                "overall_feedback": "",
                "concerns": "semantics" if mine else "none",
                "sentiment": "critical" if mine else "positive",
            }
        if kind == "PromptRewrite":
            return {"prompt": self.rewrites.pop(0) if len(self.rewrites) > 1 else self.rewrites[0]}
        desk = next(name for name in DESKS if f"about {name}" in said)
        if said.startswith("Say in a few words"):
            return f"help with something, {desk}"
        return desk if RULE in said else f"I think that {desk} is the desk."


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def home(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    Path("shop_app.py").write_text(APP, encoding="utf-8")
    rows = [
        {"input": f"Message {n} is about {DESKS[n % 3]}. Which desk?", "reference": DESKS[n % 3]} for n in range(90)
    ]
    Path("desk.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with WireServer(by_kind(shop)) as server:
        monkeypatch.setenv("MY_MODEL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        monkeypatch.setenv("SHOP_URL", server.url)
        yield tmp_path / "home"


def evolve(home: Path, *more: str, code: int = 0) -> Any:
    import os

    model = ("--model", "openai:mine", "--base-url", os.environ["SHOP_URL"], "--retries", "0")
    tasks = ("--benchmark", "desk.jsonl", "--iterations", "2", "--batch", "3", "--name", "desk")
    return call(home, "evolve", "shop_app.py:graph", *tasks, *model, *more, code=code)


def test_a_prompt_is_mended_and_the_graph_stays_as_it_is(home: Path, shop: Shop) -> None:
    done = evolve(home)
    print(done.output)
    assert "evolved - seed" in done.output
