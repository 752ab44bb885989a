"""GSM8K: school arithmetic in words, graded by its own rule (Cobbe et al., 2021).

The answer is the number behind "####"; thousands separators do not count. The 1,319 tasks are the authors' test set;
all three splits are drawn from it and share no task.
"""

from functools import cache

from selfwire.core.errors import GradingError
from selfwire.core.task import Feedback, Task
from selfwire.evals.benchmarks.benchmark import (
    RIGHT,
    Benchmark,
    RuleEnvironment,
    TrivialRule,
    make_disjoint_loader,
    reject,
)
from selfwire.evals.benchmarks.sources import read_rows
from selfwire.evals.graders import find_marked_number, parse_number
from selfwire.tools.calculator import CalculatorTool

FORM = "End with a line that holds '#### ' and then only the number."


@cache
def load_tasks() -> tuple[Task, ...]:
    """The test set; the reference is the number behind the mark, as a text."""
    return tuple(
        Task(
            id=f"gsm8k-{number}",
            input=f"{row['question']}\n{FORM}",
            kind="arithmetic",
            reference=row["answer"].rpartition("####")[2].strip(),
        )
        for number, row in enumerate(read_rows("gsm8k/test.jsonl"))
    )


def grade(task: Task, answer: str) -> Feedback:
    """Compare the number behind the mark with the reference."""
    gold = parse_number(task.reference) if isinstance(task.reference, str) else None
    if gold is None:
        raise GradingError(f"GSM8K task {task.id!r} has no number as reference: {task.reference!r}")
    given = find_marked_number(answer)
    if given is None:
        return reject("Format fault: there is no number behind '####'.")
    return RIGHT if given == gold else reject("The answer is wrong.")


ENVIRONMENT = RuleEnvironment("gsm8k", grade, "marked_number")
GSM8K = Benchmark(
    name="gsm8k",
    description="School arithmetic in words; the number behind '####' is compared.",
    load=make_disjoint_loader(load_tasks),
    environment=ENVIRONMENT,
    toolbox={"calculator": CalculatorTool()},
    tools=("calculator",),
    baseline=TrivialRule("always 5", lambda question: "#### 5"),
)
