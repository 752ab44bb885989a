"""Simulated runs of the gates: how often they accept changes without effect, harm, and gains of known size.

Each task is won, lost or equal, independently; a run is five decisions. The gate `mean` compares 20 tasks a decision; a
proof looks at 20 more at a time, at most 200, with the share of the error that its run's earlier outcomes have left.
"""

import random
from collections import Counter
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

from bench.measuring import Row
from selfwire.core.usage import Usage
from selfwire.evolvers.gate import (
    OUTCOMES,
    EvidenceRule,
    GateDecision,
    compute_share,
    compute_weight,
    decide,
    decide_by_evidence,
)

TITLE = "gates: what they accept"
RUNS, DECISIONS, LOOK, TASKS = 400, 5, 20, 200
ERROR = 0.05
"""Of a run."""
SEED = 11
EFFECTS = {
    "no effect: 10 % won, 10 % lost": (0.10, 0.10),
    "no effect: 25 % won, 25 % lost": (0.25, 0.25),
    "harm: 5 % won, 10 % lost": (0.05, 0.10),
    "harm: 20 % won, 30 % lost": (0.20, 0.30),
    "gain: 15 % won, 5 % lost": (0.15, 0.05),
    "gain: 35 % won, 15 % lost": (0.35, 0.15),
    "gain: 30 % won, 5 % lost": (0.30, 0.05),
}
"""Shares of tasks that a change wins and loses."""


class Decided(NamedTuple):
    """A decision, the tasks that it took on each side, and the outcome of a proof."""

    accepted: bool
    tasks: int
    outcome: str = ""


Draw = Callable[[], float]
Decide = Callable[[Draw, float], Decided]


def measure() -> list[Row]:
    """Share of runs and of decisions that accept, and tasks of a decision, by gate and effect."""
    gates = {"mean": decide_by_mean, "better": decide_by_proof}
    return [row for effect in EFFECTS for name, gate in gates.items() for row in measure_gate(effect, name, gate)]


def measure_gate(effect: str, name: str, gate: Decide, runs: int = RUNS) -> list[Row]:
    """The rows of a gate and an effect."""
    chance, (win, lose) = random.Random(SEED), EFFECTS[effect]

    def draw() -> float:
        found = chance.random()
        return 1.0 if found < win else -1.0 if found < win + lose else 0.0

    made = [_decide_often(gate, draw) for _ in range(runs)]
    decisions = [outcome for run in made for outcome in run]
    return [
        Row(what=f"{effect}; {name}", column="runs that accept any, %", value=100 * _share([*map(_any, made)])),
        Row(what=f"{effect}; {name}", column="decisions, %", value=100 * _share([o.accepted for o in decisions])),
        Row(what=f"{effect}; {name}", column="tasks, median", value=median(o.tasks for o in decisions)),
    ]


def _decide_often(gate: Decide, draw: Draw) -> list[Decided]:
    made, weight, had = list[Decided](), 1.0, Counter[str]()
    for number in range(DECISIONS):
        share = compute_share(number, DECISIONS, is_last=number + 1 == DECISIONS)
        made.append(gate(draw, ERROR * share * weight))
        if outcome := made[-1].outcome:
            weight *= compute_weight(had, outcome, OUTCOMES["better"])
            had[outcome] += 1
    return made


def decide_by_mean(draw: Draw, error: float) -> Decided:
    """The gate `mean` on as many tasks as a look has."""
    gains = [draw() for _ in range(LOOK)]
    verdict = decide([0.5] * LOOK, [0.5 + gain / 2 for gain in gains], [1.0] * LOOK, [1.0] * LOOK, 0)
    return Decided(verdict.accepted, LOOK)


def decide_by_proof(draw: Draw, error: float) -> Decided:
    """The gate `better`, with this error."""
    gains, verdict, rule = list[float](), None, EvidenceRule(error=error)
    while verdict is None:
        gains += [draw() for _ in range(LOOK)]
        verdict = prove(gains, rule)
    return Decided(verdict.accepted, len(gains), "accepted" if verdict.accepted else "draft")


def prove(gains: list[float], rule: EvidenceRule) -> GateDecision | None:
    """The verdict on gains at equal calls."""
    old, calls = [max(0.0, -gain) for gain in gains], [Usage(calls=1)] * len(gains)
    new = [max(0.0, gain) for gain in gains]
    return decide_by_evidence(old, new, calls, calls, rule, left=TASKS - len(gains))


def _any(run: list[Decided]) -> bool:
    return any(outcome.accepted for outcome in run)


def _share(found: list[bool]) -> float:
    return sum(found) / len(found)
