"""Graders: named ones by hand-worked numbers, one's own by import, and what goes wrong with them."""

import functools
import math
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from selfwire.core.errors import ConfigError, GradingError, ModelError
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Task
from selfwire.evals.graders import (
    GradedEnvironment,
    contains,
    em,
    exact,
    f1,
    load_grader,
    normalise,
    numeric,
    require_grader,
    validate_references,
)

SCOPE = Scope()


def task(reference: Any) -> Task:
    return Task(id="t1", input="Who wrote it?", reference=reference)


@pytest.mark.parametrize(
    ("answer", "reference", "score"),
    [
        ("barack obama", "barack hussein obama", 0.8),
        ("greater manchester metrolink", "metrolink", 0.5),
        ("The Beatles!", "beatles", 1.0),
        ("red red blue", "red", 0.5),
        ("yes", "yes", 1.0),
        ("Yes, it is", "yes", 0.0),
        ("no", "no way", 0.0),
        ("noanswer", "x", 0.0),
        ("cat", "dog", 0.0),
        ("", "", 1.0),
        ("", "dog", 0.0),
        ("the", "a", 1.0),
    ],
)
def test_f1_by_hand(answer: str, reference: str, score: float) -> None:
    assert f1(answer, reference) == pytest.approx(score)


@pytest.mark.parametrize(
    ("grader", "answer", "reference", "score"),
    [
        (exact, " Ada ", "Ada", 1),
        (exact, "ada", "Ada", 0),
        (em, "The Ada.", "ada", 1),
        (em, "Ada Lovelace", "ada", 0),
        (contains, "It was Ada, I think.", "ada", 1),
        (contains, "Canada", "ada", 0),
        (contains, "anything", "the", 0),
        (numeric, "1 + 2, so it is 3", "3", 1),
        (numeric, "$1,234.50", "1234.5", 1),
        (numeric, "minus: -7.", "-7", 1),
        (numeric, "between 3-4", "4", 1),
        (numeric, "between 3\u20134", "4", 1),
        (numeric, "\u22125", "-5", 1),
        (numeric, "\u22125", "5", 0),
        (numeric, "2.5e3", "2500", 1),
        (numeric, "3.0001", "3", 0),
        (numeric, "none", "3", 0),
        (numeric, "0.3333333", "0.33333333", 1),
        (numeric, ".5", "0.5", 1),
        (numeric, "\u0664\u0661", "41", 1),
        (numeric, "\u0661\u066c\u0662\u0663\u0664\u066b\u0665", "1234.5", 1),
        (em, "\u0664\u0661", "41", 1),
        (f1, "\uff11\uff19\uff12\uff17\u5e74", "1927\u5e74", 1),
        (em, "O\u2019Neill", "O'Neill", 1),
        (em, "2019\u20132020", "2019-2020", 1),
        (em, "self\u2010help", "self-help", 1),
        (em, "2021\u201103\u201114", "14-3-2021", 0),
        (em, "2021\u201103\u201114", "2021-3-14", 1),
        (f1, "\u201cDune\u201d\u2026", "Dune", 1),
        (
            em,
            "\u0623\u062d\u0645\u062f\u060c \u0633\u0644\u064a\u0645",
            "\u0623\u062d\u0645\u062f \u0633\u0644\u064a\u0645",
            1,
        ),
        (em, "20 \u20ac", "20", 0),
        (em, "14.3.2021", "143.2021", 0),
    ],
)
def test_named_graders_by_hand(grader: Any, answer: str, reference: str, score: float) -> None:
    assert grader(answer, reference) == score


def test_the_normal_form() -> None:
    assert normalise("  A man, an apple; the END.  ") == "man apple end"


async def test_any_reference_of_a_list_will_do() -> None:
    found = await load_grader("em").grade(task(["Ada", "Lovelace", 3]), "lovelace", scope=SCOPE)
    assert (found.score, found.solved, found.text) == (1.0, True, "The answer is right.")
    assert (await load_grader("em").grade(task(True), "yes", scope=SCOPE)).solved


async def test_part_of_the_way_is_said_and_is_not_enough() -> None:
    strict = await load_grader("f1").grade(task("barack hussein obama"), "barack obama", scope=SCOPE)
    assert not strict.solved
    assert strict.text.startswith("The answer is partly right: 2 of your 2 words are expected, 1 is missing.")


@pytest.mark.parametrize(("name", "reference"), [("f1", None), ("f1", {"answer": "x"}), ("f1", []), ("numeric", "Ada")])
async def test_a_reference_that_cannot_be_compared_is_a_grading_error(name: str, reference: Any) -> None:
    message = "a reference with a number" if name == "numeric" else "a text, a number or a list"
    with pytest.raises(GradingError, match=f"needs {message}.*task 't1'"):
        await load_grader(name).grade(task(reference), "3", scope=SCOPE)


def test_references_that_would_be_compared_for_minutes_are_refused() -> None:
    with pytest.raises(GradingError, match="at most 10,000 references, and task 't1' has 10,001; give fewer"):
        validate_references("em", task([*range(10_001)]))


def test_a_reference_without_a_number_is_no_number() -> None:
    with pytest.raises(GradingError, match="needs a reference with a number, not 'Ada'"):
        numeric("3", "Ada")


OWN = """
from selfwire.core.task import Feedback

def length(task, answer):
    return min(1.0, len(answer) / 10)

async def kind(task, answer):
    return Feedback(score=1, solved=True, text="well said", details={"words": len(answer.split())})

class Strict:
    async def __call__(self, task, answer):
        return answer == task.reference

strict = Strict()
number = 3

def alone(answer):
    return 1.0
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"own_graders_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(OWN)
    (tmp_path / f"{name}_broken.py").write_text("def grade(:")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return name


async def test_a_grader_of_ones_own_is_found_in_the_working_directory(own: str) -> None:
    assert (await load_grader(f"{own}:length").grade(task("x"), "12345", scope=SCOPE)).score == 0.5
    kind = await load_grader(f"{own}:kind").grade(task("x"), "a b", scope=SCOPE)
    assert kind == Feedback(score=1, solved=True, text="well said", details={"words": 2})
    assert (await load_grader(f"{own}:strict").grade(task("x"), "x", scope=SCOPE)).solved


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("contain", r"did you mean contains\? graders are exact, em, f1, contains, numeric, judge, or your own"),
        (":f", "there is no grader ':f'"),
        ("no_such_module_here:f", "cannot be imported: ModuleNotFoundError"),
        ("{own}:strit", r"^grader '{own}:strit': {own} has no 'strit'; did you mean strict\? it has \w+, .*strict"),
        ("{own}.py:missing", r"^grader '{own}.py:missing': {own}.py has no 'missing'; it has \w+, "),
        ("{own}_broken:grade", "cannot be imported: SyntaxError"),
        ("{own}:number", r"number' is \d+, not a function of \(task, answer\)"),
        ("{own}:alone", r"alone' takes \(answer\), and is called with \(task, answer\): too many positional"),
        ("{own}:Strict", r"Strict' takes \(\), and is called with \(task, answer\)"),
        (
            "no_such_file.py:f",
            r"cannot be imported: FileNotFoundError: .*; name your own as module:function or file.py:",
        ),
    ],
)
def test_a_grader_that_is_not_there_is_named(own: str, name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("{own}", own)):
        load_grader(name.format(own=own))


async def test_a_decorator_may_change_what_a_grader_takes() -> None:
    def short(answer: str) -> float:
        return len(answer) / 10

    @functools.wraps(short)
    def grade(task: Task, answer: str) -> float:
        return short(answer)

    graded = GradedEnvironment("own", require_grader("own", grade))
    assert (await graded.grade(task("x"), "12345", scope=SCOPE)).score == 0.5


async def test_a_grader_is_named_by_its_file(tmp_path: Path) -> None:
    file = tmp_path / "of_a_shop.py"
    file.write_text("def grade(task, answer):\n    return len(answer) / 10\n", encoding="utf-8")
    assert (await load_grader(f"{file}:grade").grade(task("x"), "12345", scope=SCOPE)).score == 0.5


def _raises(task: Task, answer: str) -> float:
    raise KeyError("gold")


async def _raises_later(task: Task, answer: str) -> float:
    raise RuntimeError("down")


def _exits(task: Task, answer: str) -> float:
    raise SystemExit(3)


def _stops(task: Task, answer: str) -> float:
    raise StopIteration


def _times_out(task: Task, answer: str) -> float:
    raise TimeoutError("its own server")


@pytest.mark.parametrize(
    ("grader", "message"),
    [
        (_raises, r"grader 'own' failed on task 't1' \(test_graders.py:\d+\): KeyError\('gold'\)"),
        (_raises_later, r"failed on task 't1' \(test_graders.py:\d+\): RuntimeError\('down'\)"),
        (_exits, r"failed on task 't1' \(test_graders.py:\d+\): RuntimeError\('SystemExit\(3\)'\)"),
        (_stops, r"failed on task 't1' \(test_graders.py:\d+\): RuntimeError\('StopIteration\(\)'\)"),
        (_times_out, r"failed on task 't1' \(test_graders.py:\d+\): TimeoutError\('its own server'\)"),
        (lambda task, answer: math.nan, "returned nan for task 't1'"),
        (lambda task, answer: 1.5, "returned 1.5"),
        (lambda task, answer: -0.1, "returned -0.1"),
        (lambda task, answer: None, "returned None"),
        (lambda task, answer: "1", "returned '1'"),
        (lambda task, answer: np.array([1, 0]), r"returned array\(\[1, 0\]\)"),
    ],
)
async def test_a_grader_that_fails_ends_the_task_as_an_error(grader: Any, message: str) -> None:
    with pytest.raises(GradingError, match=message):
        await GradedEnvironment("own", grader).grade(task("x"), "y", scope=SCOPE)


@pytest.mark.parametrize("score", [np.True_, np.float32(1.0), np.array(1), Fraction(1), Decimal(1)])
async def test_a_number_of_any_kind_is_a_score(score: object) -> None:
    def graded(task: Task, answer: str) -> Any:
        return score

    assert (await GradedEnvironment("own", graded).grade(task("x"), "y", scope=SCOPE)).score == 1.0


async def test_an_error_of_ours_passes_through() -> None:
    async def judged(task: Task, answer: str) -> float:
        raise ModelError("the judge is down")

    with pytest.raises(ModelError, match="the judge is down"):
        await GradedEnvironment("own", judged).grade(task("x"), "y", scope=SCOPE)


@pytest.mark.parametrize(
    "told",
    [
        {"text": "it should be Lovelace"},
        {"text": "Wrong.", "details": {"seen": ["Babbage", {"gold": "Lovelace"}]}},
    ],
)
async def test_feedback_that_tells_the_reference_is_refused(told: dict[str, Any]) -> None:
    def tells(task: Task, answer: str) -> Feedback:
        return Feedback(score=0, solved=False, **told)

    with pytest.raises(GradingError, match="put the reference of task 't1' into its feedback") as refusal:
        await GradedEnvironment("own", tells).grade(task("Lovelace"), "Babbage", scope=SCOPE)
    assert "Lovelace" not in str(refusal.value)
    repeated = await GradedEnvironment("own", tells).grade(task("Lovelace"), "Is it lovelace?", scope=SCOPE)
    assert repeated.text == told["text"]


async def test_our_own_words_for_a_score_are_no_leak() -> None:
    found = await load_grader("exact").grade(task("right"), "left", scope=SCOPE)
    assert found.score == 0
    assert found.text.startswith("The answer is not right. Measured by: ")


def test_a_grader_whose_file_raises_is_told_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my graders.py").write_text("\n1 / 0\n")
    with pytest.raises(ConfigError, match=r"ZeroDivisionError: division by zero \(my graders.py:2\)"):
        load_grader("my graders.py:grade")
