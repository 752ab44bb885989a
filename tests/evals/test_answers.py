"""What an answer comes to, in the forms that benchmarks ask for, and how long a look takes at worst."""

import time
from collections.abc import Callable

import pytest

from selfwire.evals.baselines import choose_by_vote
from selfwire.evals.benchmarks.bbh import normalise
from selfwire.evals.benchmarks.programs import find_program
from selfwire.evals.benchmarks.workbench import parse_calls
from selfwire.evals.graders import find_boxed, find_final_answer, find_graded_text, find_marked_number, to_ballot


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        ("no such line", None),
        ("Answer: a\nAnswer: b", "b"),
        ("**Answer:** (B)", "(B)"),
        ("Answer:\n\n  x * \nmore", "x"),
        ("Answer:\nAnswer: b", "b"),
        ("Answer: a\nAnswer:", None),
        ("My answer: a", None),
    ],
)
def test_what_stands_behind_the_last_answer(answer: str, line: str | None) -> None:
    assert find_final_answer(answer) == line


@pytest.mark.parametrize(
    ("answer", "box"),
    [
        ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ("\\boxed{a} \\boxed{b", "a"),
        ("\\boxed{ \\{1\\} }", "\\{1\\}"),
        ("\\boxed{\\boxed{5}}", "5"),
        ("} \\fbox {7}", "7"),
        ("\\\\boxed{5}", "5"),
        ("\\boxed{1}\\boxed{}", None),
        ("boxed{5}", None),
    ],
)
def test_what_stands_in_the_last_closed_box(answer: str, box: str | None) -> None:
    assert find_boxed(answer) == box


@pytest.mark.parametrize(
    "answers",
    [
        ["2 + 2 = 5\n#### 5", "two and two\n#### 4", "counting\n#### $4.00"],
        ["so \\boxed{5}", "thus \\boxed{4}.", "it is \\boxed{ 4 }"],
        ["Looked.\nCalls: none", "Found.\nCalls:\na(x='1')", "Done.\n**Calls:**\na(x='1')"],
        ["#### 1. Plan\nAnswer: Ida", "#### 1. Look\nAnswer: Bo", "Answer: bo"],
    ],
)
def test_samples_agree_in_the_form_of_their_benchmark_whatever_their_reasoning(answers: list[str]) -> None:
    assert choose_by_vote(answers) == answers[1]
    assert to_ballot(answers[1]) == to_ballot(answers[2])


LONG = 40_000
TIRESOME = {
    "lines": "\n" * LONG,
    "bullets": "\n> " * (LONG // 3),
    "stars": "Answer: x" + " *" * (LONG // 2) + "y",
    "boxes": "\\boxed{" * (LONG // 7),
    "fence": "```" + "a" * LONG,
    "fences": "```\n" * (LONG // 4),
    "rule of a table": "|" + "-" * LONG + "x",
    "open tags": "<answer>" * (LONG // 8),
    "semicolons": "Calls: x" + "; " * (LONG // 2) + "y",
}


def bbh_form(answer: str) -> str:
    return normalise(answer, "(A)")


def find_in_forms(answer: str) -> str | None:
    return find_graded_text(answer, "5")


@pytest.mark.parametrize("answer", TIRESOME.values(), ids=TIRESOME)
@pytest.mark.parametrize(
    "look",
    [find_final_answer, find_boxed, to_ballot, find_marked_number, find_program, parse_calls, bbh_form, find_in_forms],
)
def test_an_answer_that_repeats_itself_holds_nobody_up(look: Callable[[str], object], answer: str) -> None:
    started = time.process_time()
    look(answer)
    assert time.process_time() - started < 5  # what is linear takes milliseconds, what is quadratic 10 s and more


@pytest.mark.parametrize(("answer", "told"), [("#### \u22125", "-5"), ("#### **18**", "18"), ("#### -$5", "-5")])
def test_a_marked_number_may_be_set_in_type(answer: str, told: str) -> None:
    assert str(find_marked_number(answer)) == told
