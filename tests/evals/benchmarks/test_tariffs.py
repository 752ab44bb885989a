"""Tariffs: faults that change some results, questions whose references are right, and feedback that says so."""

import asyncio
import re
from pathlib import Path

import pytest

from selfwire.core.agent import Agent
from selfwire.core.errors import GradingError
from selfwire.core.scope import Scope
from selfwire.core.task import Task
from selfwire.core.team import Team, diff_teams
from selfwire.core.topology import make_chain
from selfwire.evals.benchmarks.tariffs import FAULTY, TARIFFS, generate_tasks, grade, plant_fault, tariffs
from selfwire.extras.lab.ablation.plan import Study
from selfwire.extras.lab.ablation.run import measure_evolution
from selfwire.runs.evolution import run_single_agent, start_evolution, validate_request
from selfwire.runs.spec import Sizes
from selfwire.tools.own import SandboxedTool, give_tools
from selfwire.tools.sandbox.sandbox import find_sandbox
from tests.sandboxed import needs_sandbox


def test_each_seed_plants_one_fault_that_makes_some_results_wrong() -> None:
    planted = [plant_fault(seed) for seed in range(12)]
    assert {one.tool.name for one in planted} == set(TARIFFS)
    assert all(FAULTY[0] <= one.wrong <= FAULTY[1] and one.tool.source != one.right for one in planted)
    assert plant_fault(3) is plant_fault(3)


def test_questions_differ_and_their_splits_share_none() -> None:
    splits = tariffs(seed=1).splits(0, train=30, gate=30, test=30)
    texts = [task.input for part in (splits.train, splits.gate, splits.test) for task in part]
    assert len(set(texts)) == 90
    assert len(generate_tasks(10**6, 1)) == 274  # as many as there are


@needs_sandbox
async def test_the_right_code_gives_the_references() -> None:
    planted = plant_fault(0)
    right = SandboxedTool(planted.tool.replace(source=planted.right), find_sandbox())
    for task in generate_tasks(5, 0):
        given = {name: int(value) for name, value in re.findall(r"(\w+) = (\d+)", task.input)}
        assert await right.run(given, scope=Scope()) == str(task.reference).rpartition(" ")[2]


def test_a_wrong_answer_is_told_the_right_one() -> None:
    task = Task(id="t", input="?", reference="fare with age = 3 is 7")
    assert grade(task, "Answer: 7").solved
    assert grade(task, "Answer: 17").text == "The answer is wrong: fare with age = 3 is 7."
    assert "Format fault" in grade(task, "7").text
    with pytest.raises(GradingError, match="no text as reference"):
        grade(task.replace(reference=None), "Answer: 7")


def test_tools_are_given_to_all_agents_but_the_one_that_answers() -> None:
    agents = (Agent(id="a", prompt="Ask.", tools=("search",)), Agent(id="z", prompt="Answer."))
    team = Team(method="hiva", agents=agents, topology=make_chain("a", "z"))
    tool = plant_fault(0).tool
    given = give_tools(team, (tool,))
    assert [agent.tools for agent in given.agents] == [("search", tool.name), ()]
    assert (given.tools, give_tools(team, ())) == ((tool,), team)
    alone = Team(method="x", agents=agents[:1], topology=make_chain("a"))
    assert give_tools(alone, (tool,)).agents[0].tools == ("search", tool.name)


@needs_sandbox
def test_a_seed_holds_the_tool_but_without_tools(tmp_path: Path) -> None:
    study = Study(benchmark="tariffs", sizes=Sizes(train=4, gate=4, test=4), iterations=1, batch=2, seeds=1)
    for name, held in (("full", (plant_fault(0).tool,)), ("no-tool", ())):
        seed = validate_request(study.request(name, 0), tmp_path).seed
        assert seed.tools == held
        assert [agent.tools for agent in seed.agents] == [(), tuple(tool.name for tool in held)]


@needs_sandbox
@pytest.mark.slow
async def test_old_versions_stay_in_history(tmp_path: Path) -> None:
    study = Study(
        benchmark="tariffs", sizes=Sizes(train=20, gate=20, test=4), iterations=3, batch=4, gate_tasks=6, seeds=1
    )
    with await asyncio.to_thread(start_evolution, study.request("full", 0), tmp_path, run="r") as run:
        await run.execute()
        [single] = await run_single_agent(run, run.splits.test[:1], 3)
        history = await run.library.history("study")
        teams = [await run.library.load(f"study@{one.version}") for one in history.versions]
    assert [(use.name, use.error) for step in single.steps for use in step.tools][:1] == [("fare", False)]
    planted = plant_fault(0)
    assert teams[0].tools == (planted.tool.replace(record=teams[0].tools[0].record),)
    last = teams[-1].tools[0]
    assert (last.version > 1, last.by, bool(last.examples)) == (True, "source", True)
    assert last.source != planted.tool.source
    assert sum(team.tools[0].record.calls for team in teams) > 0
    [rewritten] = [one for one in diff_teams(teams[0], teams[-1]).tools if one.field == "source"]
    assert (rewritten.before, rewritten.after) == (planted.tool.source, last.source)


@needs_sandbox
@pytest.mark.slow
async def test_a_worse_version_is_refused_by_its_examples_on_record(tmp_path: Path) -> None:
    study = Study(
        benchmark="tariffs", sizes=Sizes(train=20, gate=20, test=2), iterations=2, batch=4, gate_tasks=4, seeds=1
    )
    with await asyncio.to_thread(start_evolution, study.request("random-tools", 3), tmp_path, run="r") as run:
        await run.execute()
        history = await run.library.history("study")
        last = await run.library.load("study")
    declined = [
        one["reason"] for version in history.versions for one in version.facts.get("notes", {}).get("declined", ())
    ]
    assert any(re.match(r"version 2 of 'postage': postage\(.*\) gives -?\d+, not \d+", one) for one in declined)
    assert last.tools[0].source == plant_fault(3).tool.source


@needs_sandbox
@pytest.mark.slow
def test_an_evolved_tool_improves_a_team_further_than_a_fixed_one_does() -> None:
    study = Study(
        benchmark="tariffs", sizes=Sizes(train=20, gate=20, test=10), iterations=3, batch=4, gate_tasks=6, seeds=1
    )
    mended, fixed = (measure_evolution(study, "k", name, 0) for name in ("full", "no-tool-evolution"))
    assert fixed.before == mended.before < mended.after
    assert fixed.after < mended.after
