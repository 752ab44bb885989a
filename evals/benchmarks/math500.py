"""MATH-500: competition mathematics, graded by the library math-verify (Hendrycks et al., 2021; Lightman et al., 2023).

Symbolic comparison can take forever, and math-verify's own alarm works on the main thread only. So it runs in
processes that are killed when their time is up, which is an error of the grader and no score. The 500 tasks are a test
set; all three splits are drawn from it and share no task.
"""

import asyncio
import atexit
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from pydantic import ValidationError

from selfwire.core.errors import GradingError
from selfwire.core.task import Feedback, Task
from selfwire.core.values import FrozenModel
from selfwire.evals.answers import find_boxed
from selfwire.evals.benchmarks.benchmark import Benchmark, TrivialRule, make_disjoint_loader
from selfwire.evals.benchmarks.grading import RIGHT, RuleEnvironment, get_text_reference, reject
from selfwire.evals.benchmarks.sources import read_rows
from selfwire.tools.calculator import CalculatorTool

FORM = "Put the final answer into \\boxed{}."
SECONDS = 30.0
"""Processor time of one comparison, since wall time says little on a busy machine."""
PATIENCE = 300.0
"""Wall time of one comparison in seconds, with the start of a worker."""
WORKER = (sys.executable, "-m", "selfwire.evals.benchmarks.math_worker")
LONGEST = 20_000
"""Characters of an answer that are read, from its end, where the final answer stands."""


@cache
def load_tasks() -> tuple[Task, ...]:
    """All tasks; the reference is the gold answer in LaTeX, the kind is the subject."""
    return tuple(
        Task(
            id=one["unique_id"].removeprefix("test/").removesuffix(".json").replace("/", "-"),
            input=f"{one['problem']}\n{FORM}",
            kind=one["subject"],
            reference=one["answer"],
        )
        for one in read_rows("math500/test.jsonl")
    )


class Comparison(FrozenModel):
    """A worker's reply: whether it could read the answer, and whether that is right."""

    read: bool
    right: bool


class Comparer:
    """At most one worker process per processor; they start when needed and end with this process.

    Args:
        seconds: processor time of one comparison.
        patience: wall time of one comparison in seconds.
    """

    def __init__(self, seconds: float = SECONDS, patience: float = PATIENCE, command: Sequence[str] = WORKER) -> None:
        self._seconds, self._patience, self._command = seconds, patience, command
        self._idle: queue.LifoQueue[_Worker | None] = queue.LifoQueue()
        for _ in range(os.cpu_count() or 1):
            self._idle.put(None)

    def compare(self, gold: str, answer: str) -> Comparison:
        """Compare an answer with the gold answer; blocks. GradingError if the time was up or the worker broke."""
        worker: _Worker | None = self._idle.get()
        try:
            worker = worker or _Worker(self._command)
            request = {"gold": gold, "answer": answer, "seconds": self._seconds}
            return Comparison.model_validate_json(worker.ask(request, self._patience))
        except (OSError, ValidationError) as error:
            if worker is not None:
                worker.end()
            worker = None
            why = f"it broke, or took more than {self._seconds:g} seconds to compute or {self._patience:g} in all"
            raise GradingError(f"math-verify could not compare the answer ...{answer[-80:]!r}: {why}") from error
        finally:
            self._idle.put(worker)


class _Worker:
    def __init__(self, command: Sequence[str]) -> None:
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere, text=True)
        atexit.register(self.end)

    def ask(self, request: Mapping[str, Any], seconds: float) -> str:
        """The worker's line; "" if it ended or was killed when the time was up."""
        stdin, stdout = self._process.stdin, self._process.stdout
        late = threading.Timer(seconds, self._process.kill)
        late.start()
        try:
            if stdin is None or stdout is None:
                return ""
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
            return stdout.readline()
        finally:
            late.cancel()

    def end(self) -> None:
        atexit.unregister(self.end)
        self._process.kill()
        with suppress(OSError):  # unread input is lost
            self._process.communicate()


@cache
def get_comparer() -> Comparer:
    """The workers of this process."""
    return Comparer()


def make_environment(compare: Callable[[str, str], Comparison]) -> RuleEnvironment:
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


def math500() -> Benchmark:
    """The benchmark."""
    return Benchmark(
        name="math500",
        description="Competition mathematics; the boxed answer is compared as mathematics.",
        load=make_disjoint_loader(load_tasks),
        environment=make_environment(lambda gold, answer: get_comparer().compare(gold, answer)),
        toolbox={"calculator": CalculatorTool()},
        tools=("calculator",),
        baseline=TrivialRule("always 3", lambda question: "\\boxed{3}"),
    )
