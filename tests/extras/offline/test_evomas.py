"""Planner, evaluator, ensemble and synthesis of the stand-in: symptoms only, and errors at the stated rate."""

from typing import Any

from selfwire.evals.instructions import paraphrases
from selfwire.evolvers.evomas.evaluator import Assessed, LastAnswer
from selfwire.evolvers.evomas.planner import Plan
from selfwire.extras.offline.vocabulary import find_skills
from selfwire.nodes.ensemble import EnsembleChoice
from tests.extras.offline.replies import replied

COMPARISON = "Which was founded earlier, Brol Works or Tas Press?"
SPLIT, COMPARE = paraphrases()["split"][0], paraphrases()["compare"][0]
PARTS = "- Part 1: a\n- Part 2: b\nAnswer: unknown"
FACTS = "- Part 1: a\n- Part 2: b\n- Passage: x\n- Fact: a = 1990\n- Fact: b = 1980"


def test_a_first_plan_has_a_subtask_per_missing_step() -> None:
    made = replied(Plan, task=COMPARISON, state="(there is no plan yet)", assessment="(nothing yet)")
    assert [find_skills(one.goal)[:1] for one in made.subtasks] == [("split",), ("look up",), ("compare",)]
    assert all(one.status == "TODO" and not one.id for one in made.subtasks)
    simple = replied(Plan, task="Who founded Brol Works?", state="", assessment="")
    assert len(simple.subtasks) == 1


def test_a_plan_goes_on_as_it_is_until_a_subtask_has_failed() -> None:
    now = f"[s1] DONE: {SPLIT}\n[s2] NEED-REFINE: {COMPARE} (tried once: a gap)"
    made = replied(Plan, task=COMPARISON, state=now, outcome=FACTS, assessment="refine")
    assert [(one.id, one.goal, one.status) for one in made.subtasks] == [
        ("s1", SPLIT, "DONE"), ("s2", COMPARE, "NEED-REFINE"),
    ]  # fmt: skip
    failed = f"[s1] DONE: {SPLIT}\n[s2] FAILED: {COMPARE}"
    again = replied(Plan, task=COMPARISON, state=failed, outcome=FACTS, assessment="The subtask has failed for good")
    *_, new = again.subtasks
    assert (new.id, new.status) == ("", "TODO")
    assert "compare" in find_skills(new.goal)
    assert new.goal != COMPARE


def judged(subtask: str, outcome: str, *, state: str = "[s1] TODO: x\n[s2] TODO: y", seed: int = 0) -> Assessed:
    return replied(Assessed, seed=seed, task=COMPARISON, state=state, subtask=subtask, outcome=outcome)


def test_a_subtask_is_done_when_its_step_shows() -> None:
    assert judged(SPLIT, PARTS).reward == 1
    assert judged(SPLIT, "Answer: unknown").reward == 0
    assert judged(COMPARE, FACTS).reward == 0
    assert judged(COMPARE, f"{FACTS}\n- Conclusion: Tas Press").reward == 1


def test_the_last_subtask_needs_an_answer_too() -> None:
    assert judged(SPLIT, PARTS, state="[s1] TODO: x").reward == 0


def test_an_evaluator_is_no_oracle() -> None:
    right, wrong = (judged(COMPARE, f"{FACTS}\n- Conclusion: {name}\nAnswer: {name}") for name in ("Tas Press", "Brol"))
    assert right == wrong


def test_an_evaluator_errs_at_half_the_error_rate() -> None:
    shown: dict[str, Any] = {"task": COMPARISON, "state": "", "subtask": SPLIT, "outcome": f"{PARTS}\nAnswer: a"}
    wrong = sum(replied(Assessed, seed=seed, error_rate=0.4, **shown).reward == 0 for seed in range(300))
    assert 30 < wrong < 90


def test_an_ensemble_takes_what_most_say_and_no_open_answer() -> None:
    solutions = "A.\nAnswer: unknown\n\nB.\n- x\nAnswer: Tas\n\nC.\nAnswer: unknown\n\nD.\nAnswer: Tas"
    assert replied(EnsembleChoice, task=COMPARISON, solutions=solutions).solution_letter == "B"
    assert replied(EnsembleChoice, task=COMPARISON, solutions="A.\nAnswer: unknown\n\nB.\nx").solution_letter == "A"


def test_a_synthesis_is_the_answer_of_the_last_finding_that_is_not_open() -> None:
    passed = "[1, passed] a\n- x\nAnswer: Tas\n\n[2, not passed] b\n- y\nAnswer: Brol\nReview: no\n\n[3, passed] b"
    open_ = "\nAnswer: unknown"
    tried = passed.replace("[1, passed]", "[1, not passed]")
    for findings, told in (
        (passed + open_, "Answer: Tas"),
        (tried + open_, "Answer: Brol"),
        ("[1, passed]\nmove: from [I1]", "move: from [I1]"),
        ("[1, passed]" + open_, "Answer: unknown"),
    ):
        assert replied(LastAnswer, task=COMPARISON, findings=findings).answer == told
