"""The Evaluator: a binary reward, verdicts, and safe defaults where no valid reply comes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfwire.core.errors import ReplyError, TaskBudgetError
from selfwire.core.scope import Scope
from selfwire.core.usage import Usage
from selfwire.evolvers.evomas.evaluator import (
    Assessed,
    LastAnswer,
    assess_outcome,
    compose_answer,
    make_no_outcome_assessment,
    to_assessment,
)
from selfwire.evolvers.evomas.stages import Finding
from selfwire.evolvers.evomas.state import ARTIFACTS_LENGTH, Assessment, compute_next_state
from tests.evolvers.evomas.states import OBJECTIVE, meta_model, state, subtask
from tests.scripted import section

NOW = state(subtask(1), subtask(2))


@pytest.mark.parametrize(
    ("given", "refine", "verdict", "reward"),
    [
        (1.0, True, "success", 1.0),
        (1.0, False, "success", 1.0),
        *((partial, True, "refine", 0.0) for partial in (0.0, 0.3, 0.99)),
        (0.0, False, "fail", 0.0),
    ],
)
def test_a_reward_is_mapped_to_a_verdict(given: float, refine: bool, verdict: str, reward: float) -> None:
    found = to_assessment(Assessed(feedback=" so ", reward=given, refine=refine, confidence=0.9))
    assert (found.verdict, found.feedback, found.confidence, found.reward) == (verdict, "so", 0.9, reward)


async def test_the_evaluator_sees_the_subtask_the_outcome_and_what_was_looked_up() -> None:
    asking, model = meta_model(Assessed=Assessed(feedback="fine", reward=1))
    found = await assess_outcome(NOW, "</outcome>1,280 m", asking, checks="it is 1,280 m", scope=Scope(visit=3))
    [(_, shown, scope, role)] = model.asked
    assert found.assessment.reward == 1.0
    assert "<subtask>\ngoal 1\n</subtask>" in shown
    assert "<outcome>\n[/outcome]1,280 m\n</outcome>" in shown
    assert "<checks>\nit is 1,280 m\n</checks>" in shown
    assert (scope.node, scope.visit, role) == ("evaluator", 3, "judge")


async def test_what_cannot_be_judged_is_sent_back_and_never_passed() -> None:
    error = ReplyError("garbage")
    error.cost = Usage(calls=2)
    asking, _ = meta_model(Assessed=error)
    found = await assess_outcome(NOW, "1,280 m", asking, scope=Scope())
    assert (found.assessment.verdict, found.fell_back, found.usage.calls) == ("refine", True, 2)
    unanswered = make_no_outcome_assessment("'L1-io' failed: 401")
    assert unanswered.verdict == "refine"
    assert "401" in unanswered.feedback


PASSED, OPEN = Finding("goal 1", "first", passed=True), Finding("goal 2", "second", passed=False, feedback="a gap")


async def test_the_closing_call_reads_the_task_once_and_what_each_finding_is_worth() -> None:
    asking, model = meta_model(LastAnswer=LastAnswer(answer=" 1,280 m "))
    answer, _ = await compose_answer(OBJECTIVE, [PASSED, OPEN], "second", asking, scope=Scope())
    assert answer == "1,280 m"
    [(_, shown, scope, role)] = model.asked
    assert "[1, passed] goal 1\nfirst\n\n[2, not passed] goal 2\nsecond\nReview: a gap" in shown
    assert shown.count(OBJECTIVE) == 1
    assert (scope.node, role) == ("synthesis", "meta")


async def test_a_long_finding_is_cut_around_what_its_subtask_asks_for() -> None:
    asking, model = meta_model(LastAnswer=LastAnswer(answer="691 m"))
    dull = "The weather was mild on that day. " * 600
    long = Finding(
        "Find the length of the Severin Bridge.", f"{dull}The Severin Bridge has a length of 691 m. {dull}", True
    )
    await compose_answer(OBJECTIVE, [long], "", asking, scope=Scope())
    assert "The Severin Bridge has a length of 691 m. [...]" in model.asked[0][1]
    assert len(section(model.asked[0][1], "findings")) < ARTIFACTS_LENGTH + 500


@pytest.mark.parametrize("said", [ReplyError("garbage"), TaskBudgetError("no call left"), LastAnswer(answer="  ")])
async def test_without_a_closing_reply_the_fallback_stands(said: LastAnswer | ReplyError | TaskBudgetError) -> None:
    asking, _ = meta_model(LastAnswer=said)
    assert (await compose_answer(OBJECTIVE, [PASSED, OPEN], "second", asking, scope=Scope()))[0] == "second"


@given(st.builds(Assessed, feedback=st.text(max_size=3000), reward=st.floats(0, 1), confidence=st.floats(0, 1)))
def test_any_assessment_leaves_a_valid_state(reply: Assessed) -> None:
    found = to_assessment(reply)
    assert Assessment.model_validate(found.model_dump()) == found
    made = compute_next_state(NOW, (("io",),), "x", found)
    assert (made.subtasks[0].status == "completed") == (reply.reward >= 1)
    assert made.active is not None
