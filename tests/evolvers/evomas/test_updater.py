"""The Updater by table: what every verdict does to the active subtask, and to what is active next."""

import pytest

from selfwire.evolvers.evomas.planner import Plan, PlannedSubtask, apply_plan
from selfwire.evolvers.evomas.state import ARTIFACT_LENGTH, HISTORY, Assessment, TaskState, Verdict, compute_next_state
from tests.evolvers.evomas.states import state, subtask

LAYERS = (("io", "web_search"), ("ensemble",))


def after(verdict: Verdict, before: TaskState, *, refinements: int = 2) -> TaskState:
    told = Assessment(verdict=verdict, confidence=0.7, feedback="the second length is missing")
    return compute_next_state(before, LAYERS, "1,280 m", told, refinements=refinements)


@pytest.mark.parametrize(
    ("verdict", "refinements", "limit", "status", "counted", "replan"),
    [
        ("success", 0, 2, "completed", 0, False),  # DONE
        ("success", 2, 2, "completed", 2, False),
        ("refine", 0, 2, "pending", 1, False),  # NEED-REFINE
        ("refine", 1, 2, "pending", 2, False),
        ("refine", 2, 2, "failed", 2, True),  # two refinements, then failed
        ("refine", 0, 0, "failed", 0, True),
        ("fail", 0, 2, "failed", 0, True),  # FAILED
        ("fail", 2, 2, "failed", 2, True),
    ],
)
def test_status_transitions(
    verdict: Verdict, refinements: int, limit: int, status: str, counted: int, replan: bool
) -> None:
    made = after(verdict, state(subtask(1, refinements=refinements), subtask(2)), refinements=limit)
    first, second = made.subtasks
    assert (first.status, first.refinements, made.replan) == (status, counted, replan)
    assert made.active == ("s1" if status == "pending" else "s2")
    assert second == subtask(2)
    assert made.assessment is not None
    assert made.assessment.verdict == verdict


@pytest.mark.parametrize(
    ("verdict", "kept"),
    [
        ("success", ("", "1,280 m", "")),
        ("refine", ("the second length is missing", "", "1,280 m")),
        ("fail", ("the second length is missing", "", "")),
    ],
)
def test_a_success_keeps_the_artifact_what_fails_keeps_why_and_what_is_sent_back_the_attempt_too(
    verdict: Verdict, kept: tuple[str, str, str]
) -> None:
    before = state(subtask(1, refinements=1, trouble="incomplete", attempt="691 m"), subtask(2))
    first = after(verdict, before).subtasks[0]
    assert (first.trouble, first.artifact, first.attempt) == kept


@pytest.mark.parametrize(("verdict", "over"), [("success", True), ("fail", False)])
def test_the_last_success_ends_the_plan_but_something_has_to_take_the_place_of_a_failure(
    verdict: Verdict, over: bool
) -> None:
    made = after(verdict, state(subtask(1, "completed"), subtask(2)))
    assert (made.active, made.is_over, made.replan) == (None, over, not over)


def test_d25_stages_are_remembered_up_to_a_limit() -> None:
    now = state(subtask(1))
    for _ in range(HISTORY + 3):
        now = compute_next_state(now, LAYERS, None, Assessment(verdict="refine"), refinements=100)
    assert len(now.history) == HISTORY
    assert str(now.history[-1]) == "s1: io+web_search > ensemble: refine"


def test_d24_the_hint_is_for_one_stage_and_the_planner_writes_the_next() -> None:
    hinted = state(subtask(1), subtask(2)).replace(hint="two lengths")
    assert after("success", hinted).hint == ""
    planned = apply_plan(hinted, Plan(subtasks=[PlannedSubtask(id="s2", goal="")], hint="the second length"))
    assert planned.hint == "the second length"


def test_without_an_active_subtask_nothing_changes() -> None:
    before = state(subtask(1, "completed"))
    assert after("success", before) == before


def test_d25_it_is_deterministic_and_bounds_what_it_keeps() -> None:
    before, told = state(subtask(1)), Assessment(verdict="success")
    long = "x" * (ARTIFACT_LENGTH + 100)
    assert compute_next_state(before, LAYERS, long, told) == compute_next_state(before, LAYERS, long, told)
    assert len(compute_next_state(before, LAYERS, long, told).subtasks[0].artifact) <= ARTIFACT_LENGTH
