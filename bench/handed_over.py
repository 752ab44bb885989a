"""Teams that `evolve` hands over when a gain must be proved, and when the sign of a mean decides.

Every run is offline. The test tasks are the same for both gates, and no decision has seen them. Expected before the
full run: scores alike, and fewer agents and calls by proofs. All takes about fifty minutes of one processor's time.
"""

from collections.abc import Sequence
from itertools import product
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple

import selfwire
from bench.measuring import Row, make_cells, map_in_processes
from selfwire.evals.statistics import compute_mean, compute_paired_interval, compute_student_interval
from selfwire.evals.table import format_difference

TITLE = "handed over: by proof and by the sign of a mean"
SEEDS, TASKS = 10, 100
"""Evolutions of each gate, and tasks of each split."""
GATES: tuple[Literal["mean", "better"], ...] = ("mean", "better")
TARGETS = tuple(product(("hiva", "hera"), ("plancraft", "archive")))
"""Methods and benchmarks."""


class HandedOver(NamedTuple):
    """A team at the end of an evolution.

    Attributes:
        before, after: mean scores of the first team and of this one on the test tasks.
        calls: of this one, per task.
        spent: calls of the whole evolution.
    """

    before: float
    after: float
    agents: int
    calls: float
    spent: int


def evolve(method: str, benchmark: str, gate: Literal["mean", "better"], seed: int) -> HandedOver:
    """Evolve a team in six iterations of ten train tasks, in a folder that is empty."""
    with TemporaryDirectory() as home:
        found = selfwire.evolve(
            method, benchmark, gate=gate, iterations=6, seed=seed, limit=TASKS, model="offline", home=home
        )
    assert found.before
    assert found.after
    return HandedOver(
        before=compute_mean(found.before.graded),
        after=compute_mean(found.after.graded),
        agents=len(found.team.agents),
        calls=found.after.calls_per_task,
        spent=found.cost.calls,
    )


def measure(seeds: int = SEEDS) -> list[Row]:
    """Score, difference between the gates paired by seed, agents and calls of each method, benchmark and gate."""
    runs = [(*target, gate, seed) for target in TARGETS for gate in GATES for seed in range(seeds)]
    found = dict(zip(runs, map_in_processes(evolve, *zip(*runs, strict=True)), strict=True))
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
    scores, theirs = ([run.after for run in runs] for runs in (found, others))
    gained = None if found == others else compute_paired_interval(theirs, scores).clip(-1, 1)
    cells = {
        "before": f"{compute_mean([run.before for run in found]):.2f}",
        "after [95 %]": str(compute_student_interval(scores).clip(0, 1)),
        f"this − {GATES[0]} [95 %]": format_difference(gained),
        "agents": f"{compute_mean([run.agents for run in found]):.1f}",
        "calls/task": f"{compute_mean([run.calls for run in found]):.1f}",
        "calls of the evolution": f"{compute_mean([run.spent for run in found]):,.0f}",
    }
    return make_cells(what, cells)
