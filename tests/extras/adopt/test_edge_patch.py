"""Inserted agents in a patch: in every form of a builder, applied by git, and asked as the evolved graph asks."""

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import ParrotFakeChatModel

from selfwire.core.agent import Agent
from selfwire.core.edits import AddAgent, Rewiring
from selfwire.core.errors import ConfigError
from selfwire.core.team import Team
from selfwire.core.topology import make_chain
from selfwire.extras.adopt.patch import make_patch
from selfwire.graphs.insertions import INSERTED, Insertion, insert_agents, list_inserted_agents
from selfwire.graphs.own_graph import load_graph
from selfwire.models.text_layer import TextLayer

HEAD = """from typing import Annotated, Literal, TypedDict

from langchain_core.language_models.fake_chat_models import ParrotFakeChatModel
from langgraph.graph import END, START, MessagesState, StateGraph
from pydantic import BaseModel

model = ParrotFakeChatModel()
"""
STATE = """

class Desk(TypedDict):
    question: str
    notes: str
    answer: str


def read(state: Desk) -> dict:
    return {"notes": model.invoke("Read: " + state["question"]).text}


def decide(state: Desk) -> dict:
    return {"answer": model.invoke("Decide: " + state["notes"]).text}

"""
NODES = "\nbuilder = StateGraph(Desk)\nbuilder.add_node(read)\nbuilder.add_node(decide)\n"
PROMPT = 'You check "it".\nKeep \\ and {braces}.'
CHECK = Insertion(agent="date-checker", after="decide", before=("__end__",), field="answer", question="question")
NOTES = Insertion(agent="note-checker", after="read", before=("decide",), field="notes")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def make_team(*insertions: Insertion) -> Team:
    team = Team(method="x", agents=(Agent(id="graph", prompt="x"),), topology=make_chain("graph"))
    for found in insertions:
        team = team.apply(Rewiring(AddAgent(Agent(id=found.agent, prompt=f"{PROMPT} {found.agent}")), why="a check"))
    return team.with_memory(**{INSERTED: [found.model_dump(mode="json") for found in insertions]})


def run_variant(target: str, given: Any, *insertions: Insertion) -> Any:
    graph = insert_agents(target, load_graph(target), make_team(*insertions))
    with TextLayer((), None, ParrotFakeChatModel).active():
        return graph.invoke(given)


def write_patch(target: str, *insertions: Insertion) -> str:
    names = {found.agent: "because" for found in insertions}
    return make_patch(target, {}, names, list_inserted_agents(make_team(*insertions)))


def check(source: str, name: str, *insertions: Insertion, given: Any = None, **files: str) -> str:
    """Compare the evolved graph with the patched program, which the model lets repeat its requests."""
    for file, text in {**files, name: source}.items():
        Path(f"{file}.py").write_text(text, encoding="utf-8")
    given = given or {"question": "When?"}
    evolved = run_variant(f"{name}.py:graph", given, *insertions)
    Path("new.patch").write_text(write_patch(f"{name}.py:graph", *insertions), encoding="utf-8")
    subprocess.run(["git", "apply", "new.patch"], check=True, capture_output=True)
    for file in files:
        sys.modules.pop(file, None)
    written = Path(f"{name}.py").read_text(encoding="utf-8")
    Path(f"{name}_patched.py").write_text(written, encoding="utf-8")  # a name that this process has not imported
    importlib.invalidate_caches()
    patched = load_graph(f"{name}_patched.py:graph").invoke(given)
    kept = {"id": None, "additional_kwargs": {}, "response_metadata": {}}
    shown = [
        {**state, "messages": [m.model_copy(update=kept) for m in state.get("messages", ())]}
        for state in (evolved, patched)
    ]
    assert shown[0] == shown[1]
    subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", "--quiet", "--ignore", "F401", "."], check=True
    )
    return written


@pytest.mark.parametrize(
    ("name", "builder"),
    [
        ("calls", f'{NODES}builder.add_edge(START, "read")\nbuilder.add_edge("read", "decide")  # on\nbuilder.add_edge("decide", END)\ngraph = builder.compile()\n'),
        ("entries", f'{NODES}builder.set_entry_point("read")\nbuilder.add_edge(start_key="read", end_key="decide")\nbuilder.set_finish_point("decide")\ngraph = builder.compile()\n'),
        ("chained", '\ngraph = (\n    StateGraph(Desk)\n    .add_node(read)\n    .add_node(decide)\n    .add_edge(START, "read")\n    .add_edge("read", "decide")\n    .add_edge("decide", END)\n    .compile()\n)\n'),
        ("lined", '\nb = StateGraph(Desk).add_node(read).add_node(decide).add_edge(START, "read").add_edge("read", "decide").add_edge("decide", END)\ngraph = b.compile()\n'),
        ("sequence", '\nbuilder = StateGraph(Desk).add_sequence([read, decide])\nbuilder.add_edge(START, "read")\nbuilder.add_edge("decide", END)\ngraph = builder.compile()\n'),
        ("constants", f'\nREAD, DECIDE = "read", "decide"\n{NODES}builder.add_edge(START, READ); builder.add_edge(READ, DECIDE)\nbuilder.add_edge(DECIDE, END)\ngraph = builder.compile()\n'),
        ("made", '\ndef make():\n    made = StateGraph(Desk)\n    made.add_node(read)\n    made.add_node(decide)\n    made.add_edge(START, "read")\n    made.add_edge("read", "decide")\n    made.add_edge("decide", END)\n    return made.compile()\n\n\ngraph = make()\n'),
    ],
)  # fmt: skip
def test_edges_are_split_in_every_form(name: str, builder: str) -> None:
    again = Insertion(agent="date-reader", after="date-checker", before=("__end__",), field="answer")
    start = Insertion(agent="asker", after="__start__", before=("read",), field="question")
    source = check(f"{HEAD}{STATE}{builder}", name, CHECK, NOTES, again, start)
    assert "def date_checker(state: Desk) -> dict:" in source
    assert source.count("DATE_CHECKER") == 2


def test_the_order_of_agents_behind_a_node_is_that_of_the_evolved_graph() -> None:
    ends = '\nbuilder.add_edge(START, "read")\nbuilder.add_edge("read", "decide")\nbuilder.add_edge("decide", END)\n'
    first = Insertion(agent="first", after="decide", before=("date-checker",), field="answer")
    source = check(f"{HEAD}{STATE}{NODES}{ends}graph = builder.compile()\n", "ordered", CHECK, first)
    assert 'builder.add_edge("decide", "first")\nbuilder.add_edge("first", "date_checker")' in source
