"""MATH-500: competition mathematics, graded by the library math-verify (Hendrycks et al., 2021; Lightman et al., 2023).

Symbolic comparison can take forever, and math-verify's own alarm works on the main thread only. So it runs in
processes that are killed when their time is up, which is an error of the grader and no score. The 500 tasks are a test
set; all three splits are drawn from it and share no task.
"""

import asyncio
from collections.abc import Callable
from functools import cache
from typing import Any

from pydantic import ValidationError

from selfwire.core.errors import GradingError
from selfwire.core.task import Feedback, Task
from selfwire.core.values import FrozenModel
from selfwire.evals.benchmarks.benchmark import (
    RIGHT,
    Benchmark,
    RuleEnvironment,
    TrivialRule,
    get_text_reference,
    make_disjoint_loader,
    reject,
)
from selfwire.evals.benchmarks.sources import read_rows
from selfwire.evals.graders import find_boxed
from selfwire.tools.calculator import CalculatorTool
from selfwire.tools.worker_pool import ToolWorkerError, WorkerPool

FORM = "Put the final answer into \\boxed{}."
WORKER = "selfwire.evals.benchmarks.math_worker"
LONGEST = 20_000
"""Characters of an answer that are read, from its end, as the final answer is there."""


@cache
def load_tasks() -> tuple[Task, ...]:
    """All tasks; the reference is the gold answer in LaTeX, the kind is the subject."""
    return tuple(
        Task(
            id=row["unique_id"].removeprefix("test/").removesuffix(".json").replace("/", "-"),
            input=f"{row['problem']}\n{FORM}",
            kind=row["subject"],
            reference=row["answer"],
        )
        for row in read_rows("math500/test.jsonl")
    )


class MathComparison(FrozenModel):
    """A worker's reply: whether it could read the answer, and whether that is right."""

    read: bool
    right: bool


class Comparer:
    """A comparison in worker processes, with the limits of a `WorkerPool`."""

    def __init__(self, **limits: Any) -> None:
        self._pool = WorkerPool(**{"module": WORKER, **limits})

    def compare(self, gold: str, answer: str) -> MathComparison:
        """Compare an answer with the gold answer; blocks. GradingError if the time was up or the worker broke."""
        try:
            return MathComparison.model_validate(self._pool.ask({"gold": gold, "answer": answer}))
        except (ToolWorkerError, ValidationError) as error:
            why = f"math-verify could not compare the answer ...{answer[-80:]!r}: {error}"
            raise GradingError(why) from error


@cache
def get_comparer() -> Comparer:
    """Make the workers of this process."""
    return Comparer()


def make_environment(compare: Callable[[str, str], MathComparison]) -> RuleEnvironment:
    """Compare the boxed answer with the reference, as mathematics; `compare` blocks and takes the gold answer first."""

    async def grade(task: Task, answer: str) -> Feedback:
        gold = get_text_reference(task, "MATH")
        given = find_boxed(answer[-LONGEST:])
        if given is None:
            return reject("Format fault: there is no answer in \\boxed{}.")
        comparison = await asyncio.to_thread(compare, gold, given)
        if comparison.right:
            return RIGHT
        if not comparison.read:
            return reject("Format fault: what is in \\boxed{} is no mathematics.")
        return reject("The answer is wrong.")

    return RuleEnvironment("math500", grade, "mathematics")


MATH500 = Benchmark(
    name="math500",
    description="Competition mathematics; the boxed answer is compared as mathematics.",
    load=make_disjoint_loader(load_tasks),
    environment=make_environment(lambda gold, answer: get_comparer().compare(gold, answer)),
    toolbox={"calculator": CalculatorTool()},
    tools=("calculator",),
    baseline=TrivialRule("always 3", lambda question: "\\boxed{3}"),
)
