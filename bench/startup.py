"""What a fresh process takes, by the clock: Python itself, the command line's help, imports, a first answer."""

import subprocess
import sys
from functools import partial

from selfwire.bench.measuring import Row, measure_by_turns

HELP = "import sys; from selfwire.cli import main; sys.argv[1:] = ['--help']; main()"
ANSWER = "from selfwire.graphs import hiva; hiva.build().compile().invoke({'question': 'What is 3 plus 4?'})"
PROGRAMS = (
    ("python", "pass", None),
    ("selfwire --help", HELP, 0.3),
    ("import langgraph.graph", "import langgraph.graph", None),
    ("import selfwire.graphs.hiva", "import selfwire.graphs.hiva", None),
    ("HiVA built and its first answer, offline model", ANSWER, 1.0),
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
