"""The team of a graph of the user's own has the edges of the program, and so has what critics read of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from selfwire.extras.adopt.layer import list_texts
from selfwire.graphs.own_graph import OwnGraph
from tests.commands import call
from tests.extras.adopt.corpus import GRAPHS, find_folder
from tests.graphs.desk import FEW, evolve, make_gradient, open_shop

APP = """
import os
from typing import Literal, TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

model = ChatOpenAI(model="mine", base_url=os.environ["MY_MODEL"], api_key="k", max_retries=0)


class Desk(TypedDict):
    question: str
    notes: str
    rounds: int
    answer: str


def lead(state: Desk) -> dict:
    said = model.invoke([("system", "You lead a desk of a shop."), ("user", f"Pass this on: {state['question']}")])
    return {"notes": said.text, "rounds": state.get("rounds", 0) + 1}


def log(state: Desk) -> dict:
    return {}


def billing(state: Desk) -> dict:
    return {"notes": model.invoke(f"You know about bills of the shop. {state['notes']}").text}


def tech(state: Desk) -> dict:
    return {"notes": model.invoke(f"You know about apps of the shop. {state['notes']}").text}


def close(state: Desk) -> dict:
    return {"answer": model.invoke(f"You close the talk of the shop. {state['notes']}").text}


def choose(state: Desk) -> Literal["billing", "tech"]:
    return "billing" if "bill" in state["question"] else "tech"


def is_done(state: Desk) -> Literal["lead", "close"]:
    return "close" if state["rounds"] > 1 else "lead"


builder = StateGraph(Desk)
for node in (lead, log, billing, tech, close):
    builder.add_node(node)
builder.add_edge(START, "lead")
builder.add_edge("lead", "log")
builder.add_conditional_edges("log", choose)
builder.add_conditional_edges("billing", is_done)
builder.add_edge("tech", "close")
builder.add_edge("close", END)
graph = builder.compile()
"""
EDGES = {
    "lead->billing", "lead->tech", "lead-2->billing", "lead-2->tech", "billing->lead", "billing->lead-2",
    "billing->close", "tech->close", "close->graph",
}  # fmt: skip

CALLS = """
from typing import TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

model = ChatOpenAI(model="mine", api_key="k")


class Desk(TypedDict):
    question: str
    notes: str
    answer: str


def research(state: Desk) -> dict:
    return {"notes": model.invoke([("system", "You research the question."), ("user", state["question"])]).text}


def draft(state: Desk) -> dict:
    return {"answer": model.invoke([("system", "You draft the answer."), ("user", state["notes"])]).text}


first = StateGraph(Desk).add_node(research).add_edge(START, "research").add_edge("research", END).compile()
second = StateGraph(Desk).add_node(draft).add_edge(START, "draft").add_edge("draft", END).compile()


def work(state: Desk) -> dict:
    found = first.invoke(state)
    return {"answer": second.invoke(found)["answer"]}


def check(state: Desk) -> dict:
    return {"answer": model.invoke([("system", "You check the answer."), ("user", state["answer"])]).text}


builder = StateGraph(Desk).add_node(work).add_node(check)
graph = builder.add_edge(START, "work").add_edge("work", "check").add_edge("check", END).compile()
"""


class Shop:
    """The model behind everything; as a critic it blames all, and asks for an agent behind `tech`."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.insertion = {"place": "tech.notes", "name": "checker", "description": "You check it.", "reason": "A gap."}

    def __call__(self, kind: str, body: dict[str, Any]) -> dict[str, Any] | str:
        said = "\n".join(str(message["content"]) for message in body["messages"])
        self.asked.append((kind, said))
        if kind == "GlobalGradient":
            return {"feedback": "It is wrong.", "own_feedback": "", "sentiment": "neutral"}
        if kind == "AgentGradient":
            return make_gradient("", "A check is missing.", "topology")
        if kind == "ProgramEdit":
            return self.insertion
        for name in ("lead", "bills", "apps", "close"):
            if name in said.replace("You know about ", "").partition(" of ")[0]:
                return f"said by {name}"
        return "checked"


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def home(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    rows = [{"input": f"Message {number} about an app.", "reference": "checked"} for number in range(40)]
    bills = [{"input": f"Message {number} about a bill.", "reference": "checked"} for number in range(40)]
    with open_shop(APP, {"desk.jsonl": rows, "bills.jsonl": bills}, shop, tmp_path, monkeypatch) as folder:
        yield folder


def list_edges(team: Any) -> set[str]:
    return {*map(str, team.topology.edges)}


def test_edges_lead_to_what_may_be_sent_next(home: Path) -> None:
    team = OwnGraph("shop_app.py:graph", {}).seed()
    assert list_edges(team) == EDGES
    assert (team.topology.entry, team.topology.sink) == ("lead", "graph")
    call(home, "adopt", "shop_app.py:graph", "--name", "mine")
    assert "tech     -> close" in call(home, "show", "mine").output


def test_critics_read_who_gets_what_each_has_written(home: Path, shop: Shop) -> None:
    evolve(home, *FEW)
    asked = [said for kind, said in shop.asked if kind == "AgentGradient"]
    blamed = next(said for said in asked if "You know about apps" in said.partition("</role>")[0])
    assert "tech -> close: You know about apps of the shop." in blamed
    assert "lead -> billing, tech: You lead a desk of a shop." in blamed
    assert "From lead:\nsaid by lead" in blamed
    assert not any("You know about bills" in said.partition("</role>")[0] for said in asked)  # it was not sent


def test_an_inserted_agent_stands_where_the_program_has_it(home: Path, shop: Shop) -> None:
    evolve(home, *FEW)
    assert list_edges(OwnGraph("shop_app.py:graph", {}).seed()) == EDGES
    changes = call(home, "diff", "desk@0", "desk").output
    assert {line.strip() for line in changes.splitlines() if "->" in line} == {
        "- edge tech->close", "+ edge tech->checker", "+ edge checker->close",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("program", "edges", "first"),
    [
        ("reflection", {"generate": {"", "reflect"}, "reflect": {"generate"}}, {"generate"}),
        (
            "supervisor",
            {
                "supervisor": {"research-expert", "math-expert", ""},
                "research-expert": {"supervisor"},
                "math-expert": {"supervisor"},
            },
            {"supervisor"},
        ),
        (
            "nested_teams",
            {
                "reporter": {""},
                "reporter-2": {""},
                "route": {"reporter", "reporter-2", "writing-outline"},
                "writing-outline": {"writing-draft"},
                "writing-draft": {"reporter", "reporter-2"},
            },
            {"reporter", "reporter-2", "writing-outline"},
        ),
        (
            "subgraph_in_node",
            {"write": {"", "checker-check-claim"}, "checker-check-claim": {""}},
            {"write"},
        ),
        (
            "functional",
            {
                "compose-essay": {"", "shorten"},
                "compose-essay-2": {"", "shorten"},
                "shorten": {"", "compose-essay", "compose-essay-2"},
            },
            None,
        ),
    ],
)
def test_programs_of_every_sort_show_what_follows(
    program: str, edges: dict[str, set[str]], first: set[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(find_folder(program))
    prompts = [text for text in list_texts(GRAPHS[program]) if text.is_prompt]
    assert {text.name: {*text.leads_to} for text in prompts} == edges
    assert {text.name for text in prompts if text.is_first} == (first or edges.keys())


@pytest.mark.parametrize("written", ["    found = first.invoke(state)\n", ""])
def test_graphs_that_a_node_calls_follow_each_other_in_their_order(
    written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    calls = (
        CALLS
        if written
        else CALLS.replace("    found = first.invoke(state)\n", "").replace("(found)", "(first.invoke(state))")
    )
    Path("calls_app.py").write_text(calls)
    topology = OwnGraph("calls_app:graph", {}).seed().topology
    assert topology.entry == "first-research"
    found = {*map(str, topology.edges)}
    assert {"first-research->second-draft", "second-draft->check", "check->graph"} <= found
    assert not {"second-draft->first-research", "check->first-research"} & found


def test_a_router_whose_ends_the_source_does_not_show_leads_to_every_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_MODEL", "http://127.0.0.1:9")
    Path("opaque_app.py").write_text(APP.replace('log", choose)', "log\", lambda state: state['notes'])"))
    topology = OwnGraph("opaque_app.py:graph", {}).seed().topology
    assert {*topology.successors["lead"]} == {"billing", "tech", "close", "graph"}
    assert {*topology.successors["tech"]} == {"close"}


def test_a_router_of_which_the_source_shows_one_end_alone_leads_to_every_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_MODEL", "http://127.0.0.1:9")
    half = """def choose(state: Desk) -> str:
    if state["rounds"] > 3:
        return "close"
    return state["notes"]
"""
    whole = APP[APP.index("def choose") : APP.index("def is_done")]
    Path("half_app.py").write_text(APP.replace(whole, f"{half}\n\n"), encoding="utf-8")
    topology = OwnGraph("half_app.py:graph", {}).seed().topology
    assert {*topology.successors["lead"]} == {"billing", "tech", "close", "graph"}
