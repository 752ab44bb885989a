"""Is synergy learned, and does it weigh enough? A team in which pairs make the difference.

It is the branching team in which no agent is a specialist and some pairs across the layers go well together. Who knows
every agent's probability of success and no pair gets about half of what is to be gained; the rest is synergy's. Claims
mean nothing here, so no system reads them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from selfwire.evolvers.hiva.config import KabbConfig
from selfwire.evolvers.hiva.memory import HivaMemory, TrajectoryLesson, edge_key
from selfwire.extras.lab.worlds.catalogue import World
from selfwire.extras.lab.worlds.gains import Scale, WorldResult
from selfwire.extras.lab.worlds.hiva.branching import (
    LAYERS,
    PLACE,
    BranchingParameters,
    BranchingWorld,
    Floats,
    K,
    compute_values,
    make_world,
    run_task,
)
from selfwire.extras.lab.worlds.hiva.kabb import NO_DISTANCE, ORACLE, UNIFORM, KabbChooser, compute_bounds, play
from selfwire.models.embeddings import HashingEmbedder

PARAMETERS = BranchingParameters(special=(0.3, 0.5), other=(0.3, 0.5), paired=0.2, synergy=0.5, new=0)
MAIN, WITHOUT, HEAVY, TOLD = "KABB", "KABB w/o synergy", "KABB, eta = 5", "KABB, eta = 5, told the pairs"
BLIND = "knows the agents, not the pairs"
FIXED: Mapping[str, Any] = {"k": K, "within": 0.0, "fits_weights": False, **NO_DISTANCE}
KABB: Mapping[str, KabbConfig] = {
    MAIN: KabbConfig(**FIXED),
    WITHOUT: KabbConfig(**FIXED, synergy_weight=0.0),
    "KABB, eta = 2": KabbConfig(**FIXED, synergy_weight=2.0),
    HEAVY: KabbConfig(**FIXED, synergy_weight=5.0),
    "KABB, told the pairs": KabbConfig(**FIXED),
    TOLD: KabbConfig(**FIXED, synergy_weight=5.0),
}
"""The bandit with fixed weights of synergy, and two agents chosen at every node; who is told the pairs has the right C
instead of a learned one."""


@dataclass
class ToldChooser(KabbChooser):
    """The bandit with the right synergies: the greatest C for pairs that go well together, the least for others."""

    synergy: Floats = field(default_factory=lambda: np.zeros((len(LAYERS[0]), len(LAYERS[1]))))

    def learn(self, lessons: Sequence[TrajectoryLesson], kinds: Sequence[int]) -> None:
        """Update beliefs, and put right what was learned of pairs."""
        super().learn(lessons, kinds)
        memory = HivaMemory.of(self.workflow)
        right = {
            edge_key(a, b): memory.edge(a, b).replace(synergy=1.0 + bool(self.synergy[PLACE[a], PLACE[b]]))
            for a, b in product(*LAYERS)
        }
        self.workflow = memory.replace(edges={**memory.edges, **right}).save_to(self.workflow)


async def run_seed(given: BranchingParameters, seed: int) -> WorldResult:
    """All systems in a seed's world."""
    world, embedder = make_world(given, seed), HashingEmbedder()
    bounds = {**compute_bounds(world, given), BLIND: compute_blind(world, given)}
    figures = {name: {"score": float(values.mean())} for name, values in bounds.items()}
    for name, config in KABB.items():
        learns = KabbChooser(world.workflow, config, embedder)
        told = ToldChooser(world.workflow, config, embedder, synergy=world.synergy)
        run = partial(run_task, world, ceiling=given.ceiling)
        scores, decided = await play(told if "told" in name else learns, run, world.kinds, given.batch, seed)
        figures[name] = {"score": float(scores.mean()), "made": decided.made, "free": decided.free}
    return WorldResult(seed=seed, figures=figures)


def compute_blind(world: BranchingWorld, given: BranchingParameters) -> Floats:
    """Exact scores per task of the best choice by who takes every pair to have the mean synergy."""
    believed = compute_values(world.skill, np.full_like(world.synergy, world.synergy.mean()), given.ceiling)
    best = believed.reshape(len(believed), -1).argmax(axis=1)
    scores: Floats = world.values.reshape(len(best), -1)[np.arange(len(best)), best][world.kinds]
    return scores


SCALE = Scale("score", UNIFORM, ORACLE, MAIN, digits=3)
WORLD = World(
    PARAMETERS,
    run_seed,
    scale=SCALE,
    claims=(
        SCALE.claim("synergy, eta = 0.5", WITHOUT),
        SCALE.claim("synergy, eta = 2", WITHOUT, main="KABB, eta = 2"),
        SCALE.claim("synergy, eta = 5", WITHOUT, main=HEAVY),
        SCALE.claim("the right C instead of a learned one, eta = 5", HEAVY, main=TOLD),
    ),
)
