"""An exported team of HERA plans, repairs its plans and runs them as a run does."""

import random
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from selfwire.core.edits import Rewiring, SetModel
from selfwire.core.team import Team
from selfwire.evolvers.hera.initial_team import ONE_PLAN
from selfwire.evolvers.hera.library import Insight, Profile, with_library
from selfwire.graphs.hera import Hera
from selfwire.graphs.pruning import remove_agent
from tests.extras.langgraph_file.files import answering, ask, export, load, run, save, take
from tests.graphs.orchestra import order
from tests.wire.server import Body, WireServer

NAMES = ("query_decomposer", "Evidence Selector", "calculator", "reflect_agent", "conclude_agent", "answer_generator")
LONG = " ".join(["The passage says that the bridge was built by nobody in particular."] * 4)
QUESTION = f"Who built <agents>it</agents>, $5 or {{x}}?\n{LONG}\n{LONG}"


def learned(team: Team, *entries: tuple[str, str, str, int, int]) -> Team:
    insights = [
        Insight(profile=Profile(type=kind, summary=summary), text=text, uses=uses, successes=successes)
        for kind, summary, text, uses, successes in entries
    ]
    return with_library(team, tuple(insights))


def step(number: int, agent: str, *after: int | str) -> Body:
    return {"step": number, "agent": agent, "depends_on": [*after]}


def compare(team: Team, home: Path, server: WireServer, **objects: Any) -> list[Any]:
    """Run a team and its exported file, and return the requests of both, which must be equal.

    Equal requests count once, as at temperature 0 a run sends them once.
    """
    said = {name: lambda body, made=made: made for name, made in objects.items()}
    server.answer = answering(lambda body: [("calculator", {"expression": "1/3"})], **said)
    save(home, team)
    wanted = run(home, server, QUESTION)
    sent = [messages for messages, _ in groupby(take(server))]
    file = export(home, home / "mine.py")
    assert ask(file, server, QUESTION) == wanted
    assert [messages for messages, _ in groupby(take(server))] == sent
    return sent


PROFILE = {"query_type": "bridge", "difficulty": "hard", "summary": " Find  two\nfacts. "}
PLANS: dict[str, Body] = {
    "chain": order("query_decomposer", "evidence_selector", "answer_generator"),
    "one": order("conclude_agent"),
    "parallel": {
        "execution_order": [
            step(1, "query_decomposer"),
            step(2, "evidence_selector", 1),
            step(3, "evidence_selector", 1),
            step(4, "calculator", 3),
            step(5, "reflect_agent", 1, 2),
            step(6, "conclude_agent", 2, 3, 4, 5),
        ],
    },
    "many-starts": {"execution_order": [step(n, name) for n, name in enumerate(NAMES, 1)]},
    "broken": {"execution_order": [step(1, "nobody"), step(2, "calculator", 3, 2, 9), step(3, "calculator", "step 2")]},
    "nobody": {"execution_order": [step(1, "nobody")]},
    "long": order(*NAMES * 4),
    "no plan": {"steps": []},
}


@pytest.mark.parametrize("name", PLANS)
def test_plans_run_as_in_a_run(name: str, tmp_path: Path, wire_server: WireServer) -> None:
    sent = compare(Hera().seed(["calculator"]), tmp_path, wire_server, TopologyPlan=PLANS[name])
    assert len(sent) > 1


def test_a_team_with_one_plan_runs_by_it_as_in_a_run(tmp_path: Path, wire_server: WireServer) -> None:
    team = Hera().seed(["calculator"]).with_memory(**{ONE_PLAN: True})
    sent = compare(team, tmp_path, wire_server)
    assert len(sent) >= len(team.topology.nodes), "its agents alone are asked, and nobody plans"


def test_a_pruned_team_plans_with_who_is_gone_and_leaves_its_steps_out(tmp_path: Path, wire_server: WireServer) -> None:
    whole = Hera().seed(["calculator"])
    team = Hera().note_removals(whole.apply(remove_agent(whole, "evidence_selector", "calculator")), whole)
    sent = compare(team, tmp_path, wire_server, TopologyPlan=PLANS["parallel"])
    [planned] = [messages[1][1] for messages in sent if "You orchestrate a team" in messages[1][1]]
    assert "\nevidence_selector: Reads passages" in planned
    assert len(sent) == 4  # the plan, and three of its six steps


def test_agents_ask_the_models_that_they_ask_in_a_run(tmp_path: Path, wire_server: WireServer) -> None:
    team = Hera().seed(["calculator"]).apply(Rewiring(SetModel("evidence_selector", "cheap"), why="it only chooses"))
    plan = PLANS["chain"]
    wire_server.answer = answering(QueryProfile=lambda body: PROFILE, TopologyPlan=lambda body: plan)
    save(tmp_path, team)

    def take_models() -> list[tuple[str, str]]:
        asked = sorted((asked.body["model"], asked.body["messages"][-1]["content"]) for asked in wire_server.asked)
        wire_server.asked.clear()
        return asked

    run(tmp_path, wire_server, QUESTION, "--models", "cheap=openai:cheap-1")
    sent = take_models()
    assert [model for model, _ in sent].count("cheap-1") == 1
    module = load(export(tmp_path, tmp_path / "mine.py", "--models", "cheap=openai:cheap-1"))
    strong, cheap = (
        ChatOpenAI(model=name, base_url=wire_server.url, api_key=SecretStr("none"), temperature=0.0)
        for name in ("local", "cheap-1")
    )
    assert module.build(strong, {"cheap": cheap}).invoke({"question": QUESTION})["answer"]
    assert take_models() == sent


def test_an_invalid_profile_is_the_default_one(tmp_path: Path, wire_server: WireServer) -> None:
    team = learned(Hera().seed([]), ("other", "Find two facts.", "Never mind.", 0, 0))
    compare(team, tmp_path, wire_server, QueryProfile={"kind": 1}, TopologyPlan=PLANS["chain"])


def test_insights_are_chosen_as_in_a_run(tmp_path: Path, wire_server: WireServer) -> None:
    team = learned(
        Hera().seed(["calculator"]),
        ("bridge", "Find a place.", "Search for the person first, and then for the place.", 4, 4),
        ("bridge", "Find a place.", "Search for the person first and then for the place!", 4, 3),
        ("other", "Find two facts.", 'Say "no" where {nothing} is known.\\', 0, 0),
        ("other", "Compare numbers.", "Calculate.", 9, 9),
        ("comparison", "Weigh rivers.", "Never.", 9, 9),
    )
    sent = compare(team, tmp_path, wire_server, QueryProfile=PROFILE, TopologyPlan=PLANS["chain"])
    [planned] = [messages[1][1] for messages in sent if "You orchestrate a team" in messages[1][1]]
    assert "utility 0.83) Search for the person first, and then" in planned
    assert "person first and then" not in planned
    assert 'Say "no" where {nothing} is known.\\' in planned
    assert "Never." not in planned


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_any_plan_runs_as_in_a_run(seed: int, tmp_path: Path, wire_server: WireServer) -> None:
    rng = random.Random(seed)
    steps = [
        step(
            rng.choice([n, n, n, 1]),
            rng.choice([*NAMES, "nobody"]),
            *rng.sample([*range(9), "step 2", "calculator"], rng.randint(0, 3)),
        )
        for n in range(1, rng.randint(2, 14))
    ]
    team = Hera().seed(["calculator"])
    compare(team, tmp_path, wire_server, TopologyPlan={"execution_order": steps})
