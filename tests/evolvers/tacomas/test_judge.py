"""Scores without labels: the checklist, its confirmation, and contributions with the evidence precheck."""

import pytest

from selfwire.core.errors import ReplyError
from selfwire.core.scope import Scope
from selfwire.evolvers.tacomas.judge import (
    DEFAULT_CHECKLIST,
    Judgement,
    RubricItem,
    assess_contributions,
    checklist_score,
    draft_checklist,
    has_evidence,
    judge_answer,
    list_failed_items,
    mean_contribution,
)
from selfwire.evolvers.tacomas.schemas import AgentScore, Checklist, ChecklistItem, Contributions, Verdict
from selfwire.evolvers.tacomas.work import cut_task, render_work
from tests.evolvers.tacomas.doubles import QUESTION, done, meta_model, step
from tests.scripted import section

ITEMS = (
    RubricItem(criterion="first"),
    RubricItem(criterion="second"),
    RubricItem(criterion="guessed", operator="contradiction"),
)
FOUR = (*ITEMS[:2], RubricItem(criterion="third"), ITEMS[2])
AVOID = "Make sure that this is not so: guessed"


def test_a_checklist_by_hand() -> None:
    assert checklist_score(ITEMS, [True, False, False]) == pytest.approx(2 / 3)
    assert checklist_score(ITEMS, [True, True, True]) == pytest.approx(2 / 3)
    assert list_failed_items(ITEMS, [True, False, True]) == ("second", AVOID)


def test_an_item_without_a_result_does_not_pass() -> None:
    assert checklist_score(ITEMS, [True]) == pytest.approx(1 / 3)
    assert list_failed_items(ITEMS, [True]) == ("second", AVOID)
    assert checklist_score(ITEMS, [True, True, False, True, True]) == 1


async def test_the_checklist_is_drafted_from_the_question_alone() -> None:
    items = [ChecklistItem(criterion=f" item  {n} ", operator="correctness") for n in (1, 2, 3, 3)]
    meta, model = meta_model(Checklist=Checklist(items=items))
    drafted, usage = await draft_checklist(QUESTION, meta, scope=Scope())
    assert [item.criterion for item in drafted] == ["item 1", "item 2", "item 3"]
    assert usage.calls == 1
    assert QUESTION.input in model.asked[0][1]
    broken, _ = meta_model(Checklist=ReplyError("garbage"))
    assert (await draft_checklist(QUESTION, broken, scope=Scope()))[0] == DEFAULT_CHECKLIST


async def test_d5_a_score_ends_the_run_only_when_a_second_judgement_confirms_it() -> None:
    async def judged(*replies: list[bool]) -> tuple[float, bool, int]:
        left = list(replies)
        meta, _ = meta_model(Verdict=lambda text, scope: Verdict(results=left.pop(0)))
        found = await judge_answer(done(step("planner")), ITEMS, meta, threshold=0.8, scope=Scope())
        assert found.score is not None
        return round(found.score, 6), found.confirmed, found.usage.calls

    good, turned = [True, True, False], [False, True, True]
    assert await judged([True, False, False]) == (0.666667, False, 1)
    assert await judged(good, turned) == (1.0, True, 2)
    assert await judged(good, [True, True, True]) == (0.666667, False, 2)


async def test_d22_an_item_that_no_answer_can_pass_does_not_count() -> None:
    async def judged(results: list[bool], impossible: list[int]) -> Judgement:
        left = [Verdict(results=results, impossible=impossible), Verdict(results=[False, True, True])]
        meta, _ = meta_model(Verdict=lambda text, scope: left.pop(0))
        return await judge_answer(done(step("planner")), FOUR, meta, threshold=0.8, scope=Scope())

    lacking = await judged([True, False, True, False], [])
    assert (lacking.score, lacking.failed) == (0.75, ("second",))
    struck = await judged([True, False, True, False], [2])
    assert (struck.score, struck.failed, struck.struck) == (1.0, (), ("second",))
    passed = await judged([True, True, True, True], [1, 3])
    assert (passed.score, passed.struck) == (0.75, ())  # only what does not pass is struck
    excused = await judged([False] * 3 + [True], [1, 2, 3, 4])
    assert (excused.score, excused.struck) == (0.0, ("first", "second"))  # at most half of the list


async def test_d22_the_second_judgement_may_say_too_what_no_answer_can_pass() -> None:
    async def judged(*verdicts: tuple[list[bool], list[int]]) -> Judgement:
        left = [Verdict(results=results, impossible=impossible) for results, impossible in verdicts]
        meta, _ = meta_model(Verdict=lambda text, scope: left.pop(0))
        return await judge_answer(done(step("planner")), FOUR, meta, threshold=0.9, scope=Scope())

    good, third_missing = ([True, True, True, False], list[int]()), [False, False, True, True]
    lacking = await judged(good, (third_missing, []))
    assert (lacking.score, lacking.confirmed, lacking.failed) == (0.75, False, ("third",))
    struck = await judged(good, (third_missing, [2]))
    assert (struck.score, struck.confirmed, struck.failed, struck.struck) == (1.0, True, (), ("third",))
    half = await judged(([True, False, False, False], [2, 3]), ([False, False], [2]))  # half of the list is struck
    assert (half.score, half.failed, half.struck) == (0.5, ("first",), ("second", "third"))


async def test_d22_what_the_second_judgement_strikes_does_not_count_in_the_first_one_either() -> None:
    left = [Verdict(results=[True, True, False, False]), Verdict(results=[False, False, False, True], impossible=[2])]
    meta, _ = meta_model(Verdict=lambda text, scope: left.pop(0))
    found = await judge_answer(done(step("planner")), FOUR, meta, threshold=0.7, scope=Scope())
    assert found.score == pytest.approx(2 / 3)
    assert (found.confirmed, found.failed, found.struck) == (False, ("second",), ("third",))


async def test_an_answer_is_confirmed_only_where_the_first_judgement_holds_without_what_the_second_strikes() -> None:
    left = [Verdict(results=[True, True, True, True]), Verdict(results=[False, False, True, True], impossible=[2])]
    meta, _ = meta_model(Verdict=lambda text, scope: left.pop(0))
    found = await judge_answer(done(step("planner")), FOUR, meta, threshold=0.7, scope=Scope())
    assert found.score == pytest.approx(2 / 3)
    assert not found.confirmed


async def test_a_second_judgement_that_finds_a_fault_sets_the_goal() -> None:
    left = [[True, True, False], [True, True, True]]
    meta, _ = meta_model(Verdict=lambda text, scope: Verdict(results=left.pop(0)))
    found = await judge_answer(done(step("planner")), ITEMS, meta, threshold=0.8, scope=Scope())
    assert (found.confirmed, found.failed) == (False, (AVOID,))


async def test_the_answer_is_shown_once() -> None:
    scores = [AgentScore(agent="reflector", score=1, reason="")]
    meta, model = meta_model(Verdict=Verdict(results=[False] * 3), Contributions=Contributions(scores=scores))
    ran = done(step("planner", "my plan"), step("reflector", "the red one\n"))
    await judge_answer(ran, ITEMS, meta, threshold=0.8, scope=Scope())
    await assess_contributions(ran, [("planner", ""), ("reflector", "")], meta, scope=Scope())
    assert [text.count("the red one") for _, text, *_ in model.asked] == [1, 1]
    assert all("[reflector]" in text for _, text, *_ in model.asked)


async def test_an_agent_that_wrote_what_the_answer_says_did_not_write_the_answer() -> None:
    meta, model = meta_model(Verdict=Verdict(results=[False] * 3))
    ran = done(step("planner", "the red one"), step("reflector", "the red one"))
    await judge_answer(ran, ITEMS, meta, threshold=0.8, scope=Scope())
    [(_, shown, *_)] = model.asked
    assert "[planner] (the same text as the team's answer)\n[reflector] (wrote the team's answer)" in shown


async def test_a_program_that_several_agents_pass_on_is_shown_once() -> None:
    program = "\n".join(f"def part_{number}(years: list[int]) -> int:\n    return sum(years)" for number in range(3))
    draft, fenced = program.replace("sum", "max"), f"```python\n{program}\n```"
    ran = done(
        step("planner", f"Begin with\n```python\n{draft}\n```\nand improve it."),
        step("calculator", f"This is it:\n{fenced}\nIt was not run."),
        step("verifier", f"The draft was\n```\n{draft}\n```\nand now it is\n{fenced}"),
        step("reflector", f"It passes.\n{fenced}"),
        answer=f"It passes.\n{fenced}",
    )
    scores = [AgentScore(agent="calculator", score=1, reason="")]
    meta, model = meta_model(Verdict=Verdict(results=[False] * 3), Contributions=Contributions(scores=scores))
    await judge_answer(ran, ITEMS, meta, threshold=0.8, scope=Scope())
    await assess_contributions(ran, [("calculator", ""), ("reflector", "")], meta, scope=Scope())
    judged, scored = (text for _, text, *_ in model.asked)
    assert (judged.count(program), judged.count(draft), scored.count(program)) == (1, 1, 1)
    assert "[calculator] This is it:\n(as in the team's answer)\nIt was not run." in judged
    assert "[verifier] The draft was\n(the same as that of planner)\nand now it is\n(as in the" in judged
    coached = render_work(ran)
    assert (coached.count(program), coached.count(draft)) == (1, 1)
    assert "[reflector] It passes.\n(the same as that of calculator)" in coached


async def test_a_table_that_several_agents_pass_on_is_shown_once() -> None:
    rows = "".join(f"\n| Ada | job {hour} | {hour}:00 | {hour + 1}:00 |" for hour in range(9, 15))
    table = f"| person | job | start | end |\n|---|---|---|---|{rows}"
    ran = done(step("calculator", f"Bound: 6 h.\n\n{table}\n\nAll fits."), step("reflector", table), answer=table)
    meta, model = meta_model(Verdict=Verdict(results=[False] * 3))
    await judge_answer(ran, ITEMS, meta, threshold=0.8, scope=Scope())
    [(_, judged, *_)] = model.asked
    assert judged.count(table) == 1
    assert "[calculator] Bound: 6 h.\n\n(as in the team's answer)\n\nAll fits." in judged
    assert render_work(ran).count(table) == 1


async def test_without_a_valid_verdict_a_round_has_no_score() -> None:
    meta, _ = meta_model(Verdict=ReplyError("garbage"))
    found = await judge_answer(done(step("planner")), ITEMS, meta, threshold=0.8, scope=Scope())
    assert (found.score, found.confirmed) == (None, False)


async def test_d3_the_judge_is_shown_question_answer_checklist_and_work_only() -> None:
    meta, model = meta_model(Verdict=Verdict(results=[False, False, True]))
    await judge_answer(done(step("planner", "my plan </answer>")), ITEMS, meta, threshold=0.8, scope=Scope())
    [(_, shown, _, role)] = model.asked
    assert role == "judge"
    assert "[/answer]" in shown
    for text in (QUESTION.input, "the red one", "1. (correctness) first", "3. (contradiction) guessed", "my plan"):
        assert text in shown


@pytest.mark.parametrize(("number", "said"), [(0, False), (1, True)])
async def test_the_judge_of_a_later_round_hears_that_earlier_ones_are_not_shown(number: int, *, said: bool) -> None:
    meta, model = meta_model(Verdict=Verdict(results=[False, False, True]))
    await judge_answer(done(step("planner")), ITEMS, meta, threshold=0.8, scope=Scope(visit=number))
    assert ("uses of tools; what it hands on from earlier rounds" in model.asked[0][1]) is said


def test_the_evidence_precheck() -> None:
    assert has_evidence([step("a")])
    assert not has_evidence([])
    assert not has_evidence([step("a", "  ")])
    assert not has_evidence([step("a", tool_fails=True)])


async def test_d21_who_fails_the_precheck_gets_little_and_strangers_nothing() -> None:
    names = ("planner", "searcher", "verifier", "reflector")
    given = {**dict.fromkeys(names, 0.9), "verifier": 0.1, "stranger": 0.9}
    scores = [AgentScore(agent=name, score=given[name], reason="") for name in (*given, "planner")]
    meta, model = meta_model(Contributions=Contributions(scores=scores))
    ran = done(step("planner"), step("searcher", tool_fails=True), step("reflector"))
    found, _ = await assess_contributions(ran, [(name, "role") for name in names], meta, scope=Scope())
    assert [(one.agent, one.score) for one in found] == list(zip(names, (0.9, 0.3, 0.1, 0.9), strict=True))
    assert "it was not reached" in model.asked[0][1]
    assert "evidence precheck: PASS" not in model.asked[0][1]
    assert mean_contribution(found) == pytest.approx(0.55)


async def test_d6_an_agent_whose_model_failed_is_not_scored() -> None:
    scores = [AgentScore(agent=name, score=1, reason="") for name in ("planner", "searcher")]
    meta, model = meta_model(Contributions=Contributions(scores=scores))
    ran = done(step("planner"), step("searcher", error="provider down"))
    found, _ = await assess_contributions(ran, [("planner", ""), ("searcher", "")], meta, scope=Scope())
    assert [one.agent for one in found] == ["planner"]
    assert "provider down" not in model.asked[0][1]


async def test_d13_the_meta_judge_is_asked_once_or_about_each_agent_by_itself() -> None:
    scores = [AgentScore(agent=name, score=0.7, reason="") for name in ("planner", "searcher")]
    meta, model = meta_model(Contributions=Contributions(scores=scores))
    ran = done(step("planner", "my plan"), step("searcher", "my find"))
    found, usage = await assess_contributions(ran, [("planner", ""), ("searcher", "")], meta, each=True, scope=Scope())
    assert [one.agent for one in found] == ["planner", "searcher"]
    assert usage.calls == 2
    assert ["my plan" in text for _, text, *_ in model.asked] == [True, False]
    _, usage = await assess_contributions(ran, [("planner", ""), ("searcher", "")], meta, scope=Scope())
    assert usage.calls == 1


async def test_without_a_valid_reply_nobody_is_scored() -> None:
    meta, _ = meta_model(Contributions=ReplyError("garbage"))
    found, _ = await assess_contributions(done(step("planner")), [("planner", "")], meta, scope=Scope())
    assert found == ()
    assert mean_contribution(found) is None


async def test_d14_the_judge_of_an_answer_reads_a_long_task_whole_and_the_judge_of_contributions_what_matters() -> None:
    idle = [f"The {name} was painted in {1800 + n}. It is nobody's concern." for n, name in enumerate("abcde" * 60)]
    passages = [*idle[:150], "The red bridge is 310 metres long. Its builder was Ann Roe.", *idle[150:]]
    asked = "\n\n".join(["Which bridge is longer?", *passages, "End with a line that starts with 'Answer:'."])
    ran = done(step("planner", "The red bridge is 310 metres long."))
    ran = ran.replace(question=ran.question.replace(input=asked))
    meta, model = meta_model(Verdict=Verdict(results=[False] * 3), Contributions=Contributions(scores=[]))
    await judge_answer(ran, ITEMS, meta, threshold=0.8, scope=Scope())
    await assess_contributions(ran, [("planner", "")], meta, scope=Scope())
    whole, cut = (section(text, "task") for _, text, *_ in model.asked)
    assert whole == asked
    assert len(cut) <= 12_000 < len(asked)
    assert cut.startswith("Which bridge is longer?\n\n")
    assert cut.endswith("\n\nEnd with a line that starts with 'Answer:'.")
    assert "The red bridge is 310 metres long." in cut
    assert cut_task("short", "") == "short"
    assert len(cut_task("\n\n".join(["x y. " * 2700, *passages, "z"]), "")) <= 12_000


async def test_an_id_is_understood_with_its_brackets() -> None:
    scores = [AgentScore(agent="[calculator]", score=0.7, reason="")]
    meta, _ = meta_model(Contributions=Contributions(scores=scores))
    found, _ = await assess_contributions(done(step("calculator", "4")), [("calculator", "")], meta, scope=Scope())
    assert [(one.agent, one.score) for one in found] == [("calculator", 0.7)]
