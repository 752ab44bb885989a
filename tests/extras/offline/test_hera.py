"""The stand-in as orchestrator: it sees what prompts show, follows advice by its words, and solves nothing."""

from collections.abc import Callable

import pytest

from selfwire.evolvers.hera import schemas
from selfwire.evolvers.trajectory_text import render_agents
from selfwire.extras.offline.hera import LEAVE, TAKE, TWICE, WORDINGS, Advice, advice
from tests.evolvers.hera.doubles import pool
from tests.extras.offline.replies import replied

BRIDGE = "In which city was the founder of Acme Works born?"
POOL = render_agents(pool().agents)


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        (BRIDGE, "bridge"),
        ("Which was founded earlier, Acme Works or Bolt Mills?", "comparison"),
        ("Who worked at both Acme Works and Bolt Mills?", "intersection"),
        ("Who founded Acme Works?", "other"),
    ],
)
def test_a_type_follows_from_the_form_of_a_question(task: str, kind: str) -> None:
    assert replied(schemas.QueryProfile, task=task).query_type == kind


def plans(insights: str = "", times: int = 60) -> list[list[str]]:
    found = [
        replied(schemas.TopologyPlan, seed=seed, task=BRIDGE, agents=POOL, insights=insights) for seed in range(times)
    ]
    return [[step.agent for step in plan.execution_order] for plan in found]


def share(found: list[list[str]], holds: Callable[[list[str]], bool]) -> float:
    return sum(map(holds, found)) / len(found)


def test_plans_vary_and_end_with_somebody_who_answers() -> None:
    found = plans()
    assert len({tuple(plan) for plan in found}) > 10
    assert {plan[-1] for plan in found} == {"answer_generator", "conclude_agent"}
    assert 0.6 < share(found, lambda plan: "query_decomposer" in plan) < 1


@pytest.mark.parametrize(
    ("kind", "agent", "holds"),
    [
        (TAKE, "calculator", lambda plan: "calculator" in plan),
        (LEAVE, "retriever", lambda plan: "retriever" not in plan),
        (TWICE, "retriever", lambda plan: plan.count("retriever") == 2),
    ],
)
def test_advice_is_followed_more_often_than_not(kind: str, agent: str, holds: Callable[[list[str]], bool]) -> None:
    for wording in WORDINGS[kind]:
        text = f"- (bridge, utility 0.50) {wording.format(agent)}"
        assert advice(text, [agent]) == [Advice(kind, agent)]
        assert share(plans(text), holds) > share(plans(), holds) + 0.3


GROUP = """trajectory 1: score 1.00, 50 tokens
topology: query_decomposer; retriever reads query_decomposer; retriever-2 (agent retriever) reads retriever
[retriever] found
final answer: x

trajectory 2: score 0.00, 40 tokens
topology: query_decomposer; reflect_agent reads query_decomposer
final answer: y"""


def test_a_comparison_names_what_tells_good_runs_from_bad_ones() -> None:
    found = replied(schemas.Reflection, task=BRIDGE, profile="bridge question, hard. x", group=GROUP)
    told = {one for insight in found.insights for one in advice(insight.insight, ["retriever", "reflect_agent"])}
    assert told <= {Advice(LEAVE, "reflect_agent"), Advice(TAKE, "retriever"), Advice(TWICE, "retriever")}
    assert len(told) == 2
    assert {insight.query_type for insight in found.insights} == {"bridge"}
    same = GROUP.replace("score 1.00", "score 0.00")
    assert replied(schemas.Reflection, task=BRIDGE, profile="bridge question", group=same).insights == []


@pytest.mark.parametrize(
    ("entry", "new", "operation"),
    [
        ("Let the retriever take part.", "Leave the retriever out.", "PRUNE"),
        ("Let the retriever take part.", "The retriever should take part in such a team.", "KEEP"),
        ("Let the retriever take part.", "Call the retriever twice.", "MERGE"),
        ("Let the calculator take part.", "Call the retriever twice.", "ADD"),
    ],
)
def test_the_library_is_kept_by_what_insights_say_of_the_same_agent(entry: str, new: str, operation: str) -> None:
    library = f"[a1] (bridge, utility 0.50 over 0 uses) {entry}"
    [found] = replied(schemas.LibraryOperations, library=library, new=f"- (bridge) {new}").operations
    assert (found.operation, found.new_insight) == (operation, new)
    assert found.target_entry_ids == (["a1"] if operation in ("PRUNE", "MERGE") else [])
    [other] = replied(schemas.LibraryOperations, library=library, new=f"- (causal) {new}").operations
    assert other.operation == "ADD"


def test_blame_goes_to_whoever_is_there_for_the_step_that_does_not_show() -> None:
    nothing = "[query_decomposer] nothing"
    found = replied(schemas.FailedAgent, task=BRIDGE, agents=POOL, trace=nothing, feedback="score 0.00")
    assert found.agent == "query_decomposer"
    later = "[query_decomposer] - Part 1: Who founded Acme Works?\n- Part 2: In which city was [1] born?"
    assert replied(schemas.FailedAgent, task=BRIDGE, agents=POOL, trace=later).agent == "retriever"


def test_a_newcomer_gets_tools_by_their_names_out_of_what_is_said_of_them() -> None:
    offered = "search: Search the corpus.\ncalculator: Compute a number."
    found = replied(schemas.Mutation, task=BRIDGE, agents=POOL, agent="retriever: searches", tools=offered)
    assert found.tools == ["search"]


VARIANTS = """original prompt: score 0.00: wrong (9 tokens)
original prompt, repeated: score {control}: said (9 tokens)

variant efficiency
adds: Be brief.
score 1.00: right (5 tokens)

variant thoroughness
adds: Leave nothing out.
score 0.00: wrong (9 tokens)"""


def test_a_contrast_learns_from_variants_that_beat_the_original_and_its_repetition() -> None:
    found = replied(schemas.Contrast, variants=VARIANTS.format(control="0.00"))
    assert [rule.rule for rule in found.operational_rules] == ["Be brief."]
    assert replied(schemas.Contrast, variants=VARIANTS.format(control="1.00")).operational_rules == []


def test_a_diff_adds_what_the_prompt_does_not_say_yet() -> None:
    proposed = "rule: Split the question into two simpler ones.\nrule: Compare the two values.\nprinciple: Be sure."
    found = replied(schemas.PromptDiff, prompt="Decompose the question.", proposed=proposed)
    assert (found.added_rules, found.added_principles) == (["Compare the two values."], ["Be sure."])
