"""A process that runs TacoMAS on one question and can be killed: `python -m tests.graphs.tacomas_process URL FILE`.

It goes on where the file of checkpoints ends.
"""

import sys

from selfwire.evolvers.tacomas.config import TacomasConfig
from selfwire.graphs import tacomas
from tests.graphs.answering import answered, local

ROUNDS = 4


def main(url: str, file: str) -> None:
    result = answered(tacomas.build(local(url), config=TacomasConfig(rounds=ROUNDS)), file)
    sys.stdout.write(f"{len(result['rounds'])} rounds, {result['usage']['calls']} calls\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
