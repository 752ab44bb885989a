"""Agents are inserted on edges of a graph of the user's own, and taken home into its source."""

import asyncio
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import selfwire
from selfwire.cli import options
from selfwire.core.errors import ConfigError
from selfwire.evolvers.hiva.schemas import ProgramEdit
from selfwire.graphs.insertions import INSERTED, Insertion, list_insertions
from selfwire.graphs.own_graph import OwnGraph
from selfwire.store.library import open_library
from tests.commands import call
from tests.graphs.desk import FEW, evolve, make_gradient, open_shop, score

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
BAD = "You look at the desk."
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
            "place": "decide.answer",
            "name": "desk checker",
            "description": CHECKER,
            "reason": "Nobody checks the desk.",
        }

    def __call__(self, kind: str, body: dict[str, Any]) -> dict[str, Any] | str:
        said = "\n".join(str(message["content"]) for message in body["messages"])
        self.asked.append({"kind": kind, "text": said, "model": body["model"]})
        if kind == "GlobalGradient":
            return {"feedback": "The desk is wrong.", "own_feedback": "", "sentiment": "neutral"}
        if kind == "AgentGradient":
            role = said.partition("<role>")[2].partition("</role>")[0]
            if BAD in role:
                return make_gradient("Say what sales is called.", concerns="semantics")
            mine = "You sort messages" in role
            if not mine:
                return make_gradient(praises=True)
            prompt = "" if RULE in said else "Write the desk alone."
            return make_gradient(prompt, "A step that checks the desk is missing.", "both")
        if kind == "PromptRewrite":
            return {"prompt": CHECKER if BAD in said else GOOD}
        if kind == "ProgramEdit":
            return {name: "" for name in self.insertion} if "desk-checker" in said else self.insertion
        if "<text>" in said:
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
    names = list(DESKS)
    rows = [
        {"input": f"Message {n} is about {names[n % 3]}. Which desk?", "reference": DESKS[names[n % 3]]}
        for n in range(60)
    ]
    with open_shop(APP, {"desk.jsonl": rows}, shop, tmp_path, monkeypatch) as folder:
        yield folder


def measure(home: Path, shop: Shop, graph: str) -> tuple[float, set[str]]:
    """The score of a graph, and its requests."""
    before = len(shop.asked)
    return score(home, graph, tasks=60), {asked["text"] for asked in shop.asked[before:]}


@pytest.mark.slow
def test_a_vague_prompt_and_a_missing_checker_are_mended_and_taken_home(home: Path, shop: Shop) -> None:
    done = evolve(home)
    assert "seed team       0.00" in done.output
    assert "evolved - seed, paired over 20 tasks: +1.00" in done.output
    [asked] = shop.list_asked("ProgramEdit")
    assert "at decide: A step that checks the desk is missing." in asked
    assert f"You sort messages of a shop. {RULE}" in asked  # as it is rewritten in this iteration
    assert (
        "<places>\nSTART.question: the question in question, before look\n"
        "decide.answer: what decide has written into answer, before END\n</places>"
    ) in asked
    assert {asked["model"] for asked in shop.asked if CHECKER in asked["text"] and not asked["kind"]} == {"mine"}
    changes = call(home, "diff", "desk@0", "desk").output
    assert (
        "+ agent desk-checker: Inserted: reads and rewrites what decide has written into answer, before END." in changes
    )
    assert "INSERT_AGENT" in call(home, "show", "desk").output
    assert "1 INSERT_AGENT" in call(home, "history", "desk").output
    score, requests = measure(home, shop, "desk")
    call(home, "export", "desk", "mine.patch")
    lines = Path("mine.patch").read_text(encoding="utf-8").splitlines()
    assert lines[1].startswith("shop_app.py:33 desk-checker: Nobody checks the desk. (a gain above 0 is proved: mean")
    subprocess.run(["git", "apply", "mine.patch"], check=True)
    patched = Path("shop_app.py").read_text(encoding="utf-8")
    assert "selfwire" not in patched
    Path("mended_app.py").write_text(patched, encoding="utf-8")  # a name that this process has not imported
    again, patched_requests = measure(home, shop, "mended_app.py:graph")
    assert (score, again) == (1, 1)
    assert requests <= patched_requests  # a saved team is not measured on the tasks that it learned from
    taken = call(home, "export", "desk", "again.patch", code=2)
    assert "the source of the graph has no edge decide -> END any more" in " ".join(taken.stderr.split())


def test_the_prompt_alone_mends_two_desks_of_three_where_edges_are_frozen(home: Path, shop: Shop) -> None:
    found = re.search(r"accepted: .*mean difference \+(0\.\d+)", evolve(home, *FEW, "--freeze", "edges").output)
    assert found is not None
    assert 0.4 < float(found[1]) < 0.9
    assert not shop.list_asked("ProgramEdit")
    assert not list_insertions(selfwire.load("desk", home=home))


@pytest.mark.slow
def test_the_checker_alone_mends_nothing_where_the_prompt_is_frozen(home: Path, shop: Shop) -> None:
    assert "nothing was evolved" in evolve(home, "--test", "0", "--freeze", "agent:decide").output
    assert any(CHECKER in text for text in shop.list_asked(""))


@pytest.mark.slow
def test_the_prompt_of_an_inserted_agent_is_evolved(home: Path, shop: Shop) -> None:
    shop.insertion["description"] = BAD
    evolve(home, *FEW, "--iterations", "2", "--batch", "6")
    team = selfwire.load("desk", home=home)
    assert team.agents_by_id["desk-checker"].prompt == CHECKER
    blamed = next(text for text in shop.list_asked("AgentGradient") if BAD in text.partition("<role>")[2][:99])
    assert "From decide:\nsales" in blamed
    assert "desk-checker -> graph: You look at the desk." in blamed


@pytest.mark.slow
def test_a_checker_comes_in_where_a_router_decides_and_is_taken_home(home: Path, shop: Shop) -> None:
    router = """def route(state: Desk) -> Literal["look", "__end__"]:
    return "look" if not state["calls"] else "__end__"


builder = StateGraph(Desk)"""
    source = APP.replace("import TypedDict", "import Literal, TypedDict").replace("builder = StateGraph(Desk)", router)
    source = source.replace('add_edge("decide", END)', 'add_conditional_edges("decide", route)')
    Path("shop_app.py").write_text(source, encoding="utf-8")
    shop.insertion["place"] = "decide.answer to END"
    evolve(home)
    [asked] = shop.list_asked("ProgramEdit")
    assert (
        "<places>\nSTART.question: the question in question, before look\n"
        "decide.answer to END: what decide has written into answer, before END if code leads there\n</places>"
    ) in asked
    [found] = list_insertions(selfwire.load("desk", home=home))
    assert (found.after, found.before, found.is_conditional) == ("decide", ("__end__",), True)
    score, requests = measure(home, shop, "desk")
    call(home, "export", "desk", "mine.patch")
    subprocess.run(["git", "apply", "mine.patch"], check=True)
    patched = Path("shop_app.py").read_text(encoding="utf-8")
    assert 'add_conditional_edges("decide", route, {"look": "look", END: "desk_checker"})' in patched
    Path("mended_app.py").write_text(patched, encoding="utf-8")  # a name that this process has not imported
    again, patched_requests = measure(home, shop, "mended_app.py:graph")
    assert (score, again) == (1, 1)
    assert requests <= patched_requests


def test_a_person_is_asked_before_an_agent_is_inserted(home: Path, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "has_terminal", lambda: True)
    done = evolve(home, *FEW, "--approve", "edits", typed="r\nno checker\n")
    assert "+ agent desk-checker: Inserted" in done.output
    assert "+     You check the desk." in done.output
    assert "nothing was evolved" in done.output


def test_a_program_whose_edge_is_gone_is_refused_by_its_name(home: Path) -> None:
    evolve(home, *FEW)
    team = selfwire.load("desk", home=home)
    assert OwnGraph("shop_app.py:graph", {}).adapt(team) is team
    tell = "builder.add_node('tell', look)\nbuilder.add_edge('decide', 'tell')"
    Path("changed_app.py").write_text(APP.replace('builder.add_edge("decide", END)', tell), encoding="utf-8")
    method = OwnGraph("changed_app.py:graph", {})
    with pytest.raises(ConfigError, match=r"'desk-checker' needs the edge decide -> END, which 'changed_app.py:graph'"):
        method.adapt(team)
    with pytest.raises(ConfigError, match=r"needs the edge decide -> END"):
        selfwire.evaluate(team.replace(method="changed_app.py:graph"), "desk.jsonl", home=home)
    with pytest.raises(ConfigError, match="has no text 'desk-checker' any more"):
        method.adapt(team.with_memory(**{INSERTED: []}))


@pytest.mark.slow
@pytest.mark.parametrize(
    "place",
    [
        Insertion(agent="new", after="decide", before=("__end__",), field="answer"),
        Insertion(agent="new", after="__start__", before=("look",), field="question"),
    ],
    ids=["at END", "at START"],
)
def test_an_agent_that_is_worth_nothing_is_taken_out_by_prune(home: Path, shop: Shop, place: Insertion) -> None:
    method = OwnGraph("shop_app.py:graph", {})
    team = method.seed()
    tasks = (
        "--benchmark",
        "desk.jsonl",
        "--grader",
        "contains",
        "--test",
        "0",
        "--margin",
        "0.5",
        "--batch",
        "2",
        "--gate-size",
        "16",
    )
    with open_library(home) as library:
        asyncio.run(library.save("plain", team, run="first", step=0, facts={"why": "seed"}))
        rewiring, place = method._insert(team, ProgramEdit(name="idle", description="You check the form."), place)
        team = team.apply(rewiring).with_memory(**{INSERTED: [place.model_dump(mode="json")]})
        asyncio.run(library.save("desk", team, run="second", step=0, facts={"why": "seed"}))
    refused = call(home, "prune", "plain", *tasks, code=2)
    assert "no agent has been inserted into shop_app.py:graph" in " ".join(refused.stderr.split())
    # an agent before all prompts asks the model of the run
    done = call(home, "prune", "desk", *tasks, "--model", "openai:run", "--base-url", os.environ["MY_MODEL"])
    assert any("You check the form." in text for text in shop.list_asked(""))
    assert not list_insertions(selfwire.load("desk", home=home)), done.output
    pruned = selfwire.load("desk", home=home)
    assert place.agent in team.agents_by_id
    assert (pruned.agents_by_id, pruned.topology) == (method.seed().agents_by_id, method.seed().topology)
    assert call(home, "runs").stdout.splitlines()[1].split()[1] == "prune"
