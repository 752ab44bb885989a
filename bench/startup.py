"""What a fresh process takes, by the clock: Python itself, the command line's help, imports, a first answer."""

import subprocess
import sys
from functools import partial

from selfwire.bench.measuring import Row, measure_by_turns
from selfwire.graphs.method_names import DEFAULT_METHOD

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
    """Start each program by turns."""
    times = measure_by_turns(*(partial(start_python, code) for _, code, _ in PROGRAMS), rounds=rounds)
    return [
        Row(what=what, value=took.wall, unit="s", bound=aim)
        for (what, _, aim), took in zip(PROGRAMS, times, strict=True)
    ]


def start_python(code: str) -> None:
    """Run a program in a fresh process and wait for its end."""
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
