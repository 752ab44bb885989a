"""An evolved team in Python.

`archive_team.json` was evolved and exported with

selfwire evolve hiva --benchmark archive --iterations 8 --name archive-team
selfwire export archive-team archive_team.json
"""

from pathlib import Path

import selfwire
from selfwire.evals.benchmarks.catalogue import load_benchmark

TEAM = str(Path(__file__).with_name("archive_team.json"))


def main() -> None:
    """Ask the team one question of its benchmark, with the tools of that."""
    archive = load_benchmark("archive", seed=1)
    [task] = archive.splits(1, train=0, gate=0, test=1).test
    done = selfwire.run(TEAM, task, tools=[*archive.toolbox.values()])
    print(task.input, done.answer, f"reference: {task.reference}", sep="\n\n")


if __name__ == "__main__":
    main()
