"""The program in an answer, and unit tests on it in the sandbox, for all code benchmarks.

A program is right if its tests pass (pass@1). The tests run in another process, which asks the program's process for
every value (`with_tests.py`): so a program does not pass by exiting early, printing a verdict, rewriting asserts or
builtins, reading its caller's frames, or returning an object that claims to equal everything.
"""

import builtins
import json
import re
import secrets
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from selfwire.core.errors import GradingError
from selfwire.core.protocols import Execution, Limits, Sandbox
from selfwire.core.task import Feedback, Task
from selfwire.core.values import to_plain_json
from selfwire.evals.benchmarks.benchmark import RuleEnvironment, reject

CODE_FORM = "Answer with one Python code block that holds the whole program, and nothing after it."
LIMITS = Limits(seconds=30, processor=12)
"""Limits of one run of a program under test."""

_FENCED = re.compile(r"^[ \t]*+```[ \t]*+(\w*+)[^\n]*+\n(.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)
_RAISED = re.compile(r"^(?:[\w.]+\.)?([A-Za-z_]\w*)(?::|$)")


def find_program(answer: str) -> str:
    """Find the program of an answer: its last code block, else the whole answer."""
    blocks = [body for language, body in _FENCED.findall(answer) if language.lower() in ("", "python", "py", "python3")]
    return blocks[-1] if blocks else answer


def has_definition(program: str, name: str) -> bool:
    """Whether a program defines a function or variable of that name at its top level."""
    return bool(
        re.search(rf"^(?:(?:async\s+)?def|class)\s+{re.escape(name)}\b|^{re.escape(name)}\s*[:=]", program, re.M)
    )


_WHY = {
    "late": f"The program took longer than {LIMITS.processor} seconds.",
    "left": "The program ended before its tests did; it must not exit.",
    "broken": "The program ended with an error status.",
}
"""Feedback on a program whose process ended, by the name that `with_tests.py` gives to the cause."""


def make_unit_tests(name: str, sandbox: Sandbox) -> RuleEnvironment:
    """Score 1 if all unit tests pass; the reference is {"before", "name", "tests"}, and hidden tests are not quoted.

    `before` is code that program and tests may build on; `name` is the function under test, "" for none. A program that
    does not define it is read as the rest of `before`, as HumanEval's completions are. A SandboxError passes through.
    """

    async def grade(task: Task, answer: str) -> Feedback:
        reference = to_plain_json(task.reference)
        if not isinstance(reference, dict) or not {"before", "name", "tests"} <= reference.keys():
            raise GradingError(f"task {task.id!r} has no tests as its reference")
        word = secrets.token_hex(16)  # not random for fairness: the program only must not know it
        request = {**reference, "program": assemble_script(reference, find_program(answer)), "word": word}
        done = await run_driver(sandbox, "with_tests.py", request, LIMITS)
        _, marked, verdict = done.stdout.partition(word)
        if done.exit_status != 0 or not marked:
            return reject(describe_error(done, LIMITS))
        raised, _ = json.JSONDecoder().raw_decode(verdict)  # a process that the program left may write after it
        if raised is None:
            return Feedback(score=1.0, solved=True, text="All tests pass.")
        return reject(_WHY.get(raised) or format_raised(raised))

    return RuleEnvironment(name, grade, "unit_tests")


async def run_driver(sandbox: Sandbox, driver: str, request: Mapping[str, Any], limits: Limits) -> Execution:
    """Run a script of this package in the sandbox, with the request as JSON on its standard input."""
    script = (files("selfwire.evals.benchmarks") / driver).read_text(encoding="utf-8")
    return await sandbox.run(script, json.dumps(request), limits=limits)


def assemble_script(reference: Mapping[str, Any], program: str) -> str:
    """Put the program after the code of the reference."""
    gap = "\n\n" if not reference["name"] or has_definition(program, reference["name"]) else ""
    return f"{reference['before']}{gap}{program}\n"


def describe_error(done: Execution, limits: Limits) -> str:
    """Explain why a program did not pass, without revealing its tests."""
    if done.timed_out:
        return f"The program took longer than {limits.processor} seconds."
    if done.truncated:
        return f"The program was stopped after it had written {limits.output:,} bytes."
    raised = _RAISED.match(done.stderr.strip().rpartition("\n")[2])
    return format_raised(raised[1]) if raised else "The program ended with an error status."


def format_raised(raised: str) -> str:
    """Describe an error; only builtin errors are named, as another name could contain the input of a hidden test."""
    if raised == "AssertionError":
        return "The program runs, but a test fails."
    return f"The program raised {raised if hasattr(builtins, raised) else 'an error of its own'}."
