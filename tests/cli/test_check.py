"""The command `check`: what the grader rewards and what the tasks can tell, before a call is made."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from selfwire.core.errors import GradingError
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Splits, Task
from selfwire.runs.checking import ANCHORS, find_faults_of_tasks, judge_grader, score_anchors
from tests.commands import call
from tests.graphs.test_own_evolution import APP


class Grades:
    """A grader by a function of reference and answer."""

    name = "grades"

    def __init__(self, score: Callable[[str, str], float]) -> None:
        self.score = score

    async def grade(self, task: Task, answer: str, *, scope: Scope) -> Feedback:
        if answer == "" and self.score("", "fails"):
            raise GradingError("no answer, no grade")
        score = self.score(str(task.reference), answer)
        return Feedback(score=score, solved=score == 1, text="")


TASKS = [Task(id=f"t{n}", input=f"Which {n}? Take town {n}.", reference=f"Town {n}") for n in range(10)]


async def judge(score: Callable[[str, str], float]) -> tuple[list[str], list[str]]:
    return judge_grader(await score_anchors(Grades(score), TASKS))


async def test_a_good_grader_has_no_problem() -> None:
    assert await judge(lambda reference, answer: reference.lower() == answer.lower().rpartition("answer: ")[2]) == (
        [],
        [],
    )


@pytest.mark.parametrize(
    ("score", "problem"),
    [
        (lambda reference, answer: float(len(answer) > 10), "the task's own words scores 1.00, and an evolution finds"),
        (lambda reference, answer: float(reference.lower() in answer.lower()), "the task's own words scores 1.00"),
        (lambda reference, answer: 0.5, "the reference itself scores 0.50 (see task t0): right answers count as wrong"),
        (lambda reference, answer: float("town" in answer.lower()), "the reference of another task scores 1.00"),
        (
            lambda reference, answer: float(answer == "fails"),
            "the grader fails on an empty answer: no answer",
        ),
    ],
)
async def test_what_a_grader_rewards_by_mistake_is_a_problem(score: Callable[[str, str], float], problem: str) -> None:
    problems, _ = await judge(score)
    assert any(found.startswith(problem) for found in problems), problems


async def test_one_fault_of_a_grader_is_one_problem() -> None:
    class Failing(Grades):
        async def grade(self, task: Task, answer: str, *, scope: Scope) -> Feedback:
            raise GradingError("no amount")

    [problem], _ = judge_grader(await score_anchors(Failing(lambda reference, answer: 0.0), TASKS))
    assert problem == "the grader fails on every answer: no amount"


async def test_a_form_that_a_grader_asks_for_is_a_note() -> None:
    problems, notes = await judge(lambda reference, answer: float(answer == f"It follows.\n\nAnswer: {reference}"))
    assert problems == []
    assert [note.partition(" scores")[0] for note in notes] == [
        "the reference itself",
        "the reference in small letters",
    ]


async def test_two_tasks_with_one_reference_are_no_other_task() -> None:
    same = [task.replace(reference="Town") for task in TASKS]
    found = await score_anchors(Grades(lambda reference, answer: float(reference == answer)), same)
    assert [score.tasks for score in found] == [10] * (len(ANCHORS) - 1) + [0]
    assert not judge_grader(found)[0]


def test_faults_of_tasks_are_named() -> None:
    assert find_faults_of_tasks(Splits(train=tuple(TASKS[:5]), test=tuple(TASKS[5:]))) == []
    twice = TASKS[0].replace(id="again")
    bare = TASKS[1].replace(id="bare", input="Other?", reference=None)
    always = tuple(task.replace(reference="yes") for task in TASKS[2:])
    found = find_faults_of_tasks(Splits(train=(*TASKS[:2], twice, bare), test=always))
    assert [fault.partition(":")[0] for fault in found] == [
        "tasks that repeat the text of another", "tasks without a reference",
        "8 of 12 tasks have the reference 'yes'",
    ]  # fmt: skip


def test_the_command_makes_no_call_and_fails_on_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "my.jsonl"
    rows = [{"input": f"Is {n} even, yes or no?", "reference": "no" if n % 8 else "yes"} for n in range(60)]
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    found = call(tmp_path / "home", "check", "--benchmark", str(file), "--model", "openai:none", code=1)
    assert "with 20 gate tasks, gains below 0.45 cannot be told from chance by the first proof" in found.output
    told = " ".join(found.output.split())
    assert "even if nothing is lost, and below 0.60 where a change also loses 5% of the tasks" in told
    assert "(it has 0.017 of an error of 0.05 over 10 iterations)" in told
    assert "nothing was sent" in found.output
    assert "problem: 52 of 60 tasks have the reference 'no'" in found.output
    assert not (tmp_path / "home").exists()
    assert "there are tasks for" not in found.output
    many = [{"input": f"Which is {n}?", "reference": f"Town {n}"} for n in range(300)]
    file.write_text("\n".join(map(json.dumps, many)), encoding="utf-8")
    left = " ".join(call(tmp_path / "home", "check", "--benchmark", str(file)).output.split())
    assert "with 60 gate tasks, gains below 0.15" in left
    assert "there are tasks for --gate-size 120: with 120 gate tasks, gains below 0.07 cannot be told" in left
    file.write_text("\n".join(json.dumps(rows[at // 10]) for at in range(600)), encoding="utf-8")
    twice = call(tmp_path / "home", "check", "--benchmark", str(file), "--gate-size", "60", code=1)
    assert "with 6 gate tasks no gain can be told from chance, so none is accepted" in twice.output
    assert "cannot accept anything with 6 gate tasks" in twice.output
    few = call(tmp_path / "home", "check", "--benchmark", "archive", "--gate-size", "5", code=1)
    assert "cannot accept anything with 5 gate tasks" in few.output
    good = call(tmp_path / "home", "check", "--benchmark", "archive")
    assert "no problem was found; what can be proved with so many tasks is said above" in good.output


def test_a_graph_of_ones_own_is_checked_before_it_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop_app.py").write_text(APP, encoding="utf-8")
    monkeypatch.setenv("MY_MODEL", "http://127.0.0.1:9/v1")  # where nobody answers
    rows = [{"input": f"Message {n} from {n}. Which desk?", "reference": f"desk {n}"} for n in range(240)]
    Path("my.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    asked = ("check", "--benchmark", "my.jsonl", "--grader", "contains", "--method")
    told = 'shop_app.py:graph is asked with the input {"question": "{question}"}, and its answer is the field answer'
    found = " ".join(call(tmp_path / "home", *asked, "shop_app.py:graph").output.split())
    assert told in found
    assert "dry run of shop_app.py:graph on" in found
    assert "the offline model costs nothing; name yours with --model" in found
    answered = ("--set", "answer=wish", "--name", "mine")
    call(tmp_path / "home", "adopt", "shop_app.py:graph", *answered)
    saved = " ".join(call(tmp_path / "home", *asked, "mine", "--model", "openai:gpt-4o-mini").output.split())
    assert f"{told.removesuffix('answer')}wish" in saved
    assert "costs nothing" not in saved
    assert "there is no method 'single'" in call(tmp_path / "home", *asked, "single", code=2).output
    Path("open_app.py").write_text(APP.replace("    question: str", "    left: str\n    right: str"), encoding="utf-8")
    refused = " ".join(call(tmp_path / "home", *asked, "open_app.py:graph", code=2).output.split())
    assert "several text fields could be it: left, right" in refused
    given = call(tmp_path / "home", *asked, "open_app.py:graph", "--set", 'input={"left": "{question}"}').output
    assert 'is asked with the input {"left": "{question}"}' in " ".join(given.split())
