"""A router learns which successor of a node runs, in a graph of the user's own in which all of them ran."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from operator import add
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

import selfwire
from selfwire.cli import options
from selfwire.core.agent import Agent
from selfwire.core.errors import ConfigError
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Question
from selfwire.core.team import Team
from selfwire.core.topology import make_chain
from selfwire.core.trajectory import Step, Trajectory
from selfwire.core.usage import Usage
from selfwire.evolvers.router.config import ROUTER, TrainConfig
from selfwire.evolvers.router.decisions import Decision, LayeredWorkflow, read_decisions
from selfwire.extras.offline.model import OfflineChat
from selfwire.graphs.insertions import (
    INSERTED,
    ROUTED,
    Insertion,
    RoutedFork,
    build_variant,
    find_forks,
    list_routes,
    route_by,
)
from selfwire.graphs.own_graph import OwnGraph, OwnGraphConfig, make_hera
from selfwire.graphs.own_router import add_routes, learn_routes, make_chooser, make_pool, note_decisions
from selfwire.models.embeddings import HashingEmbedder
from selfwire.models.metered_chat import MeteredModel
from selfwire.models.text_layer import TextLayer
from tests.commands import call
from tests.graphs.desk import open_shop, score
from tests.kills import run_of, start
from tests.processes import kill_when

APP = '''
import os
from typing import TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

model = ChatOpenAI(model="mine", base_url=os.environ["MY_MODEL"], api_key="k", max_retries=0)
ANNA = """You are Anna.

{question}"""
BEN = """You are Ben.

{question}"""
DECIDE = """You read what two colleagues say.

{said}"""


class Desk(TypedDict):
    question: str
    money: str
    technique: str
    answer: str


def anna(state: Desk) -> dict:
    return {"money": model.invoke(ANNA.format(question=state["question"])).text}


def ben(state: Desk) -> dict:
    return {"technique": model.invoke(BEN.format(question=state["question"])).text}


def decide(state: Desk) -> dict:
    said = state["money"] + " / " + state["technique"]
    return {"answer": model.invoke(DECIDE.format(said=said)).text}


builder = StateGraph(Desk)
builder.add_node(anna)
builder.add_node(ben)
builder.add_node(decide)
builder.add_edge(START, "anna")
builder.add_edge(START, "ben")
builder.add_edge(["anna", "ben"], "decide")
builder.add_edge("decide", END)
graph = builder.compile()
'''
KNOWN = {
    "You are Anna.": ("invoice", "refund"),
    "You are Ben.": ("login", "update"),
}
REPLIES = {"You are Anna.": "billing", "You are Ben.": "tech"}
FEW = ("--test", "0", "--gate", "no-worse", "--margin", "0.2", "--gate-size", "60", "--embedder", "hashing")


class Shop:
    """The model behind everything: each colleague knows one kind of message, and the last picks what is known."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, kind: str, body: dict[str, Any]) -> str:
        said = "\n".join(str(message["content"]) for message in body["messages"])
        self.asked.append(said)
        for name, words in KNOWN.items():
            if said.startswith(name):
                return REPLIES[name] if any(word in said for word in words) else "no idea"
        return next((desk for desk in REPLIES.values() if desk in said), "nobody knows")


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def home(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    words = [(word, REPLIES[name]) for name, known in KNOWN.items() for word in known]
    rows = [
        {"input": f"Message {n} says {words[n % 4][0]}. Which desk?", "reference": words[n % 4][1]} for n in range(120)
    ]
    with open_shop(APP, {"desk.jsonl": rows[:96], "fresh.jsonl": rows[96:]}, shop, tmp_path, monkeypatch) as folder:
        yield folder


TASKS = ("--benchmark", "desk.jsonl", "--iterations", "1", "--train", "24", "--batch", "24", "--name", "desk")
LEARN = ("evolve", "shop_app.py:graph", "--method", "router", *TASKS, *FEW)


def learn(home: Path, *more: str, code: int = 0, typed: str = "") -> Any:
    return call(home, *LEARN, *more, code=code, stdin=typed)


def find_messages(said: str) -> set[str]:
    return set(re.findall(r"Message \d+ ", said))


def list_graded(shop: Shop) -> set[str]:
    """List the messages that each colleague was asked twice: beside the other, and alone."""
    asked = Counter(message for said in shop.asked for message in find_messages(said))
    return {message for message, count in asked.items() if count == 4}


def measure(home: Path, shop: Shop, graph: str) -> tuple[float, float]:
    """The score of a graph, and its calls per task."""
    begun = len(shop.asked)
    return score(home, graph, tasks=24, file="fresh.jsonl"), (len(shop.asked) - begun) / 24


@pytest.mark.slow
def test_a_router_learns_which_colleague_is_asked_and_a_call_is_saved(home: Path, shop: Shop) -> None:
    assert measure(home, shop, "shop_app.py:graph") == (1, 3)
    begun = len(shop.asked)
    done = learn(home)
    explored = shop.asked[begun : begun + 24 * (3 + 2 + 2)]  # the whole graph, and each of them alone
    assert Counter(said.partition(".")[0] for said in explored if "You are" in said) == {
        "You are Anna": 48,
        "You are Ben": 48,
    }
    assert (
        "accepted: a loss of at most 0.2 at a lower cost is proved: mean difference +0.000 at -1.00 calls"
        in done.output
    )
    team = selfwire.load("desk", home=home)
    [fork] = list_routes(team)
    assert (fork.after, fork.ends) == (START, ("anna", "ben"))
    assert fork.fields == {"anna": ("money",), "ben": ("technique",)}
    told = "+ agent start-router: Behind START a trained router chooses one of anna, ben."
    assert told in call(home, "diff", "desk@0", "desk").output
    assert "ROUTE AddAgent(start-router) by start-router" in call(home, "show", "desk").output
    assert "1 ROUTE" in call(home, "history", "desk").output
    assert measure(home, shop, "desk") == (1, 2)
    assert call(home, "run", "desk", "Message 1 says refund. Which desk?").output.splitlines()[1] == "billing"
    untrained = team.replace(memory={name: kept for name, kept in team.memory.items() if name != ROUTER})
    rows = map(json.loads, Path("fresh.jsonl").read_text(encoding="utf-8").splitlines())
    right = [selfwire.run(untrained, row["input"], home=home).answer == row["reference"] for row in rows]
    assert sum(right) < 20
    frozen = learn(home, "--team", "desk", "--freeze", "agent:start-router", "--train", "8", "--batch", "8")
    assert "nothing was evolved" in frozen.output
    for form in ("patch", "context", "pr"):
        refused = call(home, "export", "desk", f"desk-{form}", "--as", form, code=2)
        assert "'start-router' of desk chooses by what each question means" in " ".join(refused.stderr.split())


def test_a_router_that_has_learned_nothing_is_not_kept(home: Path, shop: Shop) -> None:
    done = learn(home, "--set", "train.rate=1e-9")
    assert "rejected: a loss of at most 0.2 at a lower cost is not proved" in done.output
    assert measure(home, shop, "desk") == (1, 3)
    refused = call(home, "evolve", "shop_app.py:graph", "--benchmark", "desk.jsonl", "--set", "train.rate=1", code=2)
    assert "the fields of train need --method router" in refused.stderr
    refused = call(home, "train", "shop_app.py:graph", "--benchmark", "desk.jsonl", code=2)
    assert "learns by `selfwire evolve shop_app.py:graph --method router`" in " ".join(refused.stderr.split())


def test_a_run_that_its_budget_stops_goes_on_and_learns(home: Path, shop: Shop) -> None:
    assert "budget exhausted" in learn(home, "--budget-calls", "100", "--concurrency", "1", code=3).output
    graded = list_graded(shop)
    assert 10 < len(graded) < 24
    assert "accepted" in call(home, "evolve", "--resume", run_of(home), "--budget-calls", "1000").output
    assert list_graded(shop) >= graded  # none of them was asked again
    assert [fork.ends for fork in list_routes(selfwire.load("desk", home=home))] == [("anna", "ben")]


@pytest.mark.slow
def test_a_run_that_is_killed_asks_no_graded_task_again(home: Path, shop: Shop) -> None:
    kill_when(start(home, *LEARN, "--concurrency", "1"), lambda: len(shop.asked) > 60)
    last = {
        message for asked in shop.asked[-8:] for message in find_messages(asked)
    }  # their grades may not be kept yet
    graded = list_graded(shop) - last
    assert len(graded) > 5
    call(home, "evolve", "--resume", run_of(home))
    assert list_graded(shop) >= graded
    assert list_routes(selfwire.load("desk", home=home))


async def test_an_attempt_without_a_context_leaves_no_decision(home: Path) -> None:
    schema = "class House:\n    name: str = 'mine'\n\n\nclass Desk("
    app = APP.replace("class Desk(", schema).replace("StateGraph(Desk)", "StateGraph(Desk, context_schema=House)")
    app = app.replace("(state: Desk) -> dict:\n", "(state: Desk, runtime) -> dict:\n    runtime.context.name\n")
    Path("shop_app.py").write_text(app, encoding="utf-8")  # noqa: ASYNC240
    graph = OwnGraph("shop_app.py:graph", {"method": "router"})
    fields = {"anna": ("money",), "ben": ("technique",)}
    team, _ = add_routes(graph.seed(), [RoutedFork(agent="router", after=START, ends=("anna", "ben"), fields=fields)])
    ctx = graph.make_ctx(MeteredModel(OfflineChat()), {}, HashingEmbedder(64))
    done = await graph.answer(team, Question(id="1", input="message 1"), ctx)
    assert done.answer is not None, done.error
    assert [len(decision.agents) for decision in read_decisions(done)] == [2]
    explored = await graph.explore(team, Question(id="2", input="message 2"), ctx)
    assert [run.workflow for run in explored] == [team.fingerprint] * 3


def test_with_frozen_edges_nothing_is_asked(home: Path, shop: Shop) -> None:
    refused = learn(home, "--freeze", "edges", code=2)
    assert "a router changes edges, and edges are frozen; freeze fewer" in " ".join(refused.stderr.split())
    assert not shop.asked


def test_a_person_may_have_all_successors_run_as_before(
    home: Path, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "has_terminal", lambda: True)
    done = learn(home, "--approve", "edits", typed="r\nask both\n")
    assert "+ agent start-router" in done.output
    assert measure(home, shop, "desk") == (1, 3)


def test_a_program_that_needs_all_successors_keeps_them(home: Path, shop: Shop) -> None:
    """A number that a successor writes has no stand-in, so that nothing works without it."""
    counted = APP.replace("technique: str\n", "technique: str\n    words: int\n").replace(
        'return {"technique":', 'return {"words": 2, "technique":'
    )
    Path("shop_app.py").write_text(counted.replace('state["money"] + ', 'state["money"] + " " * state["words"] + '))
    done = learn(home)
    assert "ben cannot be left out, as anna alone fails: KeyError: 'words'" in " ".join(done.output.split())
    assert measure(home, shop, "shop_app.py:graph") == (1, 3)
    assert "nothing was evolved" in done.output


def make_desk(edges: str, *waiting: tuple[str, str]) -> StateGraph[Any, Any, Any, Any]:
    """A graph of nodes of one letter; "s" is START and "z" is END."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(dict)
    names = {"s": START, "z": END}
    pairs = [pair.split(">") for pair in edges.split()]
    for name in sorted({name for pair in [*pairs, *waiting] for name in "".join(pair)} - {*names}):
        builder.add_node(name, lambda state: {})
    for source, end in pairs:
        builder.add_edge(names.get(source, source), names.get(end, end))
    for several, end in waiting:
        builder.add_edge([*several], names.get(end, end))
    return builder


@pytest.mark.parametrize(
    ("edges", "waiting", "forks", "why"),
    [
        ("s>a s>b a>c b>c c>z", (), {START: ("a", "b")}, ""),
        ("s>a s>b a>d c>z", (("db", "c"),), {START: ("a", "b")}, ""),
        ("s>a a>b a>c c>z b>z", (), {"a": ("b", "c")}, ""),
        ("s>a s>b a>d a>e b>z c>z", (("deb", "c"),), {}, "c waits for d and e and b, and not for one node"),
        ("s>a s>b a>b b>z", (), {}, "b is led to from elsewhere too"),
        ("s>a s>b s>z a>z b>z", (), {}, "one of its edges leads to END"),
        ("s>p p>a p>b s>q a>z c>z q>z", (("abq", "c"),), {}, "c waits for a and b and q, and not for one node"),
    ],
)  # fmt: skip
def test_successors_are_chosen_from_where_the_rest_runs_with_one_of_them(
    edges: str, waiting: tuple[tuple[str, str], ...], forks: dict[str, tuple[str, ...]], why: str
) -> None:
    found, hindrances = find_forks(make_desk(edges, *waiting).compile())
    assert found == forks
    assert why in "".join(hindrances.values())
    assert bool(why) == bool(hindrances)


def make_run(number: int, fork: RoutedFork, end: str, score: float, *, calls: int = 1, error: str = "") -> Trajectory:
    """A graded run in which a successor was alone."""
    drawn = LayeredWorkflow(layers=((end,),))
    made = [Decision(rows=(f"Question: message {number}",), agents=fork.ends, layered=drawn)]
    return Trajectory(
        question=Question(id=str(number), input=f"message {number}"),
        workflow="0",
        steps=(Step(node=end, agent=end, output="", usage=Usage(calls=calls)),),
        error=error or None,
        feedback=None if error else Feedback(score=score, solved=score == 1, text=""),
        notes=note_decisions(made),
    )


async def test_each_node_learns_from_its_own_runs_and_one_that_fails_alone_keeps_its_successors() -> None:
    dear = RoutedFork(agent="first", after="s", ends=("a", "b"))
    broken = RoutedFork(agent="second", after="t", ends=("c", "d"))
    team = Team(method="x:y", agents=(Agent(id="graph", prompt=""),), topology=make_chain("graph"))
    runs = [
        run
        for number in range(4)
        for run in (
            make_run(number, dear, "a", 1, calls=3),
            make_run(number, dear, "b", 1),
            make_run(number, broken, "c", 1),
            make_run(number, broken, "d", 0, error="KeyError: 'notes'"),
        )
    ]
    embedder, train = HashingEmbedder(64), TrainConfig(objective="score - 0.1*calls", updates=20)
    found = await learn_routes(team, runs, [dear, broken], {"a": ["You are dear."]}, train, embedder)
    assert list_routes(found.workflow) == [dear]
    [declined] = found.notes["declined"]
    assert declined["reason"] == "c cannot be left out, as d alone fails: KeyError: 'notes'"
    assert found.needs_gate
    pool = make_pool(found.workflow, [dear], {"a": ["You are dear."]})
    choose, made = await make_chooser(pool, Question(id="9", input="message 9"), embedder, Scope())
    assert await choose(dear, {}) == "b"
    [decision] = made
    assert decision.layered.probabilities[0]["b"] > 0.9
    unpriced = await learn_routes(team, runs, [dear], {}, TrainConfig(updates=20), embedder)
    assert unpriced.notes["update"]["skipped"]


class Visits(TypedDict):
    question: str
    said: str
    more: str
    visited: Annotated[list[str], add]


@pytest.mark.parametrize("chosen", ["a", "b"])
def test_a_chosen_successor_runs_behind_an_inserted_agent_and_before_what_waited_for_all(chosen: str) -> None:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Visits)
    for name in "abcd":
        builder.add_node(name, lambda state, name=name: {"visited": [name, *state.get("more", "-")]})
    for source, end in [(START, "a"), (START, "b"), ("a", "d"), ("c", END)]:
        builder.add_edge(source, end)
    graph = builder.add_edge(["d", "b"], "c").compile()
    check, router = (Agent(id=name, prompt="") for name in ("check", "router"))
    place = Insertion(agent="check", after=START, before=("a", "b"), field="question")
    fork = RoutedFork(agent="router", after=START, ends=("a", "b"), fields={"a": ("said",), "b": ("said", "more")})
    memory = {name: [found.model_dump(mode="json")] for name, found in ((INSERTED, place), (ROUTED, fork))}
    team = Team(method="x:y", agents=(check, router), topology=make_chain("check"), memory=memory)

    async def choose(asked: RoutedFork, state: Any) -> str:
        assert (asked, state["question"]) == (fork, "checked")
        return chosen

    layer = TextLayer((), {}, lambda: GenericFakeChatModel(messages=iter([AIMessage("checked")])))
    with layer.active(), route_by(choose):
        done = build_variant("x:y", graph, team).invoke({"question": "?"})
    if chosen == "a":
        assert done == {"question": "checked", "more": "", "visited": ["a", "d", "c"]}
    else:
        assert done == {"question": "checked", "visited": ["b", "-", "c", "-"]}
    assert graph.invoke({"question": "?"})["visited"] == ["a", "-", "b", "-", "d", "-", "c", "-"]


def test_code_that_may_lead_anywhere_is_no_place_for_a_router(home: Path) -> None:
    builder = make_desk("s>a s>b a>c b>c")
    builder.add_conditional_edges("c", lambda state: END)
    assert find_forks(builder.compile()) == (
        {},
        {START: "code behind c does not say where it leads; annotate it with a Literal"},
    )
    builder = make_desk("s>a s>b a>c b>c")
    builder.add_conditional_edges("c", lambda state: END, [END])
    assert find_forks(builder.compile())[0] == {START: ("a", "b")}
    app = APP.replace('builder.add_edge(START, "ben")\n', "").replace('["anna", "ben"]', '"anna"')
    Path("shop_app.py").write_text(app.replace("builder.add_node(ben)\n", ""))
    refused = learn(home, code=2)
    told = (
        "graph 'shop_app.py:graph' has nothing for a router to choose: no node's edges lead to several successors that "
        "may run alone; lead from a node to each of them with add_edge, as a conditional edge chooses by itself"
    )
    assert told in " ".join(refused.stderr.split())


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"method": "hera", "train": {"updates": 7}}, "the fields of train need --method router"),
        ({"method": "router", "hera": {"rollouts": 2}}, "the fields of hera need --method hera"),
        ({"method": "router", "train": {"process_weight": 1}}, "train.process_weight does nothing"),
        ({"method": "router", "train": {"checkpoint_every": 1}}, "train.checkpoint_every does nothing"),
    ],
)
def test_fields_of_no_use_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        make_hera(OwnGraphConfig.model_validate(given))
