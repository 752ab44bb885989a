"""GSM8K: school arithmetic in words, graded by its own rule (Cobbe et al., 2021).

The answer is the number behind "####", thousands separators apart. The 1,319 tasks are the authors' test set;
train and gate are drawn from it too, and share none.
"""

from functools import cache

from selfwire.core.errors import GradingError
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Task
from selfwire.evals.answers import find_marked_number, parse_number
from selfwire.evals.benchmarks.benchmark import Benchmark, TrivialRule, make_disjoint_splits
from selfwire.evals.benchmarks.sources import read_rows
from selfwire.tools.calculator import CalculatorTool

FORM = "End with a line that holds '#### ' and then only the number."


@cache
def load_tasks() -> tuple[Task, ...]:
    """The test set; the reference is the number behind the mark, as a text."""
    return tuple(
        Task(
            id=f"gsm8k-{number}",
            input=f"{one['question']}\n{FORM}",
            kind="arithmetic",
            reference=one["answer"].rpartition("####")[2].strip(),
        )
        for number, one in enumerate(read_rows("gsm8k/test.jsonl"))
    )


class Gsm8kEnvironment:
    """Compares the number behind the mark with the reference."""

    name = "gsm8k"

    async def grade(self, task: Task, answer: str, *, scope: Scope) -> Feedback:
        """Score 1 for the right number, else 0.

        Raises:
            GradingError: the task has no number as its reference.
        """
        gold = parse_number(task.reference) if isinstance(task.reference, str) else None
        if gold is None:
            raise GradingError(f"GSM8K task {task.id!r} has no number as reference: {task.reference!r}")
        given = find_marked_number(answer)
        if given is None:
            return Feedback(score=0.0, solved=False, text="Format fault: there is no number behind '####'.")
        if given == gold:
            return Feedback(score=1.0, solved=True, text="The answer is right.")
        return Feedback(score=0.0, solved=False, text="The answer is wrong.")


def gsm8k() -> Benchmark:
    """The benchmark."""
    return Benchmark(
        name="gsm8k",
        description="School arithmetic in words; the number behind '####' is compared.",
        load=lambda seed, train, gate, test: make_disjoint_splits(load_tasks(), seed, train, gate, test),
        environment=Gsm8kEnvironment(),
        toolbox={"calculator": CalculatorTool()},
        tools=("calculator",),
        baseline=TrivialRule("always 5", lambda question: "#### 5"),
    )
