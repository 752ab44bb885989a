"""Benchmarks whose data is pinned but not on every machine: made-up files of the same form take its place."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from selfwire.core.errors import GradingError
from selfwire.core.scope import Scope
from selfwire.core.task import Task
from selfwire.evals.benchmarks import ambignq, hover, mmlu
from selfwire.evals.benchmarks.catalogue import load_benchmark
from selfwire.evals.benchmarks.sources import list_sources
from tests.evals.benchmarks.sweeps import graded, solved

SUBJECTS = ("mmlu/astronomy_test.csv", "mmlu/virology_test.csv")
AMBIGUOUS = {
    "id": "a1",
    "question": "Who sang it?",
    "annotations": [
        {"type": "singleAnswer", "answer": ["Ann Lee", "Lee"]},
        {"type": "multipleQAs", "qaPairs": [{"question": "Who sang it live?", "answer": ["Bo Ray"]}]},
    ],
}
PLAIN = {"id": "a2", "question": "When?", "annotations": [{"type": "singleAnswer", "answer": ["1950", "1950"]}]}
CLAIMS = [
    {"uid": f"u{n}", "claim": f"Claim {n}.", "label": label, "num_hops": 2 + n % 3}
    for n, label in enumerate(["SUPPORTED", "NOT_SUPPORTED"] * 4)
]


@pytest.fixture(autouse=True)
def made_up_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in SUBJECTS:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        with (tmp_path / name).open("w", encoding="utf-8", newline="") as out:
            rows = [[f"{name}, {n}?", "w\nx", "x", '"y"', "z", n % 4] for n in range(8)]
            csv.writer(out).writerows([["question", "choice0", "choice1", "choice2", "choice3", "answer"], *rows])
    others = {"ambignq/dev_light.json": [AMBIGUOUS, PLAIN] * 2, "hover/hover_dev_release_v1.1.json": CLAIMS}
    for name, content in others.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(json.dumps(content))
    for module in (mmlu, ambignq, hover):
        monkeypatch.setattr(module, "find_source", lambda name: tmp_path / name)
        module.load_tasks.cache_clear()
    monkeypatch.setattr(mmlu, "list_sources", lambda: SUBJECTS)
    yield
    for module in (mmlu, ambignq, hover):
        module.load_tasks.cache_clear()


def test_each_file_is_pinned() -> None:
    named = [name for name in list_sources() if name.startswith(("mmlu/", "ambignq/", "hover/"))]
    assert len(named) == 57 + 1 + 1
    assert set(SUBJECTS) < set(named)
    assert all(list_sources()[name].address.count("/") > 6 for name in named)


@pytest.mark.parametrize(("name", "right"), [("mmlu", "Answer: {}"), ("hover", "So: \nAnswer: **{}.**")])
async def test_gold_answers_have_full_marks_and_the_trivial_rule_its_share(name: str, right: str) -> None:
    made = load_benchmark(name)
    tasks = (mmlu if name == "mmlu" else hover).load_tasks()
    assert len({task.id for task in tasks}) == len(tasks)
    assert solved(await graded(made.environment, tasks, lambda task: right.format(task.reference))) == len(tasks)
    share = {"mmlu": 0.25, "hover": 0.5}[name]
    guessed = solved(await graded(made.environment, tasks, lambda task: made.baseline.answer(task.input)))
    assert guessed == share * len(tasks)
    assert solved(await graded(made.environment, tasks, lambda task: "no line of an answer")) == 0
    with pytest.raises(GradingError, match="no text as reference"):
        await made.environment.grade(tasks[0].replace(reference=None), "Answer: (A)", scope=Scope())


def test_a_question_lists_its_options_and_its_subject_is_its_kind() -> None:
    first = mmlu.load_tasks()[1]
    assert first.input.startswith('mmlu/astronomy_test.csv, 1?\n(A) w\nx\n(B) x\n(C) "y"\n(D) z\nEnd with')
    assert (first.kind, first.reference) == ("astronomy", "(B)")


@pytest.mark.parametrize(("answer", "score"), [("Lee", 1), ("bo ray", 1), ("Ann", 2 / 3), ("somebody", 0)])
async def test_any_reading_of_an_ambiguous_question_may_be_answered(answer: str, score: float) -> None:
    made, task = load_benchmark("ambignq"), ambignq.load_tasks()[0]
    feedback = await made.environment.grade(task, f"Answer: {answer}", scope=Scope())
    assert feedback.score == pytest.approx(score)
    assert feedback.solved or "word overlap (F1)" in feedback.text
    assert [(one.kind, one.reference) for one in ambignq.load_tasks()[:2]] == [
        ("ambiguous", ("Ann Lee", "Lee", "Bo Ray")),
        ("plain", ("1950",)),
    ]


@pytest.mark.parametrize("answer", ["perhaps", "supported by two articles", "unsupported"])
async def test_a_claim_is_judged_by_one_of_two_labels(answer: str) -> None:
    feedback = hover.grade(Task(id="t", input="?", reference="supported"), f"Answer: {answer}")
    assert (feedback.score, feedback.text.partition(":")[0]) == (0, "Format fault")
    wrong = hover.grade(Task(id="t", input="?", reference="supported"), "Answer: Not_Supported")
    assert wrong.text == "The answer is wrong."
