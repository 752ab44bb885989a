"""Teams that `evolve` hands over when a gain must be proved, and when the sign of a mean decides.

Every run is the command line's, offline, with the options of `make demo`. The test tasks are the same for both gates,
and no decision has seen them. Expected before the full run: scores alike, and fewer agents and calls by proofs.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from tempfile import TemporaryDirectory
from typing import NamedTuple

import selfwire
from bench.measuring import Row
from selfwire.evals.statistics import compute_mean, compute_paired_interval, compute_student_interval
from selfwire.evals.table import format_difference
from selfwire.extras.demo import ARGUMENTS
from selfwire.runs.results import EVOLVED, SEED_TEAM

TITLE = "handed over: by proof and by the sign of a mean"
SEEDS = 10
GATES = ("mean", "better")
TARGETS = tuple(product(("hiva", "hera"), ("plancraft", "archive")))
"""Methods and benchmarks."""


class HandedOver(NamedTuple):
    """A team at the end of an evolution.

    Attributes:
        before, after: mean scores of the test tasks of the first team, and of this one.
        calls: per test task.
        spent: calls of the whole evolution.
    """

    before: float
    after: float
    calls: float
    agents: int
    spent: int


def evolve(method: str, benchmark: str, gate: str, seed: int) -> HandedOver:
    """Evolve a team by the command line, in a folder that is empty."""
    options = ARGUMENTS[ARGUMENTS.index("--iterations") :]
    command = [sys.executable, "-m", "selfwire", "evolve", method, "--benchmark", benchmark, *options]
    with TemporaryDirectory() as home:
        command += ["--gate", gate, "--seed", str(seed), "--json", "--home", home]
        found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        agents = len(selfwire.load(found["name"], home=home).agents)
    systems = {system["name"]: system for system in found["systems"]}
    seen = systems[EVOLVED]
    return HandedOver(
        before=systems[SEED_TEAM]["score"],
        after=seen["score"],
        calls=seen["spend"]["calls"] / seen["tasks"],
        agents=agents,
        spent=found["spend"]["calls"],
    )


def measure(seeds: int = SEEDS) -> list[Row]:
    """Score, difference between the gates paired by seed, agents and calls of each method, benchmark and gate."""
    runs = [(*target, gate, seed) for target in TARGETS for gate in GATES for seed in range(seeds)]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as workers:
        made = list(workers.map(evolve, *zip(*runs, strict=True)))
    found = dict(zip(runs, made, strict=True))
    return [
        row
        for target in TARGETS
        for gate in GATES
        for row in summarise(
            f"{' on '.join(target)}, {gate}",
            [found[*target, gate, seed] for seed in range(seeds)],
            [found[*target, GATES[0], seed] for seed in range(seeds)],
        )
    ]


def summarise(what: str, found: Sequence[HandedOver], others: Sequence[HandedOver]) -> list[Row]:
    """The cells of a gate beside the runs of the first gate; a seed is an observation."""
    gained = None
    if found != others:
        gained = compute_paired_interval([run.after for run in others], [run.after for run in found]).clip(-1, 1)
    cells = {
        "before": f"{compute_mean([run.before for run in found]):.2f}",
        "after [95 %]": str(compute_student_interval([run.after for run in found]).clip(0, 1)),
        f"this − {GATES[0]} [95 %]": format_difference(gained),
        "agents": f"{compute_mean([run.agents for run in found]):.1f}",
        "calls/task": f"{compute_mean([run.calls for run in found]):.1f}",
        "calls of the evolution": f"{compute_mean([run.spent for run in found]):,.0f}",
    }
    return [Row(what=what, column=column, note=text) for column, text in cells.items()]
