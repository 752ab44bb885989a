"""MATH-500: competition mathematics, graded by the library math-verify (Hendrycks et al., 2021; Lightman et al., 2023).

Symbolic comparison can take forever and its own alarm works on the main thread only, so it runs in processes that
are ended when their time is up. That is an error of the grader and no score. The 500 tasks are a test set; train
and gate are drawn from it too, and share none.
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
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Task
from selfwire.core.values import FrozenModel
from selfwire.evals.answers import find_boxed
from selfwire.evals.benchmarks.benchmark import Benchmark, TrivialRule, make_disjoint_splits
from selfwire.evals.benchmarks.sources import read_rows
from selfwire.tools.calculator import CalculatorTool

FORM = "Put the final answer into \\boxed{}."
SECONDS = 30.0
"""Of processor time, for one comparison: on a busy machine the clock on the wall says little."""
PATIENCE = 300.0
"""Seconds on the clock for one comparison, the start of a worker included."""
WORKER = (sys.executable, "-m", "selfwire.evals.benchmarks.math_worker")
LONGEST = 20_000
"""Characters of an answer that are read, from its end: the final answer stands there."""


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
    """What a worker says: whether it could read the answer, and whether that is right."""

    read: bool
    right: bool


class Comparer:
    """Worker processes, as many at most as there are processors; started when needed, ended with this process.

    Args:
        seconds: of processor time, for one comparison.
        patience: seconds on the clock, for one comparison.
        command: starts a worker.
    """

    def __init__(self, seconds: float = SECONDS, patience: float = PATIENCE, command: Sequence[str] = WORKER) -> None:
        self._seconds, self._patience, self._command = seconds, patience, command
        self._idle: queue.LifoQueue[_Worker | None] = queue.LifoQueue()
        for _ in range(os.cpu_count() or 1):
            self._idle.put(None)

    def compare(self, gold: str, answer: str) -> Comparison:
        """Compare an answer with the gold answer. Blocks.

        Raises:
            GradingError: the time was up, or the worker broke.
        """
        worker: _Worker | None = self._idle.get()
        try:
            worker = worker or _Worker(self._command)
            asked = {"gold": gold, "answer": answer, "seconds": self._seconds}
            said = worker.asked(asked, self._patience)
            return Comparison.model_validate_json(said)
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

    def asked(self, what: Mapping[str, Any], seconds: float) -> str:
        """The worker's line; "" if it ended, as it does when the time is up."""
        stdin, stdout = self._process.stdin, self._process.stdout
        late = threading.Timer(seconds, self._process.kill)
        late.start()
        try:
            if stdin is None or stdout is None:
                return ""
            stdin.write(json.dumps(what) + "\n")
            stdin.flush()
            return stdout.readline()
        finally:
            late.cancel()

    def end(self) -> None:
        atexit.unregister(self.end)
        self._process.kill()
        with suppress(OSError):  # what it did not read is lost
            self._process.communicate()


@cache
def get_comparer() -> Comparer:
    """The workers of this process."""
    return Comparer()


class Math500Environment:
    """Compares the boxed answer with the reference, as mathematics.

    Args:
        compare: gold answer and answer → what a worker says; blocks.
    """

    name = "math500"

    def __init__(self, compare: Callable[[str, str], Comparison]) -> None:
        self._compare = compare

    async def grade(self, task: Task, answer: str, *, scope: Scope) -> Feedback:
        """Score 1 for an answer that equals the reference, else 0.

        Raises:
            GradingError: the task has no text as its reference, or the comparison failed or took too long.
        """
        gold = task.reference
        if not isinstance(gold, str):
            raise GradingError(f"MATH task {task.id!r} has no text as reference: {gold!r}")
        given = find_boxed(answer[-LONGEST:])
        if given is None:
            return Feedback(score=0.0, solved=False, text="Format fault: there is no answer in \\boxed{}.")
        said = await asyncio.to_thread(self._compare, gold, given)
        if said.right:
            return Feedback(score=1.0, solved=True, text="The answer is right.")
        if not said.read:
            return Feedback(score=0.0, solved=False, text="Format fault: what is in \\boxed{} is no mathematics.")
        return Feedback(score=0.0, solved=False, text="The answer is wrong.")


def math500() -> Benchmark:
    """The benchmark."""
    return Benchmark(
        name="math500",
        description="Competition mathematics; the boxed answer is compared as mathematics.",
        load=lambda seed, train, gate, test: make_disjoint_splits(load_tasks(), seed, train, gate, test),
        environment=Math500Environment(lambda gold, answer: get_comparer().compare(gold, answer)),
        toolbox={"calculator": CalculatorTool()},
        tools=("calculator",),
        baseline=TrivialRule("always 3", lambda question: "\\boxed{3}"),
    )
