"""An agent works beside a node of a graph of the user's own, where one behind the node would be led by its text."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import selfwire
from selfwire.cli import options
from selfwire.core.errors import ConfigError
from selfwire.graphs.insertions import list_insertions, list_specialists
from selfwire.graphs.own_graph import OwnGraph
from selfwire.graphs.pruning import list_parts
from tests.commands import call
from tests.graphs.desk import DESKS, FEW, evolve, make_gradient, open_shop, score

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


def decide(state: Desk) -> dict:
    return {"answer": model.invoke(DECIDE.format(question=state["question"])).text}


builder = StateGraph(Desk)
builder.add_node(decide)
builder.add_edge(START, "decide")
builder.add_edge("decide", END)
graph = builder.compile()
'''
JUDGE = "You judge how urgent a message is: urgent or normal."
JOIN = "You write the desk and the urgency, with a comma between them."


class Shop:
    """The model behind everything: it judges how urgent a message is, but not once it has seen a desk for it.

    As a critic it asks for the change that it is told.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []
        self.edit = {"place": "beside decide.answer", "name": "urgency judge", "description": JUDGE, "merge": JOIN}

    def __call__(self, kind: str, body: dict[str, Any]) -> dict[str, Any] | str:
        said = "\n".join(str(message["content"]) for message in body["messages"])
        self.asked.append((kind, said, body["model"]))
        if kind == "GlobalGradient":
            return {"feedback": "The urgency is missing.", "own_feedback": "", "sentiment": "neutral"}
        if kind == "AgentGradient":
            return make_gradient(overall="Nobody judges the urgency of the message by itself.", concerns="topology")
        if kind == "ProgramEdit":
            return {**self.edit, "reason": "The urgency must be judged unled."}
        text, more = (said.partition(f"<{tag}>\n")[2].partition(f"\n</{tag}>")[0] for tag in ("text", "more"))
        if JOIN in said:
            return f"{text}, {more}"
        if JUDGE in said:
            return f"{text}, normal" if text else "urgent" if "Hurry" in said else "normal"
        return next(name for name in DESKS if f"about {name}" in said)

    def list_asked(self, kind: str) -> list[str]:
        return [text for asked, text, _ in self.asked if asked == kind]


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def home(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    rows = [
        {
            "input": f"Message {n} is about {DESKS[n % 3]}.{' Hurry!' if n % 2 else ''} Which desk, and how urgent?",
            "reference": f"{DESKS[n % 3]}, {'urgent' if n % 2 else 'normal'}",
        }
        for n in range(72)
    ]
    with open_shop(APP, {"desk.jsonl": rows[:60], "fresh.jsonl": rows[60:]}, shop, tmp_path, monkeypatch) as folder:
        yield folder


def measure(home: Path, shop: Shop, graph: str) -> tuple[float, set[str]]:
    """The score of a graph, and its requests."""
    begun = len(shop.asked)
    return score(home, graph, tasks=12, file="fresh.jsonl"), {text for _, text, _ in shop.asked[begun:]}


@pytest.mark.slow
def test_an_agent_beside_a_node_mends_what_one_behind_it_cannot_and_is_taken_home(home: Path, shop: Shop) -> None:
    evolve(home, *FEW)
    [asked] = shop.list_asked("ProgramEdit")
    assert (
        "<specialists>\nbeside decide.answer: a second agent reads question as decide does, and what it writes is "
        "joined with answer\n</specialists>"
    ) in asked
    changes = call(home, "diff", "desk@0", "desk").output
    assert "+ agent urgency-judge: Inserted: a second agent reads question as decide does" in changes
    assert "+ agent urgency-judge-merge: Inserted: reads and rewrites" in changes
    assert "1 INSERT_BESIDE" in call(home, "history", "desk").output
    score, requests = measure(home, shop, "desk")
    judged = [text for text in requests if JUDGE in text]
    assert len(judged) == 12
    assert all("<task>" in text and "<text>" not in text for text in judged)
    assert {model for kind, _, model in shop.asked if not kind} == {"mine"}
    call(home, "export", "desk", "mine.patch")
    assert "urgency-judge: The urgency must be judged unled. (" in Path("mine.patch").read_text(encoding="utf-8")
    subprocess.run(["git", "apply", "mine.patch"], check=True)
    patched = Path("shop_app.py").read_text(encoding="utf-8")
    assert "selfwire" not in patched
    Path("mended_app.py").write_text(patched, encoding="utf-8")  # a name that this process has not imported
    assert (score, requests) == measure(home, shop, "mended_app.py:graph") == (1, requests)
    changed = OwnGraph("mended_app.py:graph", {})
    with pytest.raises(ConfigError, match="evolve the graph anew, or name the graph itself"):
        changed.adapt(selfwire.load("desk", home=home))


def test_an_agent_behind_the_node_is_led_by_its_text_and_is_right_on_half_of_the_tasks(home: Path, shop: Shop) -> None:
    shop.edit = {**shop.edit, "place": "decide.answer", "merge": ""}
    evolve(home, *FEW)
    assert measure(home, shop, "desk")[0] == 0.5


def test_with_frozen_edges_nothing_is_mended(home: Path, shop: Shop) -> None:
    assert "nothing was evolved" in evolve(home, *FEW, "--freeze", "edges").output
    assert not shop.list_asked("ProgramEdit")


def test_without_a_way_to_join_both_texts_it_is_refused_and_the_critic_reads_why(home: Path, shop: Shop) -> None:
    shop.edit["merge"] = " "
    assert "nothing was evolved" in evolve(home, *FEW).output
    _, again = shop.list_asked("ProgramEdit")
    assert "Your last choice was refused: the new agent has no merge." in again


def test_a_person_is_asked_before_and_both_agents_go_together(
    home: Path, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "has_terminal", lambda: True)
    evolve(home, *FEW, "--approve", "edits", typed="a\n")
    team = selfwire.load("desk", home=home)
    [found], [merge] = list_specialists(team), list_insertions(team)
    assert (found.agent, found.merge, merge.agent) == ("urgency-judge", "urgency-judge-merge", "urgency-judge-merge")
    assert [*list_parts(team)] == ["urgency-judge"]
    assert not list_parts(team, ["agent:urgency-judge-merge"])
    smaller = team.apply(list_parts(team)["urgency-judge"].removal)
    method = OwnGraph("shop_app.py:graph", {})
    assert method.adapt(smaller) is smaller
    assert not list_specialists(smaller)
    assert method.keep_memory(smaller, team) == smaller
