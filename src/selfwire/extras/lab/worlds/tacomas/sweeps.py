"""The worth of more rounds, harder tasks, larger first teams and better models to TacoMAS (Fig. 3b-d, Fig. 4).

The tasks are those of `roles`, with one parameter changed at a time.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from selfwire.evals.statistics import compute_student_interval
from selfwire.evals.table import Column, build_table, format_difference
from selfwire.extras.lab.worlds.catalogue import World
from selfwire.extras.lab.worlds.gains import Scale, WorldResult, mean_column
from selfwire.extras.lab.worlds.tacomas.roles import STUDY, measure
from selfwire.extras.lab.worlds.tacomas.survey import SurveyParameters

ROUNDS = (1, 2, 4, 6, 10, 20)
STEPS = (2, 3, 4, 5, 6)
WORKERS = (2, 4, 6, 8)
CAP = 10
"""Most agents where the size of the first team is changed, planner and editor included."""
SLOW = ("slow updates",)
FIXED = {"topology": False, "capability": False}
FIXED_TEAMS = {count: f"fixed team, R = {count}" for count in (10, 20)}
MODELS: Mapping[str, Mapping[str, float]] = {
    "agents err more": {"alone": 0.2, "taught": 0.7},
    "as above": {},
    "agents err less": {"alone": 0.5, "taught": 0.95},
    "meta-model and coach err more": {"coach": 0.25, "meta": 0.3},
    "meta-model and coach err less": {"coach": 0.75, "meta": 0.9, "hasty": 0.1},
}


def get_first(name: str) -> str:
    """The name of a system that ends with its first answer."""
    return f"{name}, first answer"


class Sweep(NamedTuple):
    """Differences from `roles`: in the world, and in TacoMAS's config."""

    given: Mapping[str, Any] = {}
    config: Mapping[str, Any] = {}


MAIN, FIRST = "R = 10", "R = 1"
SYSTEMS: Mapping[str, Sweep] = {
    **{f"R = {count}": Sweep(config={"rounds": count}) for count in ROUNDS},
    **{name: Sweep(config={"rounds": count, **FIXED}) for count, name in FIXED_TEAMS.items()},
    **{f"{steps} steps": Sweep({"steps": steps}) for steps in STEPS if steps != STUDY.steps},
    **{f"{count} workers": Sweep({"present": count // 2, "room": CAP - 2 - count}) for count in WORKERS},
    **{name: Sweep(changes) for name, changes in MODELS.items() if changes},
    **{get_first(name): Sweep(changes, {"rounds": 1}) for name, changes in MODELS.items() if "alone" in changes},
}
SAME: Mapping[str, str] = {
    f"{STUDY.steps} steps": MAIN,
    **{name: MAIN for name, changes in MODELS.items() if not changes},
    **{get_first(name): FIRST for name, changes in MODELS.items() if "alone" not in changes},
}
"""Systems that are others under another name: only the agents have a part in a first answer."""


async def run_seed(given: SurveyParameters, seed: int) -> WorldResult:
    """All systems on all tasks of a seed."""
    found = {
        name: await measure(given.replace(**system.given), seed, **system.config) for name, system in SYSTEMS.items()
    }
    return WorldResult(seed=seed, figures=found | {name: found[same] for name, same in SAME.items()})


def format_tables(results: Sequence[WorldResult]) -> str:
    """A table for each parameter that is changed."""
    score = Column[str]("score [95 %]", lambda name: str(SCALE.estimate(results, name)))
    steps, calls, slow = (
        mean_column(results, *column) for column in (("steps", ".2f", "steps right"), ("calls",), SLOW)
    )
    models = (
        Column[str]("first answer, steps right", lambda name: steps.format(get_first(name))),
        Column[str]("in the end, steps right", steps.format),
        Column[str]("gain [95 %]", lambda name: format_difference(RIGHT.compare(results, name, get_first(name)))),
        score,
        calls,
    )
    tables: Mapping[str, tuple[tuple[Column[str], ...], Sequence[str]]] = {
        "most rounds": ((score, steps, calls, slow), [*(f"R = {count}" for count in ROUNDS), *FIXED_TEAMS.values()]),
        "difficulty": ((score, _spread(results, *SLOW), calls), [f"{count} steps" for count in STEPS]),
        "workers of the first team": ((score, steps, calls, slow), [f"{count} workers" for count in WORKERS]),
        "models": (models, [*MODELS]),
    }
    printed = [
        build_table((Column(title, str), *columns), names).markdown for title, (columns, names) in tables.items()
    ]
    return "\n\n".join([f"{len(results)} seeds.", *printed])


def _spread(results: Sequence[WorldResult], figure: str) -> Column[str]:
    def cell(name: str) -> str:
        return str(compute_student_interval([result.figures[name][figure] for result in results]))

    return Column(f"{figure} [95 %]", cell)


SCALE = Scale("solved", least=FIRST, most="R = 20", main=MAIN)
RIGHT = Scale("steps", least=FIRST, most="R = 20", main=MAIN)
WORLD = World(STUDY, run_seed, SCALE, (), format_tables)
