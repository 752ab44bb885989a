"""Nodes are taken out of a graph of the user's own where they spoil what stood there, and the source follows."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import selfwire
from selfwire.cli import options
from selfwire.core.errors import ConfigError
from selfwire.graphs.insertions import list_removals
from selfwire.graphs.own_graph import OwnGraph
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
POLISH = """You make an answer of a shop polite.

{answer}"""


class Desk(TypedDict):
    question: str
    answer: str


def decide(state: Desk) -> dict:
    return {"answer": model.invoke(DECIDE.format(question=state["question"])).text}


def polish(state: Desk) -> dict:
    return {"answer": model.invoke(POLISH.format(answer=state["answer"])).text}


builder = StateGraph(Desk)
builder.add_node(decide)
builder.add_node(polish)
builder.add_edge(START, "decide")
builder.add_edge("decide", "polish")
builder.add_edge("polish", END)
graph = builder.compile()
'''
PATCHED = """
builder = StateGraph(Desk)
builder.add_node(decide)
builder.add_edge(START, "decide")
builder.add_edge("decide", END)
graph = builder.compile()
"""
TERSE = "You leave an answer of a shop as it is.\n\n{answer}"


class Shop:
    """The model behind everything: it is right at once, and polite where it is asked to be, which nobody wants.

    As a critic it asks for the prompt of that step to change, and for the step to go, in this order of changes.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.wishes = ["without polish"]

    def __call__(self, kind: str, body: dict[str, Any]) -> dict[str, Any] | str:
        said = "\n".join(str(message["content"]) for message in body["messages"])
        self.asked.append((kind, said))
        if kind == "GlobalGradient":
            return {"feedback": "The desk is wanted alone.", "own_feedback": "", "sentiment": "neutral"}
        if kind == "AgentGradient":
            mine = "polite" in said.partition("<role>")[2].partition("</role>")[0]
            if not mine:
                return make_gradient(praises=True)
            return make_gradient("Leave the answer as it is.", "It spoils what was right before it.", "both")
        if kind == "PromptRewrite":
            return {"prompt": TERSE}
        if kind == "ProgramEdit":
            place = self.wishes.pop(0) if self.wishes else ""
            return {"place": place, "name": "", "description": "", "reason": "Politeness spoils the desk."}
        text = said.rpartition("\n")[2]
        if "You sort" in said:
            return next(name for name in DESKS if f"about {name}" in said)
        return f"Dear customer, it is {text}." if "polite" in said else text

    def list_asked(self, kind: str) -> list[str]:
        return [text for asked, text in self.asked if asked == kind]


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def home(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    rows = [
        {"input": f"Message {n} is about {DESKS[n % 3]}. Which desk?", "reference": DESKS[n % 3]} for n in range(72)
    ]
    with open_shop(APP, {"desk.jsonl": rows[:60], "fresh.jsonl": rows[60:]}, shop, tmp_path, monkeypatch) as folder:
        yield folder


def measure(home: Path, shop: Shop, graph: str) -> tuple[float, float]:
    """The score of a graph, and its calls per task."""
    begun = len(shop.asked)
    return score(home, graph, tasks=12, file="fresh.jsonl"), (len(shop.asked) - begun) / 12


@pytest.mark.slow
def test_a_node_that_spoils_answers_is_taken_out_and_the_patched_program_runs_without_it(
    home: Path, shop: Shop
) -> None:
    done = evolve(home, *FEW)
    [asked] = shop.list_asked("ProgramEdit")
    assert "at polish: It spoils what was right before it." in asked
    assert "<removals>\nwithout polish: polish is taken out, and what decide hands on goes to END as it is\n" in asked
    assert "accepted" in done.output
    changes = call(home, "diff", "desk@0", "desk").output
    assert "- agent polish: " in changes
    assert "TAKE_OUT_NODE" in call(home, "show", "desk").output
    assert "1 TAKE_OUT_NODE" in call(home, "history", "desk").output
    assert measure(home, shop, "desk") == (1, 1)
    assert measure(home, shop, "shop_app.py:graph") == (0, 2)
    call(home, "export", "desk", "mine.patch")
    assert "polish: Politeness spoils the desk. (" in Path("mine.patch").read_text(encoding="utf-8").splitlines()[0]
    subprocess.run(["git", "apply", "mine.patch"], check=True)
    patched = Path("shop_app.py").read_text(encoding="utf-8")
    assert patched.endswith(PATCHED)
    Path("mended_app.py").write_text(patched, encoding="utf-8")  # a name that this process has not imported
    begun = len(shop.asked)
    assert measure(home, shop, "mended_app.py:graph") == (1, 1)
    assert all("You sort messages" in text for _, text in shop.asked[begun:])
    method = OwnGraph("mended_app.py:graph", {})
    with pytest.raises(ConfigError, match=r"'polish' is taken out between decide and END, where 'mended_app.py:graph'"):
        method.adapt(selfwire.load("desk", home=home))


def test_with_frozen_edges_only_the_prompt_changes_and_every_task_costs_the_call_that_the_node_makes(
    home: Path, shop: Shop
) -> None:
    evolve(home, *FEW, "--freeze", "edges")
    assert not shop.list_asked("ProgramEdit")
    assert measure(home, shop, "desk") == (1, 2)


def test_a_frozen_node_stays_and_nothing_is_mended(home: Path, shop: Shop) -> None:
    shop.wishes = ["without polish", "without polish"]
    assert "nothing was evolved" in evolve(home, *FEW, "--freeze", "agent:polish").output
    first, again = shop.list_asked("ProgramEdit")
    assert "<removals>" not in first
    assert "refused" not in first
    assert "Your last choice was refused: 'without polish' cannot be done: it is frozen. Choose anew" in again


def test_what_was_refused_may_be_chosen_better(home: Path, shop: Shop) -> None:
    shop.wishes = ["without decide", "without polish"]
    evolve(home, *FEW)
    _, again = shop.list_asked("ProgramEdit")
    assert "'without decide' cannot be done: its prompt is the first of the program" in again
    assert [removal.node for removal in list_removals(selfwire.load("desk", home=home))] == ["polish"]


def test_a_person_is_asked_before_a_node_is_taken_out(home: Path, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "has_terminal", lambda: True)
    done = evolve(home, *FEW, "--approve", "edits", typed="r\nit stays\n")
    assert "- agent polish" in done.output
    assert "nothing was evolved" in done.output


def test_prune_takes_out_a_node_that_changes_nothing_as_it_saves_its_call(home: Path, shop: Shop) -> None:
    Path("shop_app.py").write_text(
        APP.replace("You make an answer of a shop polite.", "You check an answer of a shop.")
    )
    call(home, "adopt", "shop_app.py:graph", "--name", "desk")
    size = ("--test", "0", "--margin", "0.5", "--batch", "2", "--gate-size", "16")
    done = call(home, "prune", "desk", "--benchmark", "desk.jsonl", *size)
    assert [removal.node for removal in list_removals(selfwire.load("desk", home=home))] == ["polish"], done.output
    assert measure(home, shop, "desk") == (1, 1)


def test_prune_leaves_a_node_that_is_needed(home: Path, shop: Shop) -> None:
    rows = [json.loads(row) for row in Path("desk.jsonl").read_text(encoding="utf-8").splitlines()]
    polite = [{**row, "reference": f"Dear customer, it is {row['reference']}."} for row in rows]
    Path("polite.jsonl").write_text("\n".join(map(json.dumps, polite)), encoding="utf-8")
    call(home, "adopt", "shop_app.py:graph", "--name", "desk")
    size = ("--test", "0", "--margin", "0.5", "--batch", "2", "--gate-size", "16")
    call(home, "prune", "desk", "--benchmark", "polite.jsonl", *size)
    assert measure(home, shop, "desk")[1] == 2
