"""Measure what a router of each design can say of relays, when it learns the right agents by likelihood.

No rewards, no exploration and no baseline are involved: what a design does not reach here, it cannot say, or learns
too slowly for the rewards of `relays` to show it.
"""

from collections.abc import Mapping

from selfwire.evolvers.router.config import PAPER_HEAD, HeadConfig, TrainConfig
from selfwire.extras.lab.worlds.catalogue import World
from selfwire.extras.lab.worlds.evomas.relay_tasks import StandIns
from selfwire.extras.lab.worlds.evomas.relays import (
    ORACLE,
    RANDOM,
    RelayStudy,
    RouterSystem,
    choose_by_chance,
    load_world,
    make_oracle,
    measure,
    run_system,
)
from selfwire.extras.lab.worlds.gains import Scale, WorldResult

LIKELIHOOD = TrainConfig(baseline="none", entropy=0.0, skip_equal=False)
"""With a reward of 1 for each episode REINFORCE's objective is the mean log-probability of what was drawn."""
HEAD, ADDITIVE, LINEAR = "the head", "the head, additive", "linear"
MASTERS, PAIRED = "masters swap: ", ", paired rows"
DESIGNS: Mapping[str, HeadConfig] = {
    HEAD: HeadConfig(),
    ADDITIVE: HeadConfig(design="additive"),
    LINEAR: HeadConfig(design="linear"),
}


def _list_systems(stand_ins: StandIns, before: str, after: str = "", **changes: str) -> dict[str, RouterSystem]:
    return {
        f"{before}{name}{after}": RouterSystem(head.replace(**changes), LIKELIHOOD, stand_ins=stand_ins)
        for name, head in DESIGNS.items()
    }


SYSTEMS: Mapping[str, RouterSystem] = {
    **_list_systems("others", ""),
    "the paper's head": RouterSystem(PAPER_HEAD, LIKELIHOOD),
    **_list_systems("each other", MASTERS),
    **_list_systems("each other", MASTERS, PAIRED, state="paired"),
}


def run_seed(study: RelayStudy, seed: int) -> WorldResult:
    """All designs on one seed's tasks."""
    world = load_world(study, seed, SYSTEMS.values())
    figures = {
        name: run_system(world, system, make_oracle(world, system.stand_ins)) for name, system in SYSTEMS.items()
    }
    figures |= {RANDOM: measure(world, choose_by_chance), ORACLE: measure(world, make_oracle(world))}
    return WorldResult(seed=seed, figures=figures)


STUDY = RelayStudy(routers="taught")
SCALE = Scale("solved", RANDOM, ORACLE, HEAD)
WORLD = World(
    STUDY,
    run_seed,
    scale=SCALE,
    claims=(
        SCALE.claim("attention, where its router is told the right agents", LINEAR),
        SCALE.claim("the same, masters swap, paired rows", f"{MASTERS}{LINEAR}{PAIRED}", f"{MASTERS}{HEAD}{PAIRED}"),
    ),
)
