"""Teams that `evolve` hands over when a gain must be proved, then pruned too, and when the sign of a mean decides.

Every run is offline. The test tasks are the same for all, and no decision has seen them. Expected before the full run:
scores alike, fewer agents and calls by proofs, and half the calls once pruned. All takes about two hours of one
processor's time.
"""

from collections.abc import Sequence
from itertools import product
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

import selfwire
from bench.measuring import Row, make_cells, map_in_processes
from selfwire.evals.statistics import compute_mean, compute_paired_interval, compute_student_interval
from selfwire.evals.table import format_difference

TITLE = "handed over: by proof, pruned, and by the sign of a mean"
SEEDS, TASKS = 10, 100
"""Evolutions of each way, and tasks of each split."""
Way = Literal["mean", "better", "better, pruned"]
"""A gate, and whether `prune` follows, with its defaults but for sentences of prompts, which stay."""
WAYS: tuple[Way, ...] = ("mean", "better", "better, pruned")
TARGETS = tuple(product(("hiva", "hera"), ("plancraft", "archive")))
"""Methods and benchmarks."""


class HandedOver(NamedTuple):
    """A team at the end of an evolution.

    Attributes:
        before, after: mean scores of the first team and of this one on the test tasks.
        calls: of this one, per task.
        spent: calls of the whole evolution, and of the pruning.
    """

    before: float
    after: float
    agents: int
    calls: float
    spent: int


def evolve(method: str, benchmark: str, way: Way, seed: int) -> HandedOver:
    """Evolve a team in six iterations of ten train tasks, in a folder that is empty."""
    with TemporaryDirectory() as home:
        gate: Literal["mean", "better"] = "mean" if way == "mean" else "better"
        given: dict[str, Any] = {"seed": seed, "model": "offline", "home": home}
        found = selfwire.evolve(method, benchmark, gate=gate, iterations=6, limit=TASKS, name="evolved", **given)
        assert found.before
        last, spent = found, found.cost.calls
        if way == "better, pruned":
            last = selfwire.prune("evolved", benchmark, sentences=0, **given)
            spent += last.cost.calls
        tested = selfwire.evaluate("evolved", benchmark, limit=TASKS, **given)
    return HandedOver(
        before=compute_mean(found.before.graded),
        after=compute_mean([*tested.scores.values()]),
        agents=len(last.team.agents),
        calls=compute_mean([row.calls for row in tested.rows]),
        spent=spent,
    )


def measure(seeds: int = SEEDS) -> list[Row]:
    """Score, difference between the ways paired by seed, agents and calls of each method, benchmark and way."""
    runs = [(*target, way, seed) for target in TARGETS for way in WAYS for seed in range(seeds)]
    found = dict(zip(runs, map_in_processes(evolve, *zip(*runs, strict=True)), strict=True))
    return [
        row
        for target in TARGETS
        for way in WAYS
        for row in summarise(
            f"{' on '.join(target)}, {way}",
            [found[*target, way, seed] for seed in range(seeds)],
            [found[*target, WAYS[0], seed] for seed in range(seeds)],
        )
    ]


def summarise(what: str, found: Sequence[HandedOver], others: Sequence[HandedOver]) -> list[Row]:
    """The cells of a way beside the runs of the first; a seed is an observation."""
    scores, theirs = ([run.after for run in runs] for runs in (found, others))
    gained = None if found == others else compute_paired_interval(theirs, scores).clip(-1, 1)
    cells = {
        "before": f"{compute_mean([run.before for run in found]):.2f}",
        "after [95 %]": str(compute_student_interval(scores).clip(0, 1)),
        f"this − {WAYS[0]} [95 %]": format_difference(gained),
        "agents": f"{compute_mean([run.agents for run in found]):.1f}",
        "calls/task": f"{compute_mean([run.calls for run in found]):.1f}",
        "calls of evolution and pruning": f"{compute_mean([run.spent for run in found]):,.0f}",
    }
    return make_cells(what, cells)
