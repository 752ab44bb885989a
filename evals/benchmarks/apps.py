"""APPS: programs that read standard input and print, in three difficulties (Hendrycks et al., 2021).

The tasks are a published selection of 150, all of them put as programs: where APPS asks for a function, its
arguments come one per line and its result is printed. Rows of the selection that repeat a task are left out.
A program passes if it prints what is expected for every test: the same words in the same lines, numbers to six
digits. A task that has several right answers is graded against the one that is known, as its authors do it.
"""

import json
import math
import signal
from functools import cache
from importlib.resources import files
from typing import Any

from pydantic import TypeAdapter, ValidationError

from selfwire.core.errors import GradingError
from selfwire.core.execution import MEBIBYTE, Execution, Limits
from selfwire.core.protocols import Sandbox
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Task
from selfwire.core.values import to_plain_json
from selfwire.evals.benchmarks.benchmark import Benchmark, TrivialRule, make_disjoint_splits
from selfwire.evals.benchmarks.programs import CODE_FORM, describe_error, find_program
from selfwire.evals.benchmarks.sources import read_rows
from selfwire.tools.python import PythonTool

EACH = Limits(seconds=30, processor=12)
"""Of a program on one input."""
TOGETHER = EACH.replace(seconds=120, output=64 * MEBIBYTE)
"""Of a program on all inputs of a task."""
EXAMPLES, LONGEST = 3, 600
"""Examples that a question shows, and characters of each at most."""

_AS_FUNCTION = """\
Write it as a program: it reads the arguments of this function from standard input, one per line (texts as they \
are, lists as Python writes them), and prints the function's result as Python's print does.
{signature}
{examples}"""


@cache
def load_tasks() -> tuple[Task, ...]:
    """The distinct tasks of the selection."""
    found = {one["name"]: one for one in reversed(read_rows("apps/selected150.jsonl"))}
    return tuple(_task(one) for one in reversed(found.values()))


def _task(problem: dict[str, Any]) -> Task:
    tests = [[test["input"], str(test["output"][0])] for test in problem["test_list"]]
    return Task(
        id=f"apps-{problem['name']}",
        input=f"{problem['description'].strip()}\n\n{_manner(problem)}\n{CODE_FORM}",
        kind=problem["difficulty"],
        reference=tests,
    )


def _manner(problem: dict[str, Any]) -> str:
    """How the program is to be written, where the description asks for a function."""
    signature = problem["starter_code"].strip()
    if not signature:
        return "Write a program that reads standard input and prints the result."
    shown = [f"Input:\n{one['input']}\nOutput:\n{one['output'][0]}" for one in problem["sample_io"]]
    short = [example for example in shown if len(example) <= LONGEST][:EXAMPLES]
    return _AS_FUNCTION.format(signature=signature, examples="\n\n".join(short)).rstrip()


class ProgramOutput:
    """Runs a program on the inputs of all tests; the reference is a list of [input, output].

    Args:
        sandbox: where programs run.
    """

    name = "apps"

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    async def grade(self, task: Task, answer: str, *, scope: Scope) -> Feedback:
        """Score 1 if every test passes, else 0; hidden tests are not quoted.

        Raises:
            GradingError: the task has no tests.
            SandboxError: the sandbox failed.
        """
        tests = to_plain_json(task.reference)
        if not isinstance(tests, list) or not tests:
            raise GradingError(f"task {task.id!r} has no tests as its reference")
        runs, whole = await self._runs(find_program(answer), [given for given, _ in tests])
        right = [has_passed(done, expected) for done, (_, expected) in zip(runs, tests, strict=False)]
        passed = [*right, False].index(False)
        details = {"passed": passed, "tests": len(tests)}
        if passed == len(tests):
            return Feedback(score=1.0, solved=True, text="All tests pass.", details=details)
        failed = runs[passed] if passed < len(runs) else whole
        why = "It printed something else than expected." if failed.exit_status == 0 else describe_error(failed, EACH)
        told = f"Test {passed + 1} of {len(tests)} fails. {why}"
        return Feedback(score=0.0, solved=False, text=told, details=details)

    async def _runs(self, program: str, inputs: list[str]) -> tuple[list[Execution], Execution]:
        """Runs up to the first that did not end well, and the run of them all."""
        asked = {"program": program, "inputs": inputs, "seconds": EACH.seconds}
        driver = (files("selfwire.evals.benchmarks") / "many_inputs.py").read_text(encoding="utf-8")
        whole = await self._sandbox.run(driver, json.dumps(asked), limits=TOGETHER)
        try:
            found = _REPORT.validate_json(whole.stdout)
        except ValidationError:  # the program stopped the driver, or wrote over its report
            return [], whole.replace(exit_status=whole.exit_status or None)
        runs = [
            Execution(exit_status=status, stdout=stdout, stderr=stderr, timed_out=status in (None, -signal.SIGXCPU))
            for status, stdout, stderr in found
        ]
        return runs, whole


_REPORT: TypeAdapter[list[tuple[int | None, str, str]]] = TypeAdapter(list[tuple[int | None, str, str]])


def has_passed(done: Execution, expected: str) -> bool:
    """Whether a program ended well and printed what was expected."""
    return done.exit_status == 0 and is_same_output(done.stdout, expected)


def is_same_output(printed: str, expected: str) -> bool:
    """Whether two outputs have the same words in the same lines; space at ends, and blank lines there, say nothing."""
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
        load=lambda seed, train, gate, test: make_disjoint_splits(load_tasks(), seed, train, gate, test),
        environment=ProgramOutput(sandbox),
        toolbox={"python": PythonTool(sandbox)},
        tools=("python",),
        baseline=TrivialRule("echo", lambda question: ECHO),
    )
