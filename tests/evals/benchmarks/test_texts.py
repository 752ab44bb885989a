"""Graders of short answers, over all of their real gold answers and over perturbed ones."""

from collections import Counter
from collections.abc import Callable

import pytest

from selfwire.core.errors import GradingError
from selfwire.core.protocols import Environment
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Task
from selfwire.core.values import to_plain_json
from selfwire.evals.benchmarks import archive, bbh, deepresearcher, gsm8k, math500
from selfwire.evals.benchmarks.bbh import normalise
from selfwire.evals.benchmarks.benchmark import RuleEnvironment
from selfwire.evals.benchmarks.deepresearcher import set_f1
from selfwire.evals.benchmarks.multihop import MultihopEnvironment
from selfwire.evals.graders import f1, find_marked_number
from tests.benchmark_data import needs_data
from tests.evals.benchmarks.sweeps import graded, solved, unsolved


def said(task: Task) -> str:
    return f"Let us see.\nAnswer: {task.reference}"


@needs_data
async def test_gsm8k_gold_answers_have_full_marks_and_others_none() -> None:
    tasks = gsm8k.load_tasks()

    async def count(answer: Callable[[Task], str]) -> int:
        return solved(await graded(gsm8k.ENVIRONMENT, tasks, answer))

    assert await count(lambda task: f"So it is.\n#### {task.reference}") == 1319
    assert await count(lambda task: f"#### ${float(task.reference.replace(',', ''))}") == 1319
    assert await count(lambda task: f"#### {task.reference}1") == 0
    assert await count(lambda task: f"#### -{task.reference}") == sum(task.reference == "0" for task in tasks)
    assert await count(lambda task: str(task.reference)) == 0  # the rule wants the mark
    assert await count(lambda task: gsm8k.GSM8K.baseline.answer(task.input)) == 40


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("#### 1,234.50", "1234.5"),
        ("#### 5\n#### 6.", "6"),
        ("####7 apples", "7"),
        ("#### -3", "-3"),
        ("#### $18", "18"),
        ("7", None),
        ("#### seven", None),
        ("#### ..", None),
        ("", None),
    ],
)
def test_the_number_behind_the_last_mark_counts(answer: str, number: str | None) -> None:
    found = find_marked_number(answer)
    assert (found is None) == (number is None)
    assert number is None or f"{found:f}".rstrip("0").rstrip(".") == number


@needs_data
async def test_bbh_gold_answers_have_full_marks_and_others_none() -> None:
    tasks, environment = bbh.load_tasks(), bbh.ENVIRONMENT
    assert len(tasks) == 6511
    assert len({task.kind for task in tasks}) == 27
    assert unsolved(await graded(environment, tasks, said)) == {}
    assert solved(await graded(environment, tasks, wrong)) == 0
    assert solved(await graded(environment, tasks, lambda task: str(task.reference))) == 0  # no line with "Answer:"
    assert solved(await graded(environment, tasks, lambda task: bbh.choose_first_option(task.input))) == 1677


def wrong(task: Task) -> str:
    """Another answer of the same kind."""
    gold = str(task.reference)
    pairs = {"yes": "No", "no": "Yes", "true": "False", "false": "True", "valid": "invalid", "invalid": "valid"}
    if gold.lower() in pairs:
        return f"Answer: {pairs[gold.lower()]}"
    if gold.startswith("(") and len(gold) == 3:
        return f"Answer: ({'B' if gold == '(A)' else 'A'})"
    if gold.lstrip("-").isdigit():
        return f"Answer: {int(gold) + 1}"
    words = gold.split()
    return f"Answer: {' '.join([*words, words[0]])}"


@needs_data
def test_bbh_answers_are_of_four_kinds() -> None:
    def kind(gold: str) -> str:
        if gold.startswith("(") and len(gold) == 3:
            return "letter"
        if gold.lower() in ("yes", "no", "true", "false", "valid", "invalid"):
            return "closed"
        return "integer" if gold.lstrip("-").isdigit() else "free"

    assert Counter(kind(task.reference) for task in bbh.load_tasks()) == {
        "letter": 4071, "closed": 1437, "integer": 500, "free": 503,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("(B)", "(B)"),
        ("b", "(B)"),
        ("B) the second", "(B)"),
        ("(B) the second one", "(B)"),
        ("**(B)**", "(B)"),
        ("The answer is (B).", "(B)"),
        ("option b", "(B)"),
        ('"Yes"', "yes"),
        ("`valid`", "valid"),
        ("\u22125", "-5"),
        ("Yes.", "yes"),
        ("No, it does not", "No"),
        ("valid", "valid"),
        ("1,024", "1024"),
        ("-5.", "-5"),
        ("apple, bear, cat", "apple bear cat"),
        ("]]>", "] ] >"),
        ("`] ] >`.", "] ] >"),
    ],
)
async def test_bbh_answers_that_say_the_same_are_right(answer: str, gold: str) -> None:
    assert (await bbh_feedback(answer, gold)).solved


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("A boat", "(A)"),
        ("A or (B)", "(B)"),
        ("The answer is not (B)", "(B)"),
        ("(C)", "(B)"),
        ("not valid", "valid"),
        ("invalid", "valid"),
        ("yes and no", "no"),
        ("5", "-5"),
        ("bear apple cat", "apple bear cat"),
        ("] >", "] ] >"),
        ("()", "(A)"),
    ],
)
async def test_bbh_answers_that_say_something_else_are_wrong(answer: str, gold: str) -> None:
    assert not (await bbh_feedback(answer, gold)).solved


async def bbh_feedback(answer: str, gold: str) -> Feedback:
    return await bbh.ENVIRONMENT.grade(Task(id="t", input="?", reference=gold), f"Answer: {answer}", scope=Scope())


def test_the_normal_form_of_a_bracket_answer_keeps_every_bracket() -> None:
    assert normalise("} ) . ]", "] )") == "}).]"


@needs_data
async def test_deepresearcher_gold_answers_have_full_marks_and_others_less() -> None:
    tasks, environment = deepresearcher.load_tasks(), deepresearcher.ENVIRONMENT
    assert Counter(task.kind for task in tasks) == dict.fromkeys(
        ("nq", "tq", "hotpotqa", "2wiki", "musique", "popqa"), 512
    )
    for pick in (0, -1):
        found = await graded(environment, tasks, lambda task, pick=pick: f"Answer: {task.reference[pick]}")  # type: ignore[misc]
        assert unsolved(found) == {}
    more = await graded(environment, tasks, lambda task: f"Answer: {task.reference[0]} zanzibarquux")
    assert solved(more) == 0
    assert all(0.5 <= one.score < 1 for one in more.values())
    assert sum(one.score for one in (await graded(environment, tasks, lambda _: "Answer: zanzibarquux")).values()) == 0
    assert solved(await graded(environment, tasks, lambda _: "Answer: yes")) == 52


@pytest.mark.parametrize(
    ("answer", "gold", "score"),
    [
        ("Barack Obama", "obama", 2 / 3),  # 1 common of 2 and 1
        ("the the the end", "the end", 1),  # sets: repetition is free
        ("The Beatles", "Beatles", 2 / 3),  # articles are kept
        ("New-York", "new york", 1),  # punctuation is space
        ("yes it is", "yes", 0.5),  # no rule of yes and no
        ("one two", "three", 0),
        ("...", "three", 0),
    ],
)
def test_the_set_f1_by_hand(answer: str, gold: str, score: float) -> None:
    assert set_f1(answer, gold) == pytest.approx(score)


def test_the_two_f1s_differ_where_their_rules_do() -> None:
    assert (f1("the the the end", "the end"), set_f1("yes it is", "yes")) == (1, 0.5)
    assert f1("yes it is", "yes") == 0
    assert f1("New-York", "new york") == 0


@pytest.mark.parametrize(
    ("environment", "reference", "message"),
    [
        (gsm8k.ENVIRONMENT, "no number", "no number as reference"),
        (gsm8k.ENVIRONMENT, None, "no number as reference"),
        (bbh.ENVIRONMENT, None, "no text as reference"),
        (archive.ENVIRONMENT, None, "no text as reference"),
        (math500.MATH500.environment, None, "no text as reference"),
        (MultihopEnvironment("hotpotqa"), None, "no answer as its reference"),
        (deepresearcher.ENVIRONMENT, [], "no list of texts as reference"),
        (deepresearcher.ENVIRONMENT, "a text", "no list of texts as reference"),
    ],
)
async def test_a_reference_of_another_form_is_an_error_and_no_zero(
    environment: Environment, reference: object, message: str
) -> None:
    with pytest.raises(GradingError, match=message):
        await environment.grade(Task(id="t", input="?", reference=reference), "#### 1\nAnswer: x", scope=Scope())


@needs_data
async def test_a_planted_reference_never_shows_in_feedback() -> None:
    canary = "zanzibarquux"
    cases: list[tuple[RuleEnvironment, Task, object]] = [
        (gsm8k.ENVIRONMENT, gsm8k.load_tasks()[0], "7319465028"),
        (bbh.ENVIRONMENT, bbh.load_tasks()[0], canary),
        (deepresearcher.ENVIRONMENT, deepresearcher.load_tasks()[0], [canary, "7319465028"]),
    ]
    for environment, task, planted in cases:
        for answer in ("", "Answer: x", "#### 12", "Answer:", "word " * 50):
            shown = (await environment.grade(task.replace(reference=planted), answer, scope=Scope())).model_dump_json()
            assert canary not in shown
            assert "7319465028" not in shown
        assert str(to_plain_json(planted)) not in task.question.model_dump_json()
