"""A process that runs EvoMAS on one question and can be killed: `python -m tests.graphs.evomas_process URL FILE`.

It goes on where the file of checkpoints ends.
"""

import sys

from selfwire.evolvers.evomas.config import EvomasConfig
from selfwire.graphs import evomas
from selfwire.tools.calculator import CalculatorTool
from tests.graphs.answering import answered, local

CONFIG = EvomasConfig(adapter="fixed", plan=(("io", "multi_generate"), ("web_search",), ("ensemble",)), stages=3)
IO = "You are a member of a team that works on a task in stages. You answer the current subtask out of"
SEARCH = "You are a member of a team that works on a task in stages. You answer the current subtask by searching"


def main(url: str, file: str) -> None:
    result = answered(evomas.build(local(url), config=CONFIG, tools=[CalculatorTool()], embedder="hashing"), file)
    sys.stdout.write(f"{len(result['stages'])} stages, {result['usage']['calls']} calls, {result['answer']!r}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
