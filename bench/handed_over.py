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
from selfwire import Team
from selfwire.evals.statistics import compute_mean, compute_paired_interval, compute_student_interval
from selfwire.evals.table import format_difference

TITLE = "handed over: by proof, pruned, and by the sign of a mean"
SEEDS, TASKS = 10, 100
"""Evolutions of each gate, and tasks of each split."""
Gate = Literal["mean", "better"]
GATES: tuple[Gate, ...] = ("mean", "better")
PRUNED = "better, pruned"
"""What `prune` makes of the team of the gate `better`, with its defaults but for sentences of prompts, which stay."""
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


def evolve(method: str, benchmark: str, gate: Gate, seed: int) -> dict[str, HandedOver]:
    """Evolve a team in six iterations of ten train tasks, in a folder that is empty, and prune it if it was proved."""
    with TemporaryDirectory() as home:
        given: dict[str, Any] = {"seed": seed, "model": "offline", "home": home}
        found = selfwire.evolve(method, benchmark, gate=gate, iterations=6, limit=TASKS, name="evolved", **given)
        assert found.before
        before, spent = compute_mean(found.before.graded), found.cost.calls

        def test(team: Team) -> HandedOver:
            tested = selfwire.evaluate("evolved", benchmark, limit=TASKS, **given)
            after, calls = compute_mean([*tested.scores.values()]), compute_mean([row.calls for row in tested.rows])
            return HandedOver(before, after, len(team.agents), calls, spent)

        handed_over: dict[str, HandedOver] = {gate: test(found.team)}
        if gate == "better":
            pruned = selfwire.prune("evolved", benchmark, sentences=0, **given)
            spent += pruned.cost.calls
            handed_over[PRUNED] = test(pruned.team)
    return handed_over


def measure(seeds: int = SEEDS) -> list[Row]:
    """Score, difference paired by seed, agents and calls of each method and benchmark, by gate and pruned."""
    runs = [(*target, gate, seed) for target in TARGETS for gate in GATES for seed in range(seeds)]
    found: dict[tuple[str, str, str], list[HandedOver]] = {}
    for (method, benchmark, _, _), teams in zip(runs, map_in_processes(evolve, *zip(*runs, strict=True)), strict=True):
        for way, team in teams.items():
            found.setdefault((method, benchmark, way), []).append(team)
    return [
        row
        for target in TARGETS
        for way in (*GATES, PRUNED)
        for row in summarise(f"{' on '.join(target)}, {way}", found[*target, way], found[*target, GATES[0]])
    ]


def summarise(what: str, found: Sequence[HandedOver], others: Sequence[HandedOver]) -> list[Row]:
    """The cells of teams beside those of the first gate; a seed is an observation."""
    scores, theirs = ([run.after for run in runs] for runs in (found, others))
    gained = None if found == others else compute_paired_interval(theirs, scores)
    cells = {
        "before": f"{compute_mean([run.before for run in found]):.2f}",
        "after [95 %]": str(compute_student_interval(scores).clip(0, 1)),
        f"this − {GATES[0]} [95 %]": format_difference(gained),
        "agents": f"{compute_mean([run.agents for run in found]):.1f}",
        "calls/task": f"{compute_mean([run.calls for run in found]):.1f}",
        "calls of evolution and pruning": f"{compute_mean([run.spent for run in found]):,.0f}",
    }
    return make_cells(what, cells)
