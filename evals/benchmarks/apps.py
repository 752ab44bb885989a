"""APPS: programs that read standard input and print, in three difficulties (Hendrycks et al., 2021).

The tasks are a published selection of 150, all of them as programs: where APPS asks for a function, its arguments
come one per line and its result is printed. Rows that repeat a task are left out. A program passes if it prints the
expected output for every test: the same words in the same lines, numbers to six digits. Where several answers are
right, only the known one counts, as in the authors' grading.
"""

import math
import signal
from functools import cache, partial
from typing import Any

from pydantic import TypeAdapter, ValidationError

from selfwire.core.errors import GradingError
from selfwire.core.protocols import MEBIBYTE, Execution, Limits, Sandbox
from selfwire.core.task import Feedback, Task
from selfwire.core.values import to_plain_json
from selfwire.evals.benchmarks.benchmark import Benchmark, RuleEnvironment, TrivialRule, make_disjoint_loader
from selfwire.evals.benchmarks.programs import CODE_FORM, describe_error, find_program, run_driver
from selfwire.evals.benchmarks.sources import read_rows
from selfwire.tools.python import PythonTool

EACH = Limits(seconds=30, processor=12)
"""Limits of a program on one input."""
TOGETHER = EACH.replace(seconds=120, output=64 * MEBIBYTE)
"""Limits of a program on all inputs of a task."""
EXAMPLES, LONGEST = 3, 600
"""Most examples in a question, and most characters of each."""

_AS_FUNCTION = """\
Write it as a program: it reads the arguments of this function from standard input, one per line (texts as they \
are, lists as Python writes them), and prints the function's result as Python's print does.
{signature}
{examples}"""


@cache
def load_tasks() -> tuple[Task, ...]:
    """Load the distinct tasks of the selection."""
    found = {problem["name"]: problem for problem in reversed(read_rows("apps/selected150.jsonl"))}
    return tuple(
        Task(
            id=f"apps-{problem['name']}",
            input=f"{problem['description'].strip()}\n\n{_describe_format(problem)}\n{CODE_FORM}",
            kind=problem["difficulty"],
            reference=[[test["input"], str(test["output"][0])] for test in problem["test_list"]],
        )
        for problem in reversed(found.values())
    )


def _describe_format(problem: dict[str, Any]) -> str:
    signature = problem["starter_code"].strip()
    if not signature:
        return "Write a program that reads standard input and prints the result."
    shown = [f"Input:\n{example['input']}\nOutput:\n{example['output'][0]}" for example in problem["sample_io"]]
    short = [example for example in shown if len(example) <= LONGEST][:EXAMPLES]
    return _AS_FUNCTION.format(signature=signature, examples="\n\n".join(short)).rstrip()


async def grade(sandbox: Sandbox, task: Task, answer: str) -> Feedback:
    """Score 1 if every test passes; the reference is a list of [input, output], and hidden tests are not quoted.

    Raises:
        GradingError: the task has no tests.
        SandboxError: the sandbox failed.
    """
    tests = to_plain_json(task.reference)
    if not isinstance(tests, list) or not tests:
        raise GradingError(f"task {task.id!r} has no tests as its reference")
    runs, whole = await _run_inputs(sandbox, find_program(answer), [given for given, _ in tests])
    pairs = zip(runs, tests, strict=False)
    right = [done.exit_status == 0 and is_same_output(done.stdout, expected) for done, (_, expected) in pairs]
    passed = [*right, False].index(False)
    details = {"passed": passed, "tests": len(tests)}
    if passed == len(tests):
        return Feedback(score=1.0, solved=True, text="All tests pass.", details=details)
    failed = runs[passed] if passed < len(runs) else whole
    why = "It printed something else than expected." if failed.exit_status == 0 else describe_error(failed, EACH)
    text = f"Test {passed + 1} of {len(tests)} fails. {why}"
    return Feedback(score=0.0, solved=False, text=text, details=details)


def make_environment(sandbox: Sandbox) -> RuleEnvironment:
    """The rule with programs run in a sandbox."""
    return RuleEnvironment("apps", partial(grade, sandbox), "unit_tests")


async def _run_inputs(sandbox: Sandbox, program: str, inputs: list[str]) -> tuple[list[Execution], Execution]:
    request = {"program": program, "inputs": inputs, "seconds": EACH.seconds}
    whole = await run_driver(sandbox, "many_inputs.py", request, TOGETHER)
    try:
        report = _REPORT.validate_json(whole.stdout)
    except ValidationError:  # the program stopped the driver, or wrote over its report
        return [], whole.replace(exit_status=whole.exit_status or None)
    runs = [
        Execution(exit_status=status, stdout=stdout, stderr=stderr, timed_out=status in (None, -signal.SIGXCPU))
        for status, stdout, stderr in report
    ]
    return runs, whole


_REPORT: TypeAdapter[list[tuple[int | None, str, str]]] = TypeAdapter(list[tuple[int | None, str, str]])


def is_same_output(printed: str, expected: str) -> bool:
    """Whether two outputs have the same words in the same lines; space and blank lines at the ends do not count."""
    lines = [[line.split() for line in text.strip().splitlines()] for text in (printed, expected)]
    return [len(line) for line in lines[0]] == [len(line) for line in lines[1]] and all(
        _same_word(word, other)
        for line, wanted in zip(*lines, strict=True)
        for word, other in zip(line, wanted, strict=True)
    )


def _same_word(word: str, wanted: str) -> bool:
    if word == wanted:
        return True
    if "." not in wanted and "e" not in wanted.lower():
        return False  # whole numbers are exact
    try:
        return math.isclose(float(word), float(wanted), rel_tol=1e-6, abs_tol=1e-9)
    except ValueError:
        return False


ECHO = "```python\nprint(input())\n```"
"""The trivial baseline: a program that prints the first line of its input."""


def apps(sandbox: Sandbox) -> Benchmark:
    """The benchmark, with programs run in a sandbox."""
    return Benchmark(
        name="apps",
        description="Programs for standard input and output, introductory to competition, graded by hidden tests.",
        load=make_disjoint_loader(load_tasks),
        environment=make_environment(sandbox),
        toolbox={"python": PythonTool(sandbox)},
        tools=("python",),
        baseline=TrivialRule("echo", lambda question: ECHO),
    )
