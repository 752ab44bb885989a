"""Dry runs: what they count, and that offline runs keep to them."""

import json
import sys
from collections.abc import Sequence
from math import isqrt
from pathlib import Path
from typing import Any

import pytest

import selfwire
from selfwire.core.agent import Agent
from selfwire.core.errors import ConfigError
from selfwire.core.plugins import method_names
from selfwire.core.task import Task
from selfwire.core.team import Team
from selfwire.core.topology import make_chain
from selfwire.graphs.evolve import EvolutionConfig
from selfwire.graphs.hiva import Hiva
from selfwire.graphs.method import CallEstimate, estimate_calls
from selfwire.graphs.pruning import PruningConfig
from selfwire.runs import record
from selfwire.runs.estimates import (
    estimate_evaluation,
    estimate_evolution,
    estimate_evolution_calls,
    read_graph_usage,
)
from selfwire.runs.evaluation import start_evaluation
from selfwire.runs.evolution import start_evolution
from selfwire.runs.record import list_run_names
from selfwire.runs.spec import EvaluateSpec, EvolveSpec, Models, Sizes, SystemSpec
from tests.commands import call
from tests.graphs.desk import open_shop
from tests.graphs.teams import topology


def evolution(method: str, **config: Any) -> EvolveSpec:
    return EvolveSpec(
        method=method,
        benchmark="archive",
        sizes=Sizes(train=6, gate=6, test=4),
        evolution=EvolutionConfig(name="w", iterations=1, batch=4, gate="mean", gate_tasks=4),
        config=config,
        baselines=False,
    )


def calls(method: str, **config: Any) -> int:
    """The middle of the range."""
    found = estimate_evolution(evolution(method, **config), None)
    return isqrt(found.low.calls * found.high.calls)


@pytest.mark.slow
@pytest.mark.parametrize("method", method_names())
async def test_an_offline_evolution_keeps_within_its_dry_run(method: str, tmp_path: Path) -> None:
    request = evolution(method, **({"team": "single"} if method == "gepa" else {}))  # which has much to learn
    range_of = estimate_evolution(request, tmp_path)
    assert "within a factor of 2.5" in range_of.text
    with start_evolution(request, tmp_path) as run:
        await run.execute()
        spent = run.journal.spend()
    assert range_of.low.calls <= spent.calls <= range_of.high.calls
    assert range_of.low.tokens <= spent.tokens <= range_of.high.tokens


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", ["archive", "plancraft"])
@pytest.mark.parametrize("method", method_names())
async def test_an_offline_evaluation_keeps_within_its_dry_run(method: str, benchmark: str, tmp_path: Path) -> None:
    request = EvaluateSpec(benchmark=benchmark, entries=(SystemSpec(name=method, target=method),), tasks=10)
    range_of = estimate_evaluation(request, tmp_path)
    with start_evaluation(request, tmp_path) as run:
        await run.execute()
        spent = run.journal.spend()
    assert range_of.low.calls <= spent.calls <= range_of.high.calls
    assert range_of.low.tokens <= spent.tokens <= range_of.high.tokens


async def test_a_pruning_keeps_within_its_dry_run(tmp_path: Path) -> None:
    seed = Hiva().seed(["recipe_search"])
    passengers = tuple(Agent(id=name, prompt="Hand on what you find to the next agent.") for name in "abc")
    chain = topology("source>a a>b b>c c>aggregator", entry="source", sink="aggregator")
    selfwire.save(seed.replace(agents=(*seed.agents, *passengers), topology=chain), "desk", home=tmp_path)
    pruning = PruningConfig(iterations=4, batch=10, checks=20, sentences=0, margin=0.1)
    request = EvolveSpec(
        method="hiva",
        benchmark="plancraft",
        sizes=Sizes(train=30, gate=120, test=0),
        evolution=EvolutionConfig(name="desk", iterations=0, pruning=pruning),
        seed_team="desk",
        baselines=False,
    )
    range_of = estimate_evolution(request, tmp_path)
    with start_evolution(request, tmp_path) as run:
        await run.execute()
        spent = run.journal.spend()
    assert range_of.low.calls <= spent.calls <= range_of.high.calls


async def test_a_dry_run_is_within_a_factor_of_three(tmp_path: Path) -> None:
    entries = tuple(SystemSpec(name=name, target=name) for name in ("hiva", "hera"))
    request = EvaluateSpec(benchmark="archive", entries=entries, tasks=3)
    estimate = estimate_evaluation(request, tmp_path)
    with start_evaluation(request, tmp_path) as run:
        await run.execute()
        spent = run.journal.spend()
    for likely, real in ((estimate.likely.calls, spent.calls), (estimate.likely.tokens, spent.tokens)):
        assert likely / 3 < real < likely * 3
    assert estimate.high.tokens <= 9.01 * estimate.low.tokens


async def test_a_dry_run_covers_questions_that_take_all_rounds(tmp_path: Path) -> None:
    tasks = tmp_path / "unknown.jsonl"
    tasks.write_text("".join(f'{{"input": "What is {n} plus {n}?", "reference": "{2 * n}"}}\n' for n in range(9)))
    entries = (SystemSpec(name="tacomas", target="tacomas"),)
    request = EvaluateSpec(benchmark=str(tasks), entries=entries, tasks=3)
    high = estimate_evaluation(request, tmp_path).high.calls
    with start_evaluation(request, tmp_path) as run:
        await run.execute()
        spent = run.journal.spend().calls
    assert spent > 3 * 2.5 * 31
    assert spent <= high


KEYLESS = (
    ("evolve", "hiva"),
    ("eval", "hera"),
    ("compare", "hiva", "single"),
    ("train", "evomas"),
    ("ablate", "dytopo", "--variants", "full"),
)


@pytest.mark.parametrize("command", KEYLESS, ids=lambda command: command[0])
def test_a_dry_run_needs_no_key(command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    asked = [*command, "--benchmark", "archive", "--model", "openai:gpt-4o-mini", "--dry-run"]
    result = call(tmp_path / "home", *asked)
    assert "dollars: about $" in result.stdout
    assert not (tmp_path / "home").exists()
    wrong = call(tmp_path, *asked[:-2], "gpt", "--dry-run", code=2)
    assert "unknown model 'gpt'" in wrong.stderr


DESK = [{"input": f"Message {n}: which desk?", "reference": "billing"} for n in range(30)]
APP = """
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

PROMPT = "You answer with one name."


def write(state: dict) -> dict:
    asked = [("system", PROMPT), ("user", state["question"])]
    return {"answer": ChatOpenAI(model="gpt-4o-mini").invoke(asked).text}


graph = StateGraph(dict).add_node("write", write).add_edge(START, "write").add_edge("write", END).compile()
"""


def test_what_the_models_of_ones_own_graph_cost_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "priced_app.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])
    graph = SystemSpec(name="mine", target="priced_app:graph")
    measured = EvaluateSpec(benchmark="archive", entries=(graph,), tasks=3)
    for found in (
        estimate_evolution(evolution("priced_app:graph"), tmp_path),
        estimate_evaluation(measured, tmp_path),
    ):
        assert (
            "dollars: unknown for priced_app:graph: what its models cost is known after `selfwire eval`" in found.text
        )
    models = Models(agent="openai:gpt-4o-mini")
    both = measured.replace(entries=(SystemSpec(name="single", target="single"), graph), models=models)
    found = estimate_evaluation(both, tmp_path, votes=True)
    alone = estimate_evaluation(both.replace(entries=both.entries[:1]), tmp_path, votes=True)
    assert found.high.dollars == alone.high.dollars
    assert alone.high.dollars is not None
    assert alone.high.dollars > 0
    left = "priced_app:graph and votes at the price of priced_app:graph: what its models cost is known after"
    assert f"to ${alone.high.dollars:,.2f}), without {left} `selfwire eval`" in found.text
    for name, told in (("openai:gpt-4o-mini", "dollars: about $"), ("openai:mine", "dollars: unknown (no list price)")):
        asked = evolution("priced_app:graph").replace(models=Models(agent=name))  # its critics cost
        text = estimate_evolution(asked, tmp_path).text
        assert told in text
        assert ", without priced_app:graph: what its models cost is known after `selfwire eval`" in text


def test_a_graph_that_was_measured_has_its_price_in_dry_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = APP.replace("ChatOpenAI(", 'ChatOpenAI(base_url=os.environ["MY_MODEL"], api_key="k", ')
    app = app.replace("(dict)", '(TypedDict("Desk", {"question": str, "answer": str}))')
    app = f"import os\nfrom typing import TypedDict\n{app}"
    with open_shop(app, {"desk.jsonl": DESK}, lambda kind, body: "billing", tmp_path, monkeypatch) as home:
        home.mkdir()
        (home / "prices.json").write_text('{"openai:gpt-4o-mini": {"input": 1000, "output": 3000}}')
        call(home, "adopt", "shop_app.py:graph", "--name", "desk")
        asked = ("--benchmark", "desk.jsonl", "--grader", "exact")
        [_, mine] = json.loads(call(home, "eval", "desk", *asked, "--tasks", "8", "--json").stdout)["systems"]
    each = mine["spend"]["dollars"] / 8
    assert each > 0
    run = list_run_names(home)[-1]
    for target in ("desk", "shop_app.py:graph"):
        found = json.loads(call(home, "eval", target, *asked, "--tasks", "4", "--dry-run", "--json").stdout)
        assert found["likely"]["dollars"] == pytest.approx(4 * each)
        assert found["likely"]["calls"] == 4
    told = call(home, "evolve", "desk", *asked, "--gate", "mean", "--dry-run").stdout
    assert f"with shop_app.py:graph as {run} has measured it" in " ".join(told.split())


def test_what_a_graph_costs_is_looked_for_in_each_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(9):
        folder = record.get_runs_folder(tmp_path) / f"run{number}"
        folder.mkdir(parents=True)
        (folder / record.JOURNAL).touch()
    looked = list[Path]()

    def look(journal: Path) -> float:
        looked.append(journal)
        return 0.0

    monkeypatch.setattr(record, "get_start_time", look)
    assert read_graph_usage("shop_app.py:graph", tmp_path) is None
    assert len(looked) == 9


def test_a_dry_run_of_ones_own_graph_counts_its_prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = "".join(
        f"""def step{n}(state: dict) -> dict:
    asked = [("system", "You take step {n} of five."), ("user", state["question"])]
    return {{"answer": ChatOpenAI(model="gpt-4o-mini").invoke(asked).text}}


builder.add_node("step{n}", step{n})
builder.add_edge({f'"step{n - 1}"' if n else "START"}, "step{n}")
"""
        for n in range(5)
    )
    head = APP.partition("PROMPT")[0] + "builder = StateGraph(dict)\n"
    (tmp_path / "long_app.py").write_text(f'{head}{steps}builder.add_edge("step4", END)\ngraph = builder.compile()\n')
    monkeypatch.chdir(tmp_path)
    graph = SystemSpec(name="mine", target="long_app.py:graph")
    for cap, most in ((None, 15), (64, 15), (8, 8)):  # five calls a task lie between
        asked = EvaluateSpec(benchmark="archive", entries=(graph,), tasks=3, calls_per_task=cap)
        found = estimate_evaluation(asked, tmp_path)
        assert (found.low.calls, found.high.calls) == (3, 3 * most)


def test_samples_of_train_questions_count() -> None:
    assert calls("hera", group=8) > 1.3 * calls("hera", group=4)
    assert calls("evomas", samples=8) > 1.3 * calls("evomas", samples=4)


def test_a_question_that_repeats_is_counted_once_in_a_proof_and_tasks_of_a_group_each() -> None:
    team = Team(method="hiva", agents=(Agent(id="s", prompt="Work."),), topology=make_chain("s"))
    config = EvolutionConfig(name="w", iterations=1)
    request = evolution("hiva").replace(sizes=Sizes(train=20, gate=100, test=4), evolution=config)
    gate = tuple(Task(id=f"{number}", input=f"{number}") for number in range(request.sizes.gate))
    twice = [task.replace(input=f"{number // 2}") for number, task in enumerate(gate)]
    paged = [task.replace(group=f"{number // 2}") for number, task in enumerate(gate)]

    def count(gate: Sequence[Task]) -> float:
        return sum(estimate_evolution_calls(request, team, gate).values())

    assert count(twice) < count(gate) == count(paged) == count(())


# where fewer tasks are left for checks than measure the parts, none checks an agent by itself
@pytest.mark.parametrize(("train", "alone"), [(60, 4), (39, 0)])
def test_a_pruning_checks_groups_and_each_agent_by_itself(train: int, alone: int) -> None:
    agents = tuple(Agent(id=name, prompt="Work.") for name in "sabcdz")
    team = Team(method="hiva", agents=agents, topology=topology("s>a a>b b>c c>d d>z"))

    def count(checks: int) -> float:
        pruning = PruningConfig(iterations=3, batch=20, checks=checks)
        config = EvolutionConfig(name="w", iterations=0, pruning=pruning)
        sizes = Sizes(train=train, gate=240, test=0)
        request = EvolveSpec(method="hiva", benchmark="archive", sizes=sizes, evolution=config, baselines=False)
        return sum(estimate_evolution_calls(request, team).values())

    question = sum(estimate_calls("hiva", {}, team, 20).question.values())
    checks = train - 20
    assert count(40) - count(0) == pytest.approx((1.5 + (1.5 + alone) / 3) * checks * question)


def test_what_is_switched_off_costs_nothing() -> None:
    assert calls("hiva", tool_evolution=False) < calls("hiva", tool_writer="random") < calls("hiva")
    assert calls("hiva", tool_evolution=False) == calls("hiva", tool_evolution=False, tool_writer="random")
    assert calls("hera", rope=False) < calls("hera")
    assert calls("hera", mutation=False) < calls("hera")
    assert calls("tacomas", capability=False) < calls("tacomas")
    assert calls("tacomas", rounds=1) < calls("tacomas") / 3
    assert calls("dytopo", manager=False) < calls("dytopo")
    assert calls("dytopo", halting=False) > 1.5 * calls("dytopo")
    assert calls("evomas", task_state=False) < calls("evomas")


def test_roles_are_priced_by_their_own_models(tmp_path: Path) -> None:
    prices = tmp_path / "prices.json"
    prices.write_text('{"openai:judge": {"input": 1000, "output": 1000}, "openai:a": {"input": 1, "output": 1}}')
    request = evolution("tacomas")
    named = request.models.replace(agent="openai:a", base_url="http://127.0.0.1:9/v1", prices=str(prices))
    cheap, dear = (
        estimate_evolution(request.replace(models=named.replace(judge=judge)), tmp_path).high.dollars
        for judge in (None, "openai:judge")
    )
    assert cheap is not None
    assert dear is not None
    assert dear > 10 * cheap


def test_a_method_whose_estimate_fails_is_an_error_in_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*given: object) -> CallEstimate:
        raise ZeroDivisionError("1/0")

    broken = type("Broken", (Hiva,), {"estimate_calls": staticmethod(fail)})
    monkeypatch.setattr("selfwire.graphs.method.find_method", lambda name: broken)
    asked = EvolveSpec(method="hiva", benchmark="archive", evolution=EvolutionConfig(name="w"))
    with pytest.raises(ConfigError, match="estimate_calls raised ZeroDivisionError: 1/0; mend it"):
        estimate_evolution(asked, tmp_path)
