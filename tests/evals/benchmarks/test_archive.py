from collections import Counter

import pytest

from selfwire.core.errors import ConfigError
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Task
from selfwire.evals.benchmarks.archive import (
    ENVIRONMENT,
    KINDS,
    archive,
    choose_first_option,
    generate_archive,
    normalise,
)

ARCHIVE = generate_archive(100)


async def assessed(answer: str, question: str = "Who founded Brol Works?") -> Feedback:
    return await ENVIRONMENT.grade(Task(id="t", input=question, reference="Ada Tron"), answer, scope=Scope())


def test_size_seed_and_mix_of_kinds() -> None:
    assert generate_archive(100) == ARCHIVE
    assert generate_archive(100, seed=1).tasks[0].input != ARCHIVE.tasks[0].input
    assert len(generate_archive(7).tasks) == 7
    assert Counter(task.kind for task in ARCHIVE.tasks) == {kind: 25 if kind == "single" else 15 for kind in KINDS}
    with pytest.raises(ConfigError, match="from 1 to 100,000 tasks"):
        generate_archive(0)


def test_questions_ids_and_titles_are_unique_and_entities_have_pages() -> None:
    titles = [page.title for page in ARCHIVE.documents]
    assert len(titles) == len(set(titles))
    assert len({task.id for task in ARCHIVE.tasks}) == len(ARCHIVE.tasks)
    assert {entity for task in ARCHIVE.tasks for entity in task.entities} == set(titles)


def test_every_name_in_an_answer_is_in_the_documents_and_every_subject_has_a_page() -> None:
    text = normalise(" ".join(f"{page.title} {page.text}" for page in ARCHIVE.documents))
    for task in ARCHIVE.tasks:
        assert any(entity in task.input for entity in task.entities)
        if task.kind in ("single", "bridge", "comparison", "intersection"):
            assert normalise(task.reference) in text


def test_sums_are_positive_numbers() -> None:
    for task in ARCHIVE.tasks:
        if task.kind in ("temporal", "counting"):
            assert int(task.reference) >= 1


@pytest.mark.parametrize(
    "answer", ["Answer: Ada Tron", "notes\n**Answer:** the ada tron.", "Answer: x\nanswer : Ada Tron"]
)
async def test_the_last_answer_line_counts_after_normalisation(answer: str) -> None:
    assert (await assessed(answer)).solved


@pytest.mark.parametrize(
    ("answer", "question", "text"),
    [
        ("Ada Tron", "Who founded Brol Works?", "Format fault: there is no line"),
        ("Answer:", "Who founded Brol Works?", "Format fault: there is no line"),
        ("Answer: unknown", "Who founded Brol Works?", "leaves the question open"),
        ("Answer: 1901", "Who founded Brol Works?", "not a name"),
        ("Answer: Brol", "How many people live in Vask?", "not a number"),
        ("Answer: long ago", "When was Brol Works founded?", "not a year"),
        ("Answer: it was one two three four five six seven", "Who founded Brol Works?", "longer than"),
        ("Answer: Ida Tron", "Who founded Brol Works?", "The answer is wrong."),
    ],
)
async def test_feedback_says_what_question_and_answer_tell(answer: str, question: str, text: str) -> None:
    feedback = await assessed(answer, question)
    assert (feedback.score, feedback.solved) == (0, False)
    assert text in feedback.text


def test_numbers_are_compared_without_separators() -> None:
    assert normalise("The 567,890.") == normalise("567890")
    assert normalise("1,2") != normalise("12")


async def test_a_canary_in_the_reference_never_shows_in_feedback() -> None:
    canary = "Zanzibarquux 7319"
    answers = ["", "Answer:", "Answer: unknown", "Answer: 12", "Answer: Ada", "Answer: " + "word " * 20, "free text"]
    for task in ARCHIVE.tasks:
        planted = task.replace(reference=canary)
        for answer in answers:
            feedback = await ENVIRONMENT.grade(planted, answer, scope=Scope())
            shown = feedback.model_dump_json().lower()
            assert "zanzibar" not in shown
            assert "7319" not in shown
        assert canary not in planted.question.model_dump_json()


async def test_the_trivial_baseline_guesses_the_first_option() -> None:
    assert choose_first_option("Which was founded earlier, Brol Works or Tas Press?\nEnd so.") == "Answer: Brol Works"
    benchmark = archive(200)
    tasks = benchmark.splits(0, train=0, gate=0, test=200).test
    solved = [
        (await benchmark.environment.grade(task, benchmark.baseline.answer(task.input), scope=Scope())).solved
        for task in tasks
    ]
    assert 0.05 < sum(solved) / len(tasks) < 0.2
