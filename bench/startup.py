"""The CPU time of a fresh process: Python itself, the command line's help, imports, a first answer.

The import of LangGraph alone, with LangChain's core and LangSmith's client, is most of the first answer.
"""

import os
import subprocess
import sys
from statistics import median

from bench.measuring import Row
from selfwire.core.plugins import DEFAULT_METHOD

HELP = "import sys; from selfwire.cli import main; sys.argv[1:] = ['--help']; main()"
IMPORT = f"from selfwire.graphs import {DEFAULT_METHOD} as method"
ANSWER = IMPORT + "; method.build().compile().invoke({'question': 'What is 3 plus 4?'})"
PROGRAMS = (
    ("python", "pass", None),
    ("selfwire --help", HELP, 0.3),
    ("import langgraph.graph", "import langgraph.graph", None),
    (IMPORT, IMPORT, None),
    ("the same, built, and its first answer with the offline model", ANSWER, 1.0),
)
"""Title, program, aim in seconds."""


def measure_startup(rounds: int = 5) -> list[Row]:
    """Start each program by turns, once to warm up."""
    taken: dict[str, list[float]] = {}
    for _ in range(rounds + 1):
        for what, code, _ in PROGRAMS:
            taken.setdefault(what, []).append(start_python(code))
    return [Row(what=what, value=median(taken[what][1:]), unit="s of CPU", bound=aim) for what, _, aim in PROGRAMS]


def start_python(code: str) -> float:
    """Run a program in a fresh process, wait for its end, and return its CPU seconds."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = os.times()
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, env=env)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system
