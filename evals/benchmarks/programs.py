"""What the code benchmarks share: the program in an answer, and unit tests that run behind it in the sandbox.

A program counts as right if its tests pass (pass@1). They run in a process of their own, which asks the program's
for every value (`with_tests.py`): the program never holds a test or the word that tells the verdict, and what it gives
back is taken as plain values. So one that leaves early does not pass, nor one that prints a verdict, rewrites asserts
or builtins, reads its caller's frames, or returns what claims to equal everything.
"""

import builtins
import json
import re
import secrets
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from selfwire.core.errors import GradingError
from selfwire.core.execution import Execution, Limits
from selfwire.core.protocols import Sandbox
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Task
from selfwire.core.values import to_plain_json

CODE_FORM = "Answer with one Python code block that holds the whole program, and nothing after it."
LIMITS = Limits(seconds=30, processor=12)
"""Of one run of a program under test."""

_FENCED = re.compile(r"^[ \t]*+```[ \t]*+(\w*+)[^\n]*+\n(.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)
_RAISED = re.compile(r"^(?:[\w.]+\.)?([A-Za-z_]\w*)(?::|$)")


def find_program(answer: str) -> str:
    """The program of an answer: its last code block, or all of it if it has none."""
    blocks = [body for language, body in _FENCED.findall(answer) if language.lower() in ("", "python", "py", "python3")]
    return blocks[-1] if blocks else answer


def has_definition(program: str, name: str) -> bool:
    """Whether a function or variable of that name is made at the top level of a program."""
    return bool(
        re.search(rf"^(?:(?:async\s+)?def|class)\s+{re.escape(name)}\b|^{re.escape(name)}\s*[:=]", program, re.M)
    )


_WHY = {
    "late": f"The program took longer than {LIMITS.processor} seconds.",
    "left": "The program ended before its tests did; it must not exit.",
    "broken": "The program ended with an error status.",
}
"""What is told of a program whose process has ended, by what `with_tests.py` calls it."""


class UnitTests:
    """Runs a program with its tests behind it; the reference is {"before", "name", "tests"}.

    `before` is code that program and tests may build on, `name` the function that they are about, "" for none. A
    program that does not define it is read as the rest of `before`, as HumanEval's completions are.

    Args:
        name: of the benchmark.
        sandbox: where programs run.
    """

    def __init__(self, name: str, sandbox: Sandbox) -> None:
        self.name, self._sandbox = name, sandbox

    async def grade(self, task: Task, answer: str, *, scope: Scope) -> Feedback:
        """Score 1 if every test passes, else 0 with what went wrong; hidden tests are not quoted.

        Raises:
            GradingError: the task has no tests.
            SandboxError: the sandbox failed.
        """
        reference = _tests_of(task)
        word = secrets.token_hex(16)  # decides nothing; it only must not be known to the program
        asked = {**reference, "program": assemble_script(reference, find_program(answer)), "word": word}
        driver = (files("selfwire.evals.benchmarks") / "with_tests.py").read_text(encoding="utf-8")
        done = await self._sandbox.run(driver, json.dumps(asked), limits=LIMITS)
        _, found, behind = done.stdout.partition(word)
        if done.exit_status != 0 or not found:
            return Feedback(score=0.0, solved=False, text=describe_error(done, LIMITS))
        raised, _ = json.JSONDecoder().raw_decode(behind)  # a process that the program left may write behind it
        if raised is None:
            return Feedback(score=1.0, solved=True, text="All tests pass.")
        return Feedback(score=0.0, solved=False, text=_WHY.get(raised) or format_raised(raised))


def assemble_script(reference: Mapping[str, Any], program: str) -> str:
    """The program behind what stands before it."""
    gap = "\n\n" if not reference["name"] or has_definition(program, reference["name"]) else ""
    return f"{reference['before']}{gap}{program}\n"


def describe_error(done: Execution, limits: Limits) -> str:
    """Why a program did not pass, without a word of its tests."""
    if done.timed_out:
        return f"The program took longer than {limits.processor} seconds."
    if done.truncated:
        return f"The program was stopped after it had written {limits.output:,} bytes."
    raised = _RAISED.match(done.stderr.strip().rpartition("\n")[2])
    return format_raised(raised[1]) if raised else "The program ended with an error status."


def format_raised(raised: str) -> str:
    """What a program is told of an error, by its name.

    A name or number that the program makes up could carry what a hidden test gave it, so only known ones are told.
    """
    if raised == "AssertionError":
        return "The program runs, but a test fails."
    return f"The program raised {raised if hasattr(builtins, raised) else 'an error of its own'}."


def _tests_of(task: Task) -> dict[str, str]:
    found = to_plain_json(task.reference)
    if not isinstance(found, dict) or not {"before", "name", "tests"} <= found.keys():
        raise GradingError(f"task {task.id!r} has no tests as its reference")
    return found
