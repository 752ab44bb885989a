"""MBPP: short functions to write from a sentence and three tests (Austin et al., 2021).

Splits are the authors': task_id 11-510 test, 511-600 gate (their validation), 601-974 train; 1-10 are their
examples for prompts. As in the paper, the tests stand in the question.
"""

import builtins
import re
from functools import cache
from typing import Any

from selfwire.core.protocols import Sandbox
from selfwire.core.task import Splits, Task
from selfwire.evals.benchmarks.benchmark import Benchmark, TrivialRule, sample_tasks
from selfwire.evals.benchmarks.programs import CODE_FORM, make_unit_tests
from selfwire.evals.benchmarks.sources import read_rows
from selfwire.tools.python import PythonTool

RANGES = {"train": (601, 974), "gate": (511, 600), "test": (11, 510)}
"""First and last task_id of each split."""


@cache
def load_problems() -> tuple[dict[str, Any], ...]:
    """The 974 problems: task_id, text, code, test_setup_code and test_list."""
    return tuple(read_rows("mbpp/mbpp.jsonl"))


def to_task(problem: dict[str, Any]) -> Task:
    """Make a task of a problem."""
    setup = [problem["test_setup_code"]] if problem["test_setup_code"].strip() else []
    tests = "\n".join([*setup, *problem["test_list"]])
    return Task(
        id=f"mbpp-{problem['task_id']}",
        input=f"{problem['text']}\nYour code must pass these tests:\n\n```python\n{tests}\n```\n\n{CODE_FORM}",
        kind="function",
        reference={"before": "", "name": "", "tests": tests},
        entities=(" ".join(problem["text"].lower().split()),),
    )


@cache
def load_tasks(split: str) -> tuple[Task, ...]:
    """The tasks of a split; train and gate leave out sentences that also stand in a later split."""
    first, last = RANGES[split]
    found = tuple(to_task(problem) for problem in load_problems() if first <= problem["task_id"] <= last)
    later = {"train": ("gate", "test"), "gate": ("test",), "test": ()}[split]
    taken = {entity for other in later for task in load_tasks(other) for entity in task.entities}
    return tuple(task for task in found if not taken.intersection(task.entities))


def make_splits(seed: int, train: int, gate: int, test: int) -> Splits:
    """Tasks of the authors' splits, shuffled by the seed; ConfigError if a split has fewer."""
    sizes = {"train": train, "gate": gate, "test": test}
    return Splits(
        **{split: sample_tasks("mbpp", split, load_tasks(split), size, seed) for split, size in sizes.items()}
    )


def make_empty_function(question: str) -> str:
    """The trivial baseline: an empty function with the name that the first test calls."""
    test = re.search(r"^assert\b(.*)", question, re.MULTILINE)
    called = re.findall(r"([a-zA-Z_]\w*)\s*\(", test[1] if test else "")
    own = [name for name in called if not hasattr(builtins, name) and name != "math"]
    return f"```python\ndef {own[0] if own else 'f'}(*_):\n    pass\n```"


def mbpp(sandbox: Sandbox) -> Benchmark:
    """The benchmark, with programs run in a sandbox."""
    return Benchmark(
        name="mbpp",
        description="Short Python functions to write from a sentence and three unit tests, in the authors' splits.",
        load=make_splits,
        environment=make_unit_tests("mbpp", sandbox),
        toolbox={"python": PythonTool(sandbox)},
        tools=("python",),
        baseline=TrivialRule("empty function", make_empty_function),
    )
