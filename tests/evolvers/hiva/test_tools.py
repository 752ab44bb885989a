"""The tool half of f_P: decisions, code that is validated and tried, known calls, and switches."""

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from selfwire.core.chat import ToolSpec
from selfwire.core.edits import AddTool, Grant, RemoveTool, Rewiring, RewriteTool
from selfwire.core.errors import BudgetError, ModelError, ReplyError, ToolError
from selfwire.core.own_tool import OwnTool, ToolExample, ToolOutcome
from selfwire.core.protocols import Tool
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback
from selfwire.core.team import Team
from selfwire.core.trajectory import ToolUse, Trajectory
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.forward import match_task
from selfwire.evolvers.hiva.gradients import Gradient
from selfwire.evolvers.hiva.knowledge import TaskConcepts
from selfwire.evolvers.hiva.schemas import KnownCall, ToolDecision, ToolSource
from selfwire.evolvers.hiva.tools import ToolsResult, evolve_tools, is_same_result, merge_examples, read_known_calls
from selfwire.models.embeddings import HashingEmbedder
from tests.core.generators import SOURCES, make_tool
from tests.evolvers.hiva.doubles import LINE, gradient, meta_model, run
from tests.scripted import Answer, ScriptedModel

ONE = ToolExample(arguments={"n": 1}, result="3")
TOOL = make_tool(source=SOURCES[1])
TEAM = LINE.replace(tools=(TOOL, make_tool("other"))).apply(Rewiring(Grant("a", "add"), why="seed"))
TOLD = "add with n = 1 is 3, and the team said 2."
FAULT = gradient("a", tool="add is one too low.", concerns="semantics")


class Search:
    """A tool of the run's."""

    spec = ToolSpec(name="search", description="Looks a word up.", parameters={})

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        return "found"


class Trial:
    """Runs tools in this process; these sources are the tests' own."""

    problem = ""
    toolbox: Mapping[str, Tool] = {"search": Search()}

    async def find_problem(self) -> str:
        return self.problem

    def __init__(self) -> None:
        self.ran: list[tuple[int, Any]] = []

    async def run(self, tool: OwnTool, arguments: Mapping[str, Any], *, scope: Scope) -> ToolOutcome:
        self.ran.append((tool.version, arguments))
        space: dict[str, Any] = {}
        exec(tool.source, space)
        try:
            return ToolOutcome(result=str(space["tool_function"](**arguments)))
        except ZeroDivisionError as error:
            return ToolOutcome(result=f"ZeroDivisionError: {error}", failed=True)


class NoSandbox(Trial):
    problem = "no sandbox works here"


def decision(operation: str = "REWRITE_TOOL", tool: str = "add", **fields: Any) -> ToolDecision:
    calls = fields.pop("examples", [KnownCall(arguments='{"n": 1}', result="3")])
    return ToolDecision(operation=operation, tool=tool, examples=calls, reason="It adds too little.", **fields)


def told(team: Team = TEAM, text: str = TOLD, task: str = "t1") -> Trajectory:
    done = run(team, task=task)
    use = ToolUse(name="add", arguments={"n": 1}, result="2", seconds=0.1)
    steps = tuple(step.replace(tools=(use,)) if step.agent == "a" else step for step in done.steps)
    return done.replace(steps=steps, feedback=Feedback(score=0, solved=False, text=text))


async def evolve(
    model: ScriptedModel,
    *gradients: Gradient,
    team: Team = TEAM,
    config: HivaConfig = HivaConfig(),
    trial: Trial | None = None,
    feedback: str = TOLD,
) -> ToolsResult:
    return await evolve_tools(
        team,
        gradients or (FAULT,),
        [told(team, feedback)],
        meta_model(model),
        config,
        trial=trial or Trial(),
        scope=Scope(),
    )


def sources(*texts: str, calls: Sequence[str] = ()) -> Any:
    left = list(texts)

    def answer(prompt: str, scope: Scope) -> Answer:
        return ToolSource(source=left.pop(0), calls=[*calls])

    return answer


class TemperatureModel(ScriptedModel):
    """Notes the temperature of each ask."""

    def __init__(self, **script: Any) -> None:
        super().__init__(**script)
        self.temperatures: list[tuple[str, float | None]] = []

    async def generate_structured(self, schema: Any, messages: Any, *, scope: Scope, **options: Any) -> Any:
        self.temperatures.append((schema.__name__, options["temperature"]))
        return await super().generate_structured(schema, messages, scope=scope, **options)


async def test_code_is_asked_for_at_the_papers_temperature() -> None:
    model = TemperatureModel(ToolDecision=decision(), ToolSource=ToolSource(source=SOURCES[2]))
    await evolve(model)
    assert dict(model.temperatures) == {"ToolDecision": 1.0, "ToolSource": 0.3}


async def test_a_tool_is_mended_and_the_old_version_is_replaced_only_if_all_examples_pass() -> None:
    model, trial = (
        ScriptedModel(ToolDecision=decision(), ToolSource=ToolSource(source=f"```python\n{SOURCES[2]}```")),
        Trial(),
    )
    known = ToolExample(arguments={"n": 5}, result="7")
    team = TEAM.replace(tools=[TOOL.replace(examples=(known,)), make_tool("other")])
    found = await evolve(model, team=team, trial=trial)
    [rewiring] = found.rewirings
    assert rewiring.edits == (RewriteTool("add", SOURCES[2], examples=(known, ONE)),)
    assert (rewiring.operation, rewiring.by, rewiring.why) == ("REWRITE_TOOL", "a", "It adds too little.")
    assert (found.handled, found.declined, found.usage.calls) == (("a",), (), 2)
    assert [arguments["n"] for _, arguments in trial.ran] == [5, 1]
    now = team.apply(rewiring).tools_by_name["add"]
    assert (now.version, now.source, now.examples) == (2, SOURCES[2], (known, ONE))
    shown = model.shown("ToolDecision")[0]
    for text in (
        'add(n: integer), version 1, not called yet\nAdds to a number.\nknown calls:\n{"n":5} -> 7',
        '[task 1] add({"n":1}) -> 2',
        f"[task 1]\n{TOLD}",
        "[task 1, critical]\nadd is one too low.",
        "other: Adds to a number.",
        "REWRITE_TOOL\nCREATE_TOOL\nGRANT_TOOL\nNO_CHANGE",
    ):
        assert text in shown
    code = model.shown("ToolSource")[0]
    assert f"<tool_code>\n{SOURCES[1].strip()}\n</tool_code>" in code
    assert '{"n":5} -> 7\n{"n":1} -> 3' in code
    assert "earlier_code" not in code


async def test_a_worse_version_is_shown_its_fault_once_and_then_refused_by_its_examples() -> None:
    model = ScriptedModel(
        ToolDecision=decision(), ToolSource=sources(SOURCES[0], "def tool_function(n: int):\n    return n // 0\n")
    )
    found = await evolve(model)
    assert [one.reason for one in found.declined] == [
        "version 2 of 'add': add({\"n\":1}) fails: ZeroDivisionError: integer division or modulo by zero"
    ]
    [kept] = found.rewirings
    assert (kept.operation, kept.edits) == ("ADD_EXAMPLES", (RewriteTool("add", SOURCES[1], examples=(ONE,)),))
    now = TEAM.apply(kept).tools_by_name["add"]
    assert (now.version, now.examples, now.source) == (1, (ONE,), SOURCES[1])
    assert found.handled == ()
    second = model.shown("ToolSource")[1]
    assert f"<earlier_code>\n{SOURCES[0].strip()}\n</earlier_code>" in second
    assert 'add({"n":1}) gives 1, not 3' in second


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import os\n" + SOURCES[2], "line 1: import of 'os' is not allowed"),
        (SOURCES[1], "the code is the old one"),
        ("def tool_function(m: int) -> int:\n    return m\n", "the parameters must stay n with their types"),
        (
            "def tool_function(n: int, m: int) -> int:\n    return n + m\n",
            "the parameters must stay n with their types",
        ),
        ("def tool_function(n: int) -> int:\n    return 3\n", "the result depends on no parameter"),
        ("x = 1  # " + "y" * 200, "the code has 210 characters; at most 150 are allowed"),
    ],
)
async def test_code_that_may_not_run_is_never_run(source: str, reason: str) -> None:
    trial, model = Trial(), ScriptedModel(ToolDecision=decision(), ToolSource=ToolSource(source=source))
    found = await evolve(model, trial=trial, config=HivaConfig(tool_length=150))
    assert found.declined[0].reason.startswith(f"version 2 of 'add': {reason}")
    assert (trial.ran, model.names()) == ([], ["ToolDecision", "ToolSource", "ToolSource"])


async def test_a_version_whose_examples_do_not_fit_its_parameters_is_declined() -> None:
    asked = decision(examples=[KnownCall(arguments='{"m": 1}', result="3")])
    model, trial = ScriptedModel(ToolDecision=asked, ToolSource=ToolSource(source=SOURCES[2])), Trial()
    [declined] = (await evolve(model, trial=trial)).declined
    assert declined.reason == "version 2 of 'add': an example of tool 'add' lacks n"
    assert not trial.ran


async def test_a_random_control_draws_single_changes_and_builds_only_those(monkeypatch: pytest.MonkeyPatch) -> None:
    built = list[str]()

    def unparse(tree: ast.AST, write: Callable[[ast.AST], str] = ast.unparse) -> str:
        built.append(write(tree))
        return built[-1]

    monkeypatch.setattr("ast.unparse", unparse)
    model = ScriptedModel(ToolDecision=decision())
    found = await evolve(model, config=HivaConfig(tool_writer="random"))
    assert (model.names(), 0 < len(built) <= 2) == (["ToolDecision"], True)
    assert found.rewirings


async def test_a_new_tool_is_written_and_granted_under_a_free_name() -> None:
    asked = decision("CREATE_TOOL", "Search!", description="Adds two.")
    model = ScriptedModel(ToolDecision=asked, ToolSource=ToolSource(source=SOURCES[2]))
    [rewiring] = (await evolve(model)).rewirings
    added, granted = rewiring.edits
    assert isinstance(added, AddTool)
    assert granted == Grant("a", "search-2")
    assert (added.tool.by, added.tool.examples, added.tool.description) == ("a", (ONE,), "Adds two.")
    assert TEAM.apply(rewiring).agents_by_id["a"].tools == ("add", "search-2")
    assert "Adds two." in model.shown("ToolSource")[0]


async def test_a_tool_without_known_results_is_tried_with_its_writers_calls_before_anybody_holds_it() -> None:
    asked, trial = decision("CREATE_TOOL", "more", description="Divides.", examples=[]), Trial()
    codes = sources("def tool_function(n: int):\n    return n // 0\n", SOURCES[2], calls=('{"n": 4}',))
    model = ScriptedModel(ToolDecision=asked, ToolSource=codes)
    [rewiring] = (await evolve(model, trial=trial)).rewirings
    assert [dict(arguments) for _, arguments in trial.ran] == [{"n": 4}] * 2
    assert 'more({"n":4}) fails: ZeroDivisionError' in model.shown("ToolSource")[1]
    added, _ = rewiring.edits
    assert isinstance(added, AddTool)
    assert (added.tool.source, added.tool.examples) == (SOURCES[2], ())


@pytest.mark.parametrize(
    ("calls", "reason"),
    [
        ([], "no call was given to try it with"),
        (["four"], "a call must be a JSON object with its input, not 'four'"),
        (['{"n": 4}', '{"n": 0}'], 'more({"n":0}) fails: ZeroDivisionError'),
    ],
)
async def test_a_tool_whose_calls_fail_twice_is_not_made(calls: list[str], reason: str) -> None:
    asked = decision("CREATE_TOOL", "more", description="Divides.", examples=[])
    code = ToolSource(source="def tool_function(n: int):\n    return 1 / n\n", calls=calls)
    found = await evolve(ScriptedModel(ToolDecision=asked, ToolSource=code))
    assert found.rewirings == ()
    assert found.declined[0].reason.startswith(f"'more': {reason}")


async def test_whoever_gets_a_tool_is_still_told_of_it_in_the_prompt() -> None:
    created = decision("CREATE_TOOL", "more", description="Adds two.")
    for asked in (created, decision("GRANT_TOOL", "other")):
        model = ScriptedModel(ToolDecision=asked, ToolSource=ToolSource(source=SOURCES[2]))
        found = await evolve(model)
        assert (len(found.rewirings), found.handled) == (1, ())


async def test_a_new_tool_takes_the_place_of_one_that_nobody_holds_where_the_team_is_full() -> None:
    asked, full = decision("CREATE_TOOL", "more", description="Adds two."), HivaConfig(own_tools=2)
    model = ScriptedModel(ToolDecision=asked, ToolSource=ToolSource(source=SOURCES[2]))
    [rewiring] = (await evolve(model, config=full)).rewirings
    assert rewiring.edits[0] == RemoveTool("other")
    assert [tool.name for tool in TEAM.apply(rewiring).tools] == ["add", "more"]
    held = TEAM.apply(Rewiring(Grant("s", "other"), why="seed"))
    refused = await evolve(ScriptedModel(ToolDecision=asked), team=held, config=full)
    assert "CREATE_TOOL is not offered" in refused.declined[0].reason


async def test_a_tool_of_the_team_is_granted() -> None:
    found = await evolve(ScriptedModel(ToolDecision=decision("GRANT_TOOL", "other")))
    assert [one.edits for one in found.rewirings] == [(Grant("a", "other"),)]


async def test_agents_that_want_the_same_tool_mended_share_one_piece_of_code() -> None:
    team = TEAM.apply(Rewiring(Grant("s", "add"), why="seed"))
    model = ScriptedModel(ToolDecision=decision(), ToolSource=ToolSource(source=SOURCES[2]))
    found = await evolve(model, FAULT, gradient("s", tool="add is off.", concerns="both"), team=team)
    [rewiring] = found.rewirings
    assert (rewiring.by, found.handled) == ("a, s", ("a", "s"))
    assert model.names() == ["ToolDecision", "ToolDecision", "ToolSource"]
    assert "add is one too low." in model.shown("ToolSource")[0]
    assert "add is off." in model.shown("ToolSource")[0]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (decision(tool="other"), "'other' is none of add"),
        (decision("GRANT_TOOL", "add"), "'add' is none of other"),
        (decision("CREATE_TOOL", description=" "), "the new tool has no description"),
        (ReplyError("bad reply"), "bad reply"),
        (ModelError("down"), "down"),
    ],
)
async def test_decisions_that_fit_nothing_are_declined(answer: Any, reason: str) -> None:
    found = await evolve(ScriptedModel(ToolDecision=answer))
    assert (found.rewirings, [one.reason for one in found.declined]) == ((), [reason])


@pytest.mark.parametrize("off", ["tools", "semantic_evolution", "tool_evolution"])
async def test_tools_stay_as_they_are_without_tools_sev_or_their_own_switch(off: str) -> None:
    model = ScriptedModel()
    assert await evolve(model, config=HivaConfig(**{off: False})) == ToolsResult()
    assert await evolve(model, gradient("a", tool="x", concerns="topology")) == ToolsResult()
    assert await evolve(model, gradient("a", system_prompt="x", concerns="semantics")) == ToolsResult()
    assert not model.asked


async def test_without_a_sandbox_nothing_is_asked_and_the_reason_is_on_record() -> None:
    found = await evolve(ScriptedModel(), trial=NoSandbox())
    assert [one.reason for one in found.declined] == ["no sandbox works here"]


async def test_a_sandbox_that_fails_in_a_trial_refuses_the_version_and_a_budget_stops() -> None:
    class Failing(Trial):
        async def run(self, *_: Any, **__: Any) -> ToolOutcome:
            raise ToolError("could not be run in 3 tries")

    model = ScriptedModel(ToolDecision=decision(), ToolSource=ToolSource(source=SOURCES[2]))
    found = await evolve(model, trial=Failing())
    assert "could not be run in 3 tries" in found.declined[0].reason
    with pytest.raises(BudgetError):
        await evolve(ScriptedModel(ToolDecision=BudgetError("spent")))


def test_d31_only_calls_whose_result_the_environment_states_become_examples() -> None:
    calls = [
        KnownCall(arguments=arguments, result=result)
        for arguments, result in (
            ('{"n": 1}', " 3 "),
            ('{"n": 2}', "4"),  # not stated
            ('{"n": 3}', "0.5"),  # a part of a number
            ('{"n": 4}', ""),
            ("[1]", "3"),
            ("no JSON", "3"),
            ('{"n": "\\ud83d"}', "3"),  # half a character, which no library could store
            ('{"n": 1e999}', "3"),
            ("[" * 9000, "3"),
            (json.dumps({"n": "x" * 5000}), "3"),
        )
    ]
    assert read_known_calls(calls, "It is 3, not 10.5 or 34.") == (ONE,)
    assert read_known_calls(calls, "") == ()
    other = ToolExample(arguments={"n": 1.0}, result="9")
    assert merge_examples([ONE], [other, ToolExample(arguments={"n": 2}, result="4")])[0] == ONE
    assert len(merge_examples([ONE], [ToolExample(arguments={"n": n}, result="4") for n in range(40)])) == 16


async def test_w_o_env_has_no_known_calls_and_hears_nothing_from_the_environment() -> None:
    model = ScriptedModel(ToolDecision=decision(), ToolSource=ToolSource(source=SOURCES[2], calls=['{"n": 1}']))
    [rewiring] = (await evolve(model, config=HivaConfig(environment=False))).rewirings
    assert rewiring.edits == (RewriteTool("add", SOURCES[2], examples=()),)
    assert not [text for _, text, *_ in model.asked if TOLD in text]
    await evolve(heard := ScriptedModel(ToolDecision=decision("NO_CHANGE")))
    assert [text for _, text, *_ in heard.asked if TOLD in text]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("3", "3 ", True),
        ("3", "3.0", True),
        ("0.1", "0.10000000000000001", True),
        ("3", "4", False),
        ("true", "1", False),
        ('{"a": 1}', '{"a":1}', True),
        ("a", "b", False),
    ],
)
def test_results_are_compared_as_text_or_json(one: str, other: str, same: bool) -> None:
    assert is_same_result(one, other) == same


async def test_routing_knows_what_the_tools_of_an_agent_are_for() -> None:
    tool = make_tool("money").replace(description="Converts an amount between currencies by exchange rates.")
    team = LINE.replace(tools=(tool,)).apply(Rewiring(Grant("a", "money"), why="seed"))
    concepts = TaskConcepts(main="exchange rate", tools=("money",))
    match = await match_task(concepts, team, HashingEmbedder())
    without = await match_task(concepts, LINE, HashingEmbedder())
    assert (match.of("a")[3], match.of("s")[3]) == (0.0, 1.0)
    assert match.of("a")[0] < without.of("a")[0]
    assert match.of("s")[:3] == without.of("s")[:3]
    assert match.matches["a"] > without.matches["a"]
