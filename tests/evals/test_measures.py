"""Feedback on a wrong answer names what is measured and what that rewards, and never the reference."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from selfwire.core.protocols import Environment
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Task
from selfwire.core.values import to_plain_json
from selfwire.evals.benchmarks.archive import archive
from selfwire.evals.benchmarks.catalogue import NAMES, load_benchmark
from selfwire.evals.benchmarks.plancraft import PLANCRAFT
from selfwire.evals.graders import MEASURES, NAMED, load_grader
from selfwire.evals.judge import JudgeEnvironment, RubricScore
from tests.benchmark_data import PINNED, needs_data
from tests.sandboxed import needs_sandbox
from tests.scripted import ScriptedModel

SCOPE = Scope(task="t")
WRONG = "def f(): return 417\n#### 417000001\n\\boxed{417000001}\nCalls:\nAnswer: vermilion zebra 417000001"
REWARDS: Mapping[str, str] = {
    **dict.fromkeys(("hotpotqa", "2wikimultihopqa", "deepresearcher"), "word overlap (F1)"),
    **dict.fromkeys(("humaneval", "mbpp", "apps"), "all hidden unit tests"),
    **dict.fromkeys(("archive", "dealt", "newborn"), "exact match of the line 'Answer:'"),
    "one-room": "the share of its parts that are right",
    "stages": "the share of files with the right stamp",
    "plancraft": "the simulator must reach the goal",
    "math500": "mathematically equal",
    "gsm8k": "the number behind '####'",
    **dict.fromkeys(("bbh", "shelfmarks"), "exact match of the line 'Answer:'"),
    "workbench": "the calls must leave the tables",
    **dict.fromkeys(NAMED, ""),
    "exact": "character by character",
    "em": "exact match",
    "f1": "word overlap (F1)",
    "contains": "must contain the expected one",
    "numeric": "to six digits",
}
OWN = Task(id="own", input="How long is it?", reference="1280 metres")


def _list_texts(reference: Any) -> Iterator[str]:
    if isinstance(reference, Mapping):
        reference = list(reference.values())
    if isinstance(reference, list):
        for one in reference:
            yield from _list_texts(one)
    else:
        yield str(reference)


async def _grade_wrong(environment: Environment, task: Task, answer: str = WRONG) -> Feedback:
    feedback = await environment.grade(task, answer, scope=SCOPE)
    assert not feedback.solved
    public = f"{task.input}\n{answer}".lower()
    secrets = [one for one in _list_texts(to_plain_json(task.reference)) if len(one) > 3 and one.lower() not in public]
    assert not [secret for secret in secrets if secret.lower() in feedback.text.lower()]
    return feedback


@pytest.mark.parametrize("name", sorted(NAMED))
async def test_named_graders(name: str) -> None:
    feedback = await _grade_wrong(load_grader(name), OWN)
    assert REWARDS[name] in feedback.text
    assert "Measured by: " in feedback.text


@needs_data
@needs_sandbox
@pytest.mark.parametrize("name", sorted(set(NAMES) - {"archive", "plancraft", "tariffs", *PINNED}))
async def test_published_benchmarks(name: str) -> None:
    benchmark = load_benchmark(name)
    [task] = benchmark.splits(0, train=1, gate=0, test=0).train
    assert REWARDS[name] in (await _grade_wrong(benchmark.environment, task)).text


async def test_benchmarks_that_need_no_data() -> None:
    made = archive(size=60)
    [task] = made.splits(0, train=1, gate=0, test=0).train
    assert REWARDS["archive"] in (await _grade_wrong(made.environment, task)).text
    [craft] = PLANCRAFT.splits(0, train=1, gate=0, test=0).train
    feedback = await PLANCRAFT.environment.grade(craft, WRONG, scope=SCOPE)
    assert REWARDS["plancraft"] in feedback.text


async def test_a_judge_names_the_rubric() -> None:
    model = ScriptedModel(RubricScore=RubricScore(grounds="It says 1280 metres.", score=0.2))
    feedback = await _grade_wrong(JudgeEnvironment("1 if the length is given in metres.").with_model(model), OWN)
    assert feedback.text.endswith("Measured by: a judge who goes by this rubric: 1 if the length is given in metres.")


async def test_a_right_answer_needs_no_measure() -> None:
    feedback = await load_grader("f1").grade(OWN, "1280 metres", scope=SCOPE)
    assert feedback.text == "The answer is right."


def test_every_named_grader_has_a_sentence() -> None:
    assert set(NAMED) <= set(MEASURES)
