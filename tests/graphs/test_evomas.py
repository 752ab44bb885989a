"""EvoMAS end to end: the machine with scripted models, what is run of what was drawn, and how a run ends."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field

from selfwire.core.agent import COMPUTING_TOOLS
from selfwire.core.errors import ConfigError
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Step, ToolUse
from selfwire.core.values import FrozenMap
from selfwire.evolvers.evomas.config import EvomasConfig
from selfwire.evolvers.evomas.evaluator import MOST_USES, NOT_JUDGED, RESULTS_LENGTH, format_tool_results
from selfwire.evolvers.evomas.layers import find_sources
from selfwire.evolvers.evomas.stages import Stage
from selfwire.evolvers.evomas.state import WHOLE_TASK, TaskState
from selfwire.graphs import evomas
from tests.graphs.scripted import FORMS, TurnsChat, on, run
from tests.graphs.test_evomas_wire import IO, MEMBER, SEARCH
from tests.request_parts import read_instructions
from tests.scripted import section

ASKED = {"question": "Which bridge is longer?"}


def item(goal: str, id: str = "", status: str = "TODO") -> dict[str, str]:
    return {"id": id, "goal": goal, "status": status}


def planning(*items: dict[str, str], **told: str) -> dict[str, Any]:
    return {"subtasks": list(items), "active": "", "summary": "", "hint": "", **told}


TWO = planning(item("Find the lengths."), item("Compare them."))
SAME = planning(item("", "s1"), item("", "s2"), item("", "s3"))
GOOD = {"feedback": "it is there", "reward": 1, "refine": False, "confidence": 0.9}
HALF = {"feedback": "one is missing", "reward": 0, "refine": True, "confidence": 0.6}
SCRIPT: dict[str, dict[str, Any]] = {
    "Plan": SAME,
    "Assessed": GOOD,
    "Choice": {"thought": "they agree", "solution_letter": "B"},
    "LastAnswer": {"answer": "put together"},
}


@tool
def look(query: str) -> str:
    """Search for a query."""
    return f"[1] Bridges of {query}\nIt is long. See https://bridges.example/a?b=1."


class Script(TurnsChat):
    """Follows a script in which a list is a reply per call, then what the script says."""

    sent: list[tuple[str, str]] = Field(default_factory=list)
    """Instructions of every call, and all that it was told."""

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        told = "\n".join(message.text for message in messages[1:])
        self.sent.append((read_instructions(messages[0].text, told), told))
        return super()._generate(messages, *args, **kwargs)

    def shown(self, beginning: str) -> list[str]:
        return [told for instructions, told in self.sent if instructions.startswith(beginning)]


def scripted(*assessed: Any, plans: Sequence[Any] = (TWO, SAME), **options: Any) -> Script:
    return Script(script=SCRIPT, turns={"Plan": list(plans), "Assessed": [*assessed, GOOD]}, **options)


def config(*layers: Sequence[str], **fields: Any) -> EvomasConfig:
    plan = [list(layer) for layer in layers] or [["io"], ["multi_generate"]]
    return EvomasConfig.model_validate({"adapter": "fixed", "plan": plan, **fields})


def built(model: Any, *layers: Sequence[str], tools: Sequence[Any] = (), **fields: Any) -> Any:
    return evomas.build(model, tools=tools, config=config(*layers, **fields), embedder="hashing").compile()


def stages(result: Mapping[str, Any]) -> list[Stage]:
    return [Stage.model_validate(one) for one in result["stages"]]


def nodes(result: Mapping[str, Any]) -> list[tuple[int, str]]:
    return [(step.get("visit", 0), step["node"]) for step in result["steps"]]


@FORMS
async def test_a_stage_per_subtask_and_the_answer_of_the_last_one(form: str) -> None:
    result = await run(form, built(scripted()), ASKED)
    first, second = stages(result)
    assert (first.goal, second.goal) == ("Find the lengths.", "Compare them.")
    assert nodes(result) == [(0, "L1-io"), (0, "L2-multi_generate"), (1, "L1-io"), (1, "L2-multi_generate")]
    assert (result["answer"], result["error"], result["status"]) == ("put together", None, "done")
    assert result["usage"]["calls"] == first.usage.calls + second.usage.calls + 1 == 9
    assert second.state is not None
    assert [one.artifact for one in second.state.completed] == ["answer 2", "answer 4"]


def test_the_router_sees_the_state_that_the_updater_left() -> None:
    _, second = stages(built(scripted(HALF)).invoke(ASKED))[:2]
    assert second.rows[:2] == ("Active subtask: Find the lengths.", "Refinement: try 2; one is missing")
    assert "Last verdict: refine, confidence 0.6: one is missing" in second.rows
    assert "History: s1: io > multi_generate: refine" in second.rows


def test_d13_two_refinements_then_failed_then_another_plan() -> None:
    other = planning(item("", "s1"), item("", "s2"), item("Ask the engineers."), active="Ask the engineers.")
    model = scripted(HALF, HALF, HALF, plans=(TWO, SAME, SAME, other, SAME))
    result = built(model).invoke(ASKED)
    goals = [one.goal for one in stages(result)]
    assert goals == ["Find the lengths."] * 3 + ["Ask the engineers.", "Compare them."]
    assert "plan another way" in model.shown("You plan")[3]
    assert [one.outcome for one in stages(result)][-2:] == ["answer 8", "answer 10"]
    assert result["status"] == "done"


def test_a_dead_end_is_replaced_at_once() -> None:
    other, dead = planning(item("", "s1"), item("Ask the engineers.")), {**HALF, "refine": False}
    result = built(scripted(dead, plans=(planning(item("Find the lengths.")), other, SAME))).invoke(ASKED)
    assert [one.goal for one in stages(result)] == ["Find the lengths.", "Ask the engineers."]


@pytest.mark.parametrize(
    ("assessed", "layers", "stages", "asked"),
    [
        ([GOOD, {**GOOD, "answer": " Severin "}], [["io"]], 3, [False, True]),
        ([{**HALF, "answer": "no"}, {**HALF, "answer": "Severin"}], [["io"]], 2, [False, True]),
        ([GOOD, {**HALF, "answer": "Severin"}], [["io", "early_exit"]], 3, [False, True]),
    ],
)
def test_d15_the_judgement_with_which_a_run_ends_holds_the_answer(
    assessed: list[dict[str, Any]], layers: list[list[str]], stages: int, asked: list[bool]
) -> None:
    three = planning(item("one"), item("two"), item("three")) if "early_exit" in layers[0] else TWO
    model = scripted(*assessed, plans=(three, SAME))
    result = built(model, *layers, stages=stages).invoke(ASKED)
    assert (result["answer"], model.objects.count("LastAnswer")) == ("Severin", 0)
    assert ["answer to the whole task" in told for told in model.shown("You review")] == asked


@pytest.mark.parametrize("begun", [False, True])
def test_a_run_that_is_stopped_gives_the_answer_that_its_evaluator_has_written(begun: bool) -> None:
    model = scripted(*({**HALF, "answer": found} for found in ("no", "Severin")), plans=(TWO, SAME))
    result = built(model, stages=2).invoke(ASKED)
    last = Stage.model_validate(result["stages"][-1])
    present = last.replace(number=2, outcome=None, answer="") if begun else last
    before = result["stages"] if begun else result["stages"][:-1]
    task = TaskState(objective=ASKED["question"])
    pool = evomas.Evomas().seed()
    given = {"scope": Scope(run="r"), "pool": pool, "router": "r", "task": task, "stage": present, "stages": before}
    state = evomas.EvomasState(evomas.EvomasState.update(**ASKED, **given))
    stopped = evomas.build_partial_result(state, Question(id="q", input=ASKED["question"]))
    assert stopped is not None
    assert stopped.answer == "Severin"


def test_d15_an_evaluator_that_has_not_read_all_tries_does_not_write_the_answer() -> None:
    model = scripted(*({**HALF, "answer": found} for found in ("one", "two", "unknown")), plans=(TWO, SAME))
    result = built(model, stages=3).invoke(ASKED)
    assert (result["answer"], model.objects.count("LastAnswer")) == ("put together", 1)
    [shown] = model.shown("You write the final answer")
    assert all(f"answer {number}" in shown for number in (2, 4, 6))


def test_d15_without_an_answer_in_the_last_judgement_a_closing_call_writes_it() -> None:
    answer = {"answer": "Severin"}
    long = "[io]\nI know that the Severin Bridge is longer, as it has 691 m."
    for assessed, plans, told in (
        ([GOOD, GOOD], (TWO, SAME), ["[1, passed] Find the lengths.\nanswer 2", "[2, passed] Compare them.\nanswer 4"]),
        (
            [GOOD, HALF, HALF],
            (TWO, SAME),
            ["[1, passed] Find the lengths.\nanswer 2", "[3, not passed] Compare them.\n"],
        ),
        ([HALF] * 3, (TWO, SAME), [f"[{n}, not passed] Find the lengths.\nanswer {2 * n}" for n in (1, 2, 3)]),
    ):
        model = Script(script={**SCRIPT, "LastAnswer": answer}, turns={"Plan": [*plans], "Assessed": [*assessed]})
        result = built(model, stages=3).invoke({"question": f"{ASKED['question']} Answer with one word.\n{long}"})
        assert (result["answer"], model.objects.count("LastAnswer")) == ("Severin", 1)
        [shown] = model.shown("You write the final answer")
        assert all(part in shown for part in told)
        assert "Answer with one word." in shown


def test_d11_early_exit_is_masked_until_a_subtask_is_done_and_then_ends_the_run() -> None:
    three = planning(item("one"), item("two"), item("three"))
    result = built(scripted(plans=(three, SAME)), ["io"], ["early_exit", "multi_generate"], ["ensemble"]).invoke(ASKED)
    first, second = stages(result)
    assert first.layered is not None
    assert "early_exit" in first.layered.masked
    assert first.layered.layers == (("io",), ("multi_generate",), ("ensemble",))
    assert second.exits
    assert [node for visit, node in nodes(result) if visit == 1] == ["L1-io", "L2-multi_generate"]  # its layer finishes
    assert (result["status"], result["answer"], second.outcome) == ("early_exit", "put together", "answer 4")
    assert second.state is not None
    assert [one.status for one in second.state.subtasks] == ["completed", "completed", "pending"]  # update has run


def test_d11_early_exit_ends_no_run_whose_only_subtask_is_sent_back() -> None:
    model = scripted(HALF, plans=(planning(item("Find the lengths.")), SAME))
    result = built(model, ["io"], ["early_exit"], ["multi_generate"]).invoke(ASKED)
    first, second = stages(result)
    assert nodes(result) == [(0, "L1-io"), (1, "L1-io")]
    assert first.exits
    assert (first.state is not None and first.state.completed, result["status"]) == ((), "early_exit")
    assert second.assessment is not None
    assert second.assessment.verdict == "success"


def test_early_exit_can_be_masked_always() -> None:
    result = built(scripted(), ["io"], ["early_exit", "multi_generate"], ["ensemble"], early_exit=False).invoke(ASKED)
    assert result["status"] == "done"
    assert [stage.exits for stage in stages(result)] == [False, False]


def test_d27_who_would_read_only_its_own_answer_hands_it_on_without_a_call() -> None:
    model = scripted(plans=(planning(item("Find the lengths.")),))
    result = built(model, ["io"], ["io", "multi_generate"], ["io"], ["io"], tools=[look]).invoke(ASKED)
    outputs = {step["node"]: step["output"] for step in result["steps"]}
    assert outputs == {
        "L1-io": "answer 1", "L2-io": "answer 1", "L2-multi_generate": "answer 2", "L3-io": "answer 3",
        "L4-io": "answer 3",
    }  # fmt: skip
    assert result["usage"]["calls"] == 6  # plan, three turns, judgement, closing call


def test_d27_who_can_look_things_up_goes_on_from_its_own_answer() -> None:
    model = scripted(plans=(planning(item("Find the lengths.")),))
    result = built(model, ["web_search"], ["web_search"], tools=[look]).invoke(ASKED)
    assert [step["output"] for step in result["steps"]] == ["answer 1", "answer 2"]


def test_d20_nobody_is_told_of_tools_that_are_not_there() -> None:
    model = scripted()
    result = built(model, ["self_refine", "io"], ["web_search"], ["web_browser", "ensemble"]).invoke(ASKED)
    first = stages(result)[0].layered
    assert first is not None
    assert (first.layers, first.masked_first) == ((("io",), ("ensemble",)), ("ensemble", "self_refine"))
    assert first.masked == ("early_exit", "web_browser", "web_search")
    assert "web_" not in model.shown("You plan")[0]
    assert {agent["agent"] for agent in result["steps"]} == {"io", "ensemble"}
    with pytest.raises(ConfigError, match="nobody to run at this stage: web_search hold no tool"):
        built(scripted(), ["web_search"]).invoke(ASKED)


def test_d17_early_exit_alone_runs_and_judges_nothing() -> None:
    model = scripted()
    result = built(model, ["early_exit"], ["io"]).invoke(ASKED)
    first, second = stages(result)
    assert (len(result["steps"]), model.objects.count("Assessed")) == (1, 1)
    assert (second.outcome, second.state) == (None, first.state.replace(hint="") if first.state else None)
    assert (result["status"], result["answer"]) == ("early_exit", "put together")
    assert f"[1, passed] Find the lengths.\n{first.outcome}" in model.shown("You write")[0]


def test_every_agent_of_a_layer_is_told_by_all_of_the_layer_before() -> None:
    result = built(scripted(), ["io", "multi_generate"], ["self_refine", "web_search"], tools=[look]).invoke(ASKED)
    told = {(step["node"], mail["source"]) for step in result["steps"] for mail in step.get("inbox", ())}
    for below in ("L2-self_refine", "L2-web_search"):
        assert {source for node, source in told if node == below} == {"L1-io", "L1-multi_generate"}


def test_several_answers_of_the_last_layer_are_one_outcome() -> None:
    first = stages(built(scripted(), ["io", "multi_generate"]).invoke(ASKED))[0]
    assert first.outcome is not None
    for part in ("[io]\nanswer ", "[multi_generate]\nanswer "):
        assert part in first.outcome


def test_agents_read_the_whole_state_and_know_their_subtask() -> None:
    model = scripted()
    built(model).invoke(ASKED)
    first, second = model.shown(IO)
    assert "Your part of the task now, and nothing else: Find the lengths." in first
    for part in ("From the work so far:", "[s1] DONE: Find the lengths.", "Result of [s1]:\nanswer 2"):
        assert part in second


def test_a_hint_is_the_planners_and_no_part_of_the_work_so_far() -> None:
    whole = planning(item("Find the lengths."), hint="Look at the map.")
    model = scripted(HALF, plans=(whole, {**SAME, "hint": "Look twice."}))
    built(model, stages=2).invoke(ASKED)
    first, again = model.shown(IO)
    assert "<messages>\nFrom the planner:\nLook at the map.\n</messages>" in first
    assert "sent back: one is missing\n\nFrom the planner:\nLook twice.\n" in again


def test_nothing_is_sent_twice() -> None:
    model = scripted(HALF, plans=(TWO, SAME, SAME))
    built(model, ["io", "multi_generate"], ["self_refine"], ["ensemble"]).invoke(ASKED)
    assert len(model.sent) == 16
    for _, told in model.sent:
        assert told.count(ASKED["question"]) == 1
        for answer in ("answer 1", "answer 2", "answer 3", "answer 6", "one is missing"):
            assert len(re.findall(rf"\b{answer}\b", told)) <= 1


def test_d18_without_a_task_state_nobody_plans_and_every_stage_begins_anew() -> None:
    model = scripted(HALF, HALF)
    result = built(model, task_state=False).invoke(ASKED)
    assert [one.rows for one in stages(result)] == [("Objective: Which bridge is longer?",)] * 3
    assert {told.partition("\n</task>")[0] for told in model.shown(IO)} == {"<task>\nWhich bridge is longer?"}
    assert not any("<messages>" in told for told in model.shown(IO))
    assert "Plan" not in model.objects
    assert result["status"] == "done"
    reviews = model.shown("You review")
    assert len(reviews) == 3
    assert not any("one is missing" in told for told in reviews)


def test_d20_self_refine_opens_a_stage_only_where_a_try_was_sent_back_and_ensemble_none() -> None:
    model = scripted(GOOD, HALF, GOOD, plans=(TWO, SAME))
    result = built(model, ["ensemble", "self_refine", "io"], stages=3).invoke(ASKED)
    ran = [[step["agent"] for step in result["steps"] if step.get("visit", 0) == visit] for visit in range(3)]
    assert ran == [["io"], ["io"], ["io", "self_refine"]]
    [refining] = model.shown(f"{MEMBER} Solutions of the current part are below")
    assert f"The last try at this part:\n{stages(result)[1].outcome}" in refining
    assert "sent back: one is missing" in refining


def test_an_agent_reads_its_own_answer_as_its_own() -> None:
    model = scripted(plans=(planning(item("Find the lengths.")), SAME))
    built(model, ["io", "multi_generate"], ["io"]).invoke(ASKED)
    _, again = model.shown(IO)
    assert "From yourself, a step earlier:\nanswer 1" in again
    assert "From multi_generate:\nanswer 2" in again
    assert "From io:" not in again


def test_the_ensemble_hands_the_chosen_solution_on() -> None:
    result = built(scripted(), ["io", "web_search"], ["ensemble"], tools=[look]).invoke(ASKED)
    first = {step["node"]: step for step in result["steps"] if not step.get("visit")}
    assert first["L2-ensemble"]["output"] == first["L1-web_search"]["output"]


@pytest.mark.parametrize("agent", ["io", "web_search"])
def test_d21_nothing_is_added_to_an_answer_that_no_tool_gave_a_source_for(agent: str) -> None:
    steps = built(scripted(), [agent], tools=[look]).invoke(ASKED)["steps"]
    assert steps[0]["output"] == "answer 1"


@pytest.mark.parametrize("tool", sorted(COMPUTING_TOOLS))
def test_d21_a_tool_that_computes_is_no_source(tool: str) -> None:
    found = [ToolUse(name=name, arguments=FrozenMap(), result="12") for name in (tool, "look")]
    assert find_sources(found) == ("look",)
    assert find_sources(found[:1]) == ()


def test_searching_works_over_a_tool_of_ones_own_and_names_its_sources() -> None:
    model = scripted(calls_tool=("look", {"query": "Rome"}))
    result = built(model, ["web_search"], ["web_browser"], tools=[look]).invoke(ASKED)
    for step in result["steps"]:
        assert step["output"].endswith("Sources: Bridges of Rome; https://bridges.example/a?b=1.")
        assert [use["name"] for use in step["tools"]] == ["look"]


async def test_a_corpus_is_searched_and_browsed_by_default(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"title": "Long Bridge", "text": "It is 1,280 m long."}\n')
    model = scripted(calls_tool=("browse", {"title": "Long Bridge"}))
    graph = evomas.build(model, corpus=corpus, config=config(["web_browser"]), embedder="hashing")
    result = await graph.compile().ainvoke(ASKED)
    assert model.heard[0] == "[1] Long Bridge\nIt is 1,280 m long."
    assert result["steps"][0]["output"].endswith("Sources: Long Bridge")
    held = {agent["id"]: agent["tools"] for agent in result["pool"]["agents"]}
    assert (held["web_search"], held["web_browser"], held["io"]) == (["search"], ["browse", "search"], [])


def test_an_agent_that_fails_is_left_out_and_the_stage_goes_on() -> None:
    model = scripted(failing={SEARCH: 99})
    result = built(model, ["io", "web_search"], ["multi_generate"], tools=[look]).invoke(ASKED)
    failed = [step for step in result["steps"] if step.get("error")]
    assert {step["agent"] for step in failed} == {"web_search"}
    assert result["status"] == "done"


def test_d14_where_all_agents_fail_the_stage_may_be_tried_again_unjudged_and_at_last_is_an_error() -> None:
    model = scripted(failing={SEARCH: 1})
    result = built(model, ["web_search"], tools=[look]).invoke(ASKED)
    first = stages(result)[0]
    assert first.outcome is None
    assert "the provider is down" in (first.error or "")
    assert first.assessment is not None
    assert (first.assessment.verdict, model.objects.count("Assessed")) == ("refine", 2)
    assert result["answer"] is not None
    result = built(scripted(failing={SEARCH: 99}), ["web_search"], tools=[look], stages=2).invoke(ASKED)
    assert result["answer"] is None
    assert "the provider is down" in result["error"]


def test_d14_replies_that_are_none_are_replaced_by_safe_defaults() -> None:
    model = Script(script={**SCRIPT, "Plan": {"no": 1}, "Assessed": {"no": 1}, "LastAnswer": {}, "Choice": {}})
    result = built(model, ["io", "multi_generate"], ["ensemble"], stages=2).invoke(ASKED)
    for one in stages(result):
        assert one.fell_back == ("planner", "evaluator")
        assert one.goal == WHOLE_TASK
        assert one.assessment is not None
        assert (one.assessment.verdict, one.assessment.feedback) == ("refine", NOT_JUDGED)
    assert result["answer"] == stages(result)[-1].outcome


def test_d16_the_evaluator_may_look_things_up_before_it_judges() -> None:
    model = scripted(calls_tool=("look", {"query": "Rome"}))
    built(model, tools=[look], verify=True).invoke(ASKED)
    assert len(model.shown("You check the result")) == 2 * 2  # a tool call and an answer, at two stages
    assert "From workflow:\nanswer" in model.shown("You check the result")[0]
    assert all("What was looked up to check it:\n<checks>\nanswer" in told for told in model.shown("You review"))


def test_the_evaluator_reads_what_tools_gave_in_the_stage_that_it_judges() -> None:
    model = scripted(calls_tool=("look", {"query": "Rome"}))
    built(model, ["web_search", "web_browser"], tools=[look]).invoke(ASKED)
    first, second = model.shown("You review")
    shown = "tool look(query: Rome) -> [1] Bridges of Rome\nIt is long. See https://bridges.example/a?b=1."
    for told in (first, second):
        assert section(told, "tool_results") == shown  # both agents asked the same
    bare = scripted()
    built(bare, ["io"]).invoke(ASKED)
    assert not any("tool_results" in told for told in bare.shown("You review"))
    plans = bare.shown("You plan the work")
    assert plans
    assert not any("<tools>" in told or "(none)" in told for told in plans)


def test_a_long_result_of_a_tool_is_cut_to_what_concerns_the_outcome() -> None:
    dull = "The weather was mild on that day. " * 600
    uses = [ToolUse(name="look", arguments={"query": word}, result=f"{dull}Span: 691 m. {dull}") for word in "abcde"]
    told = format_tool_results([Step(node="a", agent="a", output="", tools=uses)], "The span is 691 m.")
    assert told.count("Span: 691 m.") == 5
    assert len(told) < RESULTS_LENGTH + 300


def test_many_tool_uses_are_cut_to_the_last_ones() -> None:
    uses = [ToolUse(name="x" * 999, arguments={"query": f"{n} {'y' * 999}"}, result=f"No {n}.") for n in range(200)]
    told = format_tool_results([Step(node="a", agent="a", output="", tools=uses)], "")
    assert len(told) < RESULTS_LENGTH + MOST_USES * 500
    assert told.startswith(f"(earlier uses that are left out: {200 - MOST_USES})\ntool xx")
    assert [f"No {n}." in told for n in (199 - MOST_USES, 200 - MOST_USES, 199)] == [False, True, True]
    assert "left out" not in format_tool_results([Step(node="a", agent="a", output="", tools=uses[-MOST_USES:])], "")


def test_the_number_of_stages_can_be_chosen_per_run() -> None:
    assert len(stages(built(scripted(*[HALF] * 9)).invoke(ASKED, context={"stages": 2}))) == 2


def test_a_new_question_of_a_thread_begins_anew() -> None:
    graph = evomas.build(scripted(plans=(TWO, SAME, TWO, SAME)), config=config()).compile(checkpointer=InMemorySaver())
    graph.invoke(ASKED, on("1"))
    second = graph.invoke({"question": "And the next one?"}, on("1"))
    assert len(second["stages"]) == 2
    assert second["usage"]["calls"] == 9
    assert "And the next one?" in second["stages"][0]["rows"][1]


def test_inner_steps_are_streamed() -> None:
    graph = built(scripted())
    seen = [(path, set(update)) for path, update in graph.stream(ASKED, stream_mode="updates", subgraphs=True)]
    inner = [name for path, names in seen if path for name in names]
    assert inner == ["task_state", "L1-io", "L2-multi_generate", "outcome"] * 2
    outer = [name for path, names in seen if not path for name in names]
    assert outer == ["begin", *["plan", "adapt", "layers", "evaluate", "update_state"] * 2, "conclude"]


def test_what_may_be_drawn_is_drawn() -> None:
    drawn = evomas.build("offline", config=EvomasConfig(pool=4)).compile().get_graph(xray=True)
    inner = {node.removeprefix("layers:") for node in drawn.nodes if node.startswith("layers:")}
    agents = {f"L{layer}-{agent}" for layer in (1, 2, 3) for agent in ("io", "web_search", "ensemble")}
    assert inner == agents | {"task_state", "outcome"}
    edges = {(edge.source, edge.target) for edge in drawn.edges}
    assert ("layers:L1-io", "layers:L2-ensemble") in edges
    assert ("layers:L1-io", "layers:L3-ensemble") not in edges
    assert {("adapt", "evaluate"), ("update_state", "plan"), ("update_state", "conclude")} <= edges


def test_a_plan_with_agents_that_are_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="the plan names dreamer; the pool has early_exit, ensemble, io"):
        built(scripted(), ["dreamer"]).invoke(ASKED)
