"""Validation while a router is trained on relays, for twice as long as in `relays` (Fig. 3b)."""

from collections.abc import Mapping, Sequence
from functools import partial

from selfwire.evals.evaluation.table import Column, build_table
from selfwire.evals.statistics import compute_mean
from selfwire.evals.studies.errand_runs import Choose
from selfwire.evals.studies.evomas.relays import (
    HEAD,
    LINEAR,
    RANDOM,
    RelayStudy,
    RelayWorld,
    System,
    choose_by_chance,
    load_world,
    measure,
    run_system,
)
from selfwire.evals.studies.gains import Scale, WorldResult
from selfwire.evals.studies.worlds import World
from selfwire.evolvers.trained_router.config import HeadConfig

POINTS = (0, 50, 100, 200, 300)
"""Updates before which a router is validated, beside the end."""
ADDITIVE = f"{HEAD}, additive"
SYSTEMS: Mapping[str, System] = {
    HEAD: System(),
    ADDITIVE: System(HeadConfig(design="additive")),
    LINEAR: System(HeadConfig(design="linear")),
}


def run_seed(study: RelayStudy, seed: int) -> WorldResult:
    """All systems on one seed's tasks."""
    world = load_world(study, seed, SYSTEMS.values())
    figures = {name: run_watched(world, system) for name, system in SYSTEMS.items()}
    return WorldResult(seed=seed, figures=figures | {RANDOM: measure(world, choose_by_chance)})


def run_watched(world: RelayWorld, system: System) -> dict[str, float]:
    """Train a router, and validate it on the way."""
    found: dict[str, float] = {}

    def validate(number: int, choose: Choose) -> None:
        if number in POINTS:
            found[f"after {number}"] = measure(world, choose, system)["solved"]

    return {**run_system(world, system, validate), **found}


def format_tables(results: Sequence[WorldResult]) -> str:
    """The curves."""

    def read(figure: str, name: str) -> str:
        return f"{compute_mean([one.figures[name][figure] for one in results]):.2f}"

    points = (f"after {number}" for number in POINTS)
    columns = (
        Column("updates", str),
        *(Column[str](figure, partial(read, figure)) for figure in points),
        Column(f"after {STUDY.updates} [95 %]", lambda name: str(SCALE.estimate(results, name))),
    )
    return f"{len(results)} seeds.\n\n{build_table(columns, [*SYSTEMS]).markdown}"


STUDY = RelayStudy(routers="curves", updates=600)
SCALE = Scale("solved", RANDOM, LINEAR, HEAD)
WORLD = World(STUDY, partial(run_seed, STUDY), SCALE, (), format_tables)
