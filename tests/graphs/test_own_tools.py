"""A team's own tools in every method: agents call them, the journal replays them, and their records grow."""

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from selfwire.core.edits import AddTool, Grant, Rewiring
from selfwire.core.errors import ConfigError, ToolError
from selfwire.core.own_tool import ToolRecord
from selfwire.core.plugins import method_names
from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.core.trajectory import Step, ToolUse, Trajectory
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.extras.offline.wire import requested_schema
from selfwire.graphs.hiva import build
from selfwire.store.journal import Journal
from selfwire.tools import own
from selfwire.tools.calculator import CalculatorTool
from selfwire.tools.own import (
    JournalledTools,
    add_own_tools,
    find_missing_tools,
    record_tool_calls,
    refuse_missing_tools,
)
from tests.core.generators import SOURCES, make_tool, seed_team
from tests.graphs.test_methods import TASKS, Bench, CountingChat
from tests.sandboxed import needs_sandbox

FAILS = "def tool_function(n: int) -> int:\n    return 1 // (n - 40)\n"


class AddingChat(CountingChat):
    """Calls `add` where it is offered, once with 41 and once with 40, then answers as the stand-in."""

    def _reply(self, messages: Any, stop: Any, kwargs: Any) -> AIMessage:
        said = super()._reply(messages, stop, kwargs)
        results = [one for one in messages if isinstance(one, ToolMessage)]
        schema = requested_schema(kwargs)
        if schema is not None and "calls" in schema.parameters.get("properties", {}):  # DyTopo's turns
            [turn] = said.tool_calls
            calls = [{"tool": "add", "arguments": json.dumps({"n": number})} for number in (41, 40)]
            return said.model_copy(update={"tool_calls": [{**turn, "args": {**turn["args"], "calls": calls}}]})
        offered = [tool["function"]["name"] for tool in kwargs.get("tools", ())]
        if "add" in offered and len(results) < 2:
            call = {"id": f"c{len(results)}", "name": "add", "args": {"n": 41 - len(results)}}
            return AIMessage(content="", tool_calls=[call], usage_metadata=said.usage_metadata)
        return said


def with_tool(team: Team, source: str = FAILS) -> Team:
    """The team with a tool that all its agents hold."""
    grants = [Grant(agent.id, "add") for agent in team.agents]
    return team.apply(Rewiring(AddTool(make_tool(source=source)), *grants, why="try"))


@needs_sandbox
@pytest.mark.parametrize("name", method_names())
async def test_agents_of_every_method_call_tools_of_their_workflow(name: str) -> None:
    journal = Journal.memory()
    bench = Bench(name, chat=AddingChat(), journal=journal)
    team = with_tool(bench.start)
    done = await bench.method.answer(team, TASKS[0].question, bench.at("run"))
    uses = [use for step in done.steps for use in step.tools if use.name == "add"]
    assert {use.arguments["n"]: (use.result.split("\n")[0], use.error) for use in uses}[41] == ("1", False)
    failed = [use for use in uses if use.arguments["n"] == 40]
    assert failed
    assert all(use.error and "ZeroDivisionError" in use.result for use in failed)
    assert all(use.seconds is not None and use.seconds > 0 for use in uses)
    calls = journal.spend().calls
    replayed = Bench(name, chat=AddingChat(down=True), journal=journal)
    again = await replayed.method.answer(team, TASKS[0].question, replayed.at("run"))
    assert again == done
    assert journal.spend().calls == calls
    [tool] = record_tool_calls(team, [done]).tools
    assert (tool.record.calls, tool.record.failures) == (len(uses), len(failed))


def test_a_record_counts_calls_of_own_tools_only() -> None:
    team = with_tool(seed_team())
    uses = (
        ToolUse(name="add", arguments={}, result="1", seconds=0.5),
        ToolUse(name="add", arguments={}, result="error: it", error=True, seconds=0.25),
        ToolUse(name="add", arguments={}, result="error: add needs n", error=True),
        ToolUse(name="search", arguments={}, result="found"),
    )
    done = Trajectory(
        question=TASKS[0].question, workflow=team.fingerprint, steps=(Step(node="a", agent="a", tools=uses),)
    )
    recorded = record_tool_calls(team, [done, done])
    assert recorded.tools[0].record == ToolRecord(calls=4, failures=2, seconds=1.5)
    assert (recorded.fingerprint, recorded.lineage) == (team.fingerprint, team.lineage)
    assert record_tool_calls(seed_team(), [done]) == seed_team()


def test_own_tools_are_never_missing() -> None:
    team = with_tool(seed_team()).apply(Rewiring(Grant("a", "search"), why="try"))
    assert find_missing_tools(team, ()) == ["search"]
    assert find_missing_tools(team, {"search"}) == []


def test_a_name_that_the_run_lends_too_is_refused_before_anything_runs() -> None:
    team = seed_team().replace(tools=(make_tool("calculator"),))
    message = "the team has a tool 'calculator' of its own, and the run lends another of that name"
    with pytest.raises(ConfigError, match=message):
        add_own_tools({"calculator": CalculatorTool()}, team)
    with pytest.raises(ConfigError, match=message):
        refuse_missing_tools(team, {"calculator"}, "team 'x'", "")
    with pytest.raises(ConfigError, match=message):
        build(tools=[CalculatorTool()], initial=team)


def test_without_a_sandbox_a_team_with_tools_is_refused_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_sandbox() -> None:
        raise ConfigError("no sandbox works here; install bubblewrap")

    monkeypatch.setattr(own, "find_sandbox", find_sandbox)
    with pytest.raises(ConfigError, match="no sandbox works here"):
        build(initial=with_tool(seed_team()))
    with pytest.raises(ConfigError, match="no sandbox works here"):
        refuse_missing_tools(with_tool(seed_team()), (), "team 'x'", "")
    assert build(initial=seed_team())
    bare = build(initial=with_tool(seed_team()), config=HivaConfig(tools=False))
    assert bare


@needs_sandbox
async def test_a_graph_from_python_runs_tools_of_its_workflow() -> None:
    graph = build(AddingChat(), initial=with_tool(seed_team(), SOURCES[1])).compile()
    final = await graph.ainvoke({"question": "How much is 41 + 1?"})
    steps = [step for done in final["trajectories"] for step in done["steps"]]
    assert [use["result"] for step in steps for use in step["tools"]][:2] == ["42", "41"]


@needs_sandbox
async def test_a_tool_in_the_journal_that_is_simply_run_fails_with_a_tool_error() -> None:
    tool = add_own_tools(JournalledTools({}, Journal.memory()), with_tool(seed_team()))["add"]
    assert (await tool.run({"n": 41}, scope=Scope())).startswith("1")
    with pytest.raises(ToolError, match="ZeroDivisionError"):
        await tool.run({"n": 40}, scope=Scope())


async def test_where_no_sandbox_works_a_trial_of_tools_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_sandbox() -> None:
        raise ConfigError("no sandbox works here; install bubblewrap")

    monkeypatch.setattr(own, "find_sandbox", find_sandbox)
    assert await own.ToolTrial({}).find_problem() == "no sandbox works here; install bubblewrap"
