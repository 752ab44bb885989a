"""The Planner's reply is untrusted: whatever it says leaves a valid task state, and no artifact is lost."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from selfwire.core.errors import ReplyError
from selfwire.core.scope import Scope
from selfwire.evolvers.evomas.planner import (
    Plan,
    PlannedSubtask,
    advance_plan,
    apply_plan,
    make_plan,
    plan_single_subtask,
)
from selfwire.evolvers.evomas.state import (
    GOAL_LENGTH,
    SUBTASKS,
    WHOLE_TASK,
    Assessment,
    Subtask,
    TaskState,
    compute_next_state,
    format_plan,
    format_state,
    to_rows,
)
from tests.evolvers.evomas.states import OBJECTIVE, meta_model, state, subtask

SEARCH, COMPARE = "Find both lengths.", "Say which is longer."


def reply(*items: tuple[str, str, str], active: str = "", **told: str) -> Plan:
    subtasks = [PlannedSubtask.model_validate({"id": i, "goal": g, "status": s}) for i, g, s in items]
    return Plan(subtasks=subtasks, active=active, **told)


def goals(made: TaskState) -> list[tuple[str, str, str]]:
    return [(one.id, one.goal, one.status) for one in made.subtasks]


def test_a_first_plan() -> None:
    made = apply_plan(state(), reply(("", SEARCH, "TODO"), ("", COMPARE, "TODO"), hint="two lengths"))
    assert goals(made) == [("s1", SEARCH, "pending"), ("s2", COMPARE, "pending")]
    assert (made.active, made.hint) == ("s1", "two lengths")


def test_a_goal_that_reads_like_an_id_is_only_a_goal() -> None:
    made = apply_plan(state(subtask(1)), reply(("", "s1", "TODO")))
    assert goals(made) == [("s2", "s1", "pending")]
    assert made.active == "s2"


def test_the_planner_chooses_what_is_active_by_id_or_goal() -> None:
    items = (("", SEARCH, "TODO"), ("", COMPARE, "TODO"))
    assert apply_plan(state(), reply(*items, active="s2")).active == "s2"
    assert apply_plan(state(), reply(*items, active=f"  {COMPARE.upper()} ")).active == "s2"
    assert apply_plan(state(), reply(*items, active="s9")).active == "s1"


def test_it_may_reword_reorder_add_and_drop_what_is_pending() -> None:
    had = state(subtask(1), subtask(2), subtask(3))
    made = apply_plan(had, reply(("s3", "goal 3", "TODO"), ("", "new", "TODO"), ("s1", "other words", "NEED-REFINE")))
    assert goals(made) == [("s3", "goal 3", "pending"), ("s4", "new", "pending"), ("s1", "other words", "pending")]
    assert made.active == "s1"  # it was active, and still is


def test_it_may_give_a_subtask_up() -> None:
    made = apply_plan(state(subtask(1), subtask(2)), reply(("s1", "goal 1", "FAILED"), ("s2", "goal 2", "TODO")))
    assert [one.status for one in made.subtasks] == ["failed", "pending"]
    assert made.active == "s2"


def test_d12_done_is_what_the_evaluator_has_passed_and_nothing_else() -> None:
    made = apply_plan(state(subtask(1)), reply(("s1", "goal 1", "DONE"), ("", "never run", "DONE")))
    assert goals(made) == [("s1", "goal 1", "pending")]


def test_what_is_completed_stays_with_its_artifact_even_where_the_planner_forgets_it() -> None:
    had = state(subtask(1, "completed", artifact="1,280 m"), subtask(2))
    for items in ([("s2", "goal 2", "TODO")], [("s1", "rewritten", "TODO"), ("s2", "goal 2", "TODO")]):
        assert apply_plan(had, reply(*items)).subtasks[0] == had.subtasks[0]


def test_what_has_failed_is_not_revived_but_replaced() -> None:
    had = state(subtask(1, "failed"), replan=True)
    made = apply_plan(had, reply(("s1", "goal 1", "TODO"), ("", "another way", "TODO")))
    assert goals(made) == [("s1", "goal 1", "failed"), ("s2", "another way", "pending")]
    assert (made.active, made.replan) == ("s2", False)
    stubborn = apply_plan(had, reply(("s1", "goal 1", "TODO")))
    assert (stubborn.current and stubborn.current.goal) == WHOLE_TASK


def test_an_id_that_the_history_tells_of_is_not_given_again() -> None:
    had = compute_next_state(state(subtask(1), subtask(2), active="s2"), [["io"]], "", Assessment(verdict="refine"))
    dropped = apply_plan(had, reply(("s1", "goal 1", "TODO")))
    assert [one.subtask for one in dropped.history] == ["s2"]
    assert goals(apply_plan(dropped, reply(("s1", "goal 1", "TODO"), ("", "new", "TODO"))))[-1][:2] == ("s3", "new")
    stubborn = apply_plan(state(subtask(1, "failed"), subtask(2)), reply(("s1", "goal 1", "TODO")))
    assert stubborn.active == "s3"  # the whole task, as s2 was dropped


def test_a_plan_may_end_early_once_something_is_completed() -> None:
    done = state(subtask(1, "completed"), subtask(2))
    assert apply_plan(done, reply(("s1", "goal 1", "DONE"))).active is None
    nothing = apply_plan(state(subtask(1)), reply(("s1", "goal 1", "FAILED")))
    assert (nothing.current and nothing.current.goal) == WHOLE_TASK


def test_a_blank_plan_changes_nothing() -> None:
    had = state(subtask(1), subtask(2), active="s2")
    assert apply_plan(had, Plan(subtasks=[])) == had
    assert apply_plan(had, reply(("", "  \n ", "TODO"))) == had
    assert goals(apply_plan(state(), Plan(subtasks=[]))) == [("s1", WHOLE_TASK, "pending")]


async def test_without_a_valid_reply_the_plan_goes_on() -> None:
    asking, _ = meta_model(Plan=ReplyError("no JSON"))
    given: dict[str, Any] = {"tools": "", "agents": "", "scope": Scope()}
    first = await make_plan(state(), "", asking, **given)
    assert (goals(first.state), first.fell_back) == ([("s1", WHOLE_TASK, "pending")], True)
    failed = await make_plan(state(subtask(1, "failed"), replan=True), "", asking, **given)
    assert goals(failed.state)[-1] == ("s2", WHOLE_TASK, "pending")
    later = await make_plan(state(subtask(1, "completed"), subtask(2)), "", asking, **given)
    assert later.state.active == "s2"


async def test_the_planner_is_shown_task_state_outcome_and_assessment() -> None:
    asking, model = meta_model(Plan=reply(("", SEARCH, "TODO")))
    now = state(
        subtask(1, "completed", artifact="<task>1,280 m</task>"),
        subtask(2, "failed"),
        assessment=Assessment(verdict="fail", feedback="a dead end"),
        replan=True,
    )
    await make_plan(now, "the outcome", asking, tools="search: finds", agents="io: knows", scope=Scope())
    [(_, shown, scope, role)] = model.asked
    for part in (OBJECTIVE, "[task]1,280 m[/task]", "the outcome", "a dead end", "plan another way", "search: finds"):
        assert part in shown
    assert (scope.node, role) == ("planner", "meta")


async def test_the_planner_reads_task_result_and_judgement_once() -> None:
    asking, model = meta_model(Plan=reply(("", SEARCH, "TODO")))
    again = state(
        subtask(1, "completed", artifact="1,280 m long"),
        subtask(2, refinements=1, trouble="the second length is missing"),
        assessment=Assessment(verdict="refine", feedback="the second length is missing"),
    )
    passed = again.replace(assessment=Assessment(verdict="success", feedback="it is there"))
    for now in (again, passed):
        await make_plan(now, "1,280 m long" if now == passed else "half", asking, tools="", agents="", scope=Scope())
    first, second = (shown for _, shown, _, _ in model.asked)
    assert "[s2] NEED-REFINE: goal 2 (tried once)" in first
    assert first.count("the second length is missing") == 1
    for shown in (first, second):
        assert (shown.count(OBJECTIVE), shown.count("1,280 m long")) == (1, 1)


def test_without_a_task_state_the_task_is_the_only_subtask() -> None:
    made = plan_single_subtask(state(subtask(1, "failed"), subtask(2, "completed"), replan=True))
    assert goals(made) == [("s1", WHOLE_TASK, "pending")]
    assert (made.completed, made.history) == ((), ())


texts = st.one_of(
    st.sampled_from(["", "s1", "s2", "s3", "goal 1", "goal 2", " ", "S1"]),
    st.text(max_size=30),
    st.text(min_size=490, max_size=520),
)
items = st.builds(
    PlannedSubtask, id=texts, goal=texts, status=st.sampled_from(["TODO", "DONE", "FAILED", "NEED-REFINE"])
)
replies = st.builds(Plan, subtasks=st.lists(items, max_size=20), active=texts, summary=texts, hint=texts)
subtasks = st.lists(st.sampled_from(["pending", "completed", "failed"]), max_size=SUBTASKS)


def built(statuses: list[Any]) -> TaskState:
    made = tuple(subtask(n, s, artifact="kept" if s == "completed" else "") for n, s in enumerate(statuses, 1))
    return state(*made, replan="failed" in statuses)


@given(subtasks, st.lists(replies, min_size=1, max_size=3))
def test_any_reply_leaves_a_valid_state(statuses: list[Any], said: list[Plan]) -> None:
    now = built(statuses)
    for one in said:
        before, now = now, apply_plan(now, one)
        assert TaskState.model_validate(now.model_dump(mode="json")) == now
        assert len(now.subtasks) <= SUBTASKS
        assert all(0 < len(part.goal) <= GOAL_LENGTH for part in now.subtasks)
        assert {part.id for part in now.completed} <= {part.id for part in before.completed}
        assert before.completed[-(SUBTASKS - 1) :] == now.completed[-(SUBTASKS - 1) :]
        assert (now.active is not None) or (now.completed and not now.pending)
        assert all(row.strip() for row in to_rows(now))
        for told in (format_state(now), format_plan(now)):
            assert OBJECTIVE not in told  # it stands beside them
            assert told.count("kept") == len(now.completed)


@given(subtasks, replies, st.sampled_from(["success", "fail", "refine"]))
def test_plan_and_update_alternate_without_a_dead_end(statuses: list[Any], said: Plan, verdict: Any) -> None:
    now = built(statuses)
    for _ in range(4):
        now = apply_plan(now, said)
        if now.active is None:
            assert now.completed
            return
        now = compute_next_state(now, (("io",),), "x", Assessment(verdict=verdict))
        assert now.is_over or now.pending or now.replan
    assert isinstance(advance_plan(now).subtasks[0], Subtask)
