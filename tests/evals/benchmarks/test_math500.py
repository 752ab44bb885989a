import asyncio
import sys

import pytest

from selfwire.core.errors import GradingError
from selfwire.core.scope import Scope
from selfwire.core.task import Task
from selfwire.evals.benchmarks import math500
from selfwire.evals.benchmarks.math500 import Comparer, make_environment
from tests.benchmark_data import needs_data
from tests.evals.benchmarks.sweeps import graded, solved, unsolved
from tests.samples import sample

HANGING = """
import sys, time
for line in sys.stdin:
    time.sleep(600 if "hang" in line else 0)
    print('{"read": true, "right": true}', flush=True)
"""


@pytest.mark.slow
@pytest.mark.sweep
@needs_data
async def test_gold_answers_have_full_marks_and_others_none() -> None:
    everything, environment = math500.load_tasks(), math500.MATH500.environment
    assert len(everything) == 500
    tasks = sample(everything)
    gold = await graded(environment, tasks, lambda task: f"Thus the answer is $\\boxed{{{task.reference}}}$.")
    assert unsolved(gold) == {}
    assert len(gold) == len(tasks)
    assert solved(await graded(environment, tasks, lambda task: "\\boxed{\\frac{17}{31}}")) == 0
    threes = sum(task.reference == "3" for task in tasks)
    assert sum(task.reference == "3" for task in everything) == 19
    assert solved(await graded(environment, tasks, lambda task: math500.MATH500.baseline.answer(task.input))) == threes


@pytest.mark.parametrize(
    ("answer", "gold", "right"),
    [
        ("\\boxed{0.5}", "\\frac{1}{2}", True),
        ("\\boxed{\\dfrac12}", "\\frac{1}{2}", True),
        ("\\boxed{x^2+2x+1}", "(x+1)^2", True),
        ("\\boxed{(1,2)}", "(1, 2)", True),
        ("\\boxed{3} no, \\boxed{4}", "4", True),
        ("\\boxed{2,1}", "1,2", True),
        ("\\boxed{(2,1)}", "(1,2)", False),
        ("\\boxed{0.49}", "\\frac{1}{2}", False),
        ("\\boxed{3} no, \\boxed{", "4", False),
        ("\\boxed{4} or \\boxed{3}", "4", False),
        ("\\boxed{3 \\text{ or } 4}", "4", False),
        ("\\boxed{3, 4}", "4", False),
        ("\\boxed{}", "4", False),
        ("4", "4", False),
        ("no idea", "4", False),
        ("", "4", False),
    ],
)
async def test_answers_are_compared_as_mathematics(answer: str, gold: str, right: bool) -> None:
    environment = math500.MATH500.environment
    feedback = await environment.grade(Task(id="t", input="?", reference=gold), answer, scope=Scope())
    assert feedback.solved is right


async def test_what_takes_too_long_is_an_error_and_the_next_goes_on() -> None:
    comparer = Comparer(patience=1, module=(sys.executable, "-c", HANGING))
    environment = make_environment(comparer.compare)
    task = Task(id="t", input="?", reference="4")
    assert (await environment.grade(task, "\\boxed{4}", scope=Scope())).solved
    late = [environment.grade(task, "\\boxed{hang}", scope=Scope()) for _ in range(4)]
    for error in await asyncio.gather(*late, return_exceptions=True):
        assert isinstance(error, GradingError)
        assert "or 1 in all" in str(error)
    assert (await environment.grade(task, "\\boxed{4}", scope=Scope())).solved


@pytest.mark.skipif(sys.platform == "win32", reason="processor time is not bounded there")
async def test_what_computes_for_too_long_is_an_error_and_who_waits_for_a_processor_has_its_time() -> None:
    task, tower = Task(id="t", input="?", reference="4"), "\\boxed{4^{4^{4^{4^{4}}}}}"
    comparer = Comparer(seconds=4)
    with pytest.raises(GradingError, match="more than 4 seconds to compute or 300 in all"):
        await make_environment(comparer.compare).grade(task, tower, scope=Scope())
    for _ in range(3):  # each has its own seconds
        assert (await make_environment(comparer.compare).grade(task, "\\boxed{2^2}", scope=Scope())).solved


@pytest.mark.parametrize("code", ["import sys; sys.exit(1)", "print('no JSON')", "input()", ""])
async def test_a_worker_that_breaks_or_cannot_start_is_an_error_and_no_zero(code: str) -> None:
    command = (sys.executable, "-c", code) if code else ("/there/is/no/worker",)
    environment = make_environment(Comparer(module=command).compare)
    for _ in range(3):
        with pytest.raises(GradingError, match="math-verify could not compare"):
            await environment.grade(Task(id="t", input="?", reference="4"), "\\boxed{4}", scope=Scope())
