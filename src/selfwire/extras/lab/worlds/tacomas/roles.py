"""The worth of TacoMAS's two loops where roles are missing, and how often the slow one should run.

All systems run in TacoMAS's own LangGraph with the same scripted models and the same luck.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Trajectory
from selfwire.evals.statistics import compute_mean, compute_student_interval
from selfwire.evals.table import Column, format_difference
from selfwire.evolvers.tacomas.config import TacomasConfig
from selfwire.evolvers.tacomas.rounds import Figures
from selfwire.extras.lab.worlds.catalogue import World
from selfwire.extras.lab.worlds.gains import Scale, WorldResult, mean_column
from selfwire.extras.lab.worlds.tacomas.survey import Survey, SurveyModel, SurveyParameters, make_survey
from selfwire.graphs.tacomas import Tacomas
from selfwire.models.embeddings import HashingEmbedder

MAIN, ONE, ORACLE = "both loops, K = 2", "both loops, K = 1", "both loops, nobody errs, K = 1"
RANDOM = "random births and deaths"
FAST, SLOW, FIXED = "fast loop alone (K = never)", "slow loop alone", "fixed team"
PATIENT = ", never hasty"
OTHER = (1, 3, 5)
"""K beside the default."""
SYSTEMS: Mapping[str, Mapping[str, Any]] = {
    MAIN: {},
    **{f"both loops, K = {k}": {"interval": k} for k in OTHER},
    FAST: {"topology": False},
    SLOW: {"capability": False},
    FIXED: {"topology": False, "capability": False},
}


async def run_task(
    survey: Survey, given: SurveyParameters, scope: Scope, *, guesses: bool = False, **config: Any
) -> Trajectory:
    """Run TacoMAS on a task.

    Args:
        guesses: whether its meta-model proposes any changes, as many as ever.
        config: what differs from its defaults.
    """
    settings = {"rounds": given.rounds, "threshold": 1.0, "slow": {"nodes": given.cap}, **config}
    method = Tacomas(TacomasConfig.model_validate(settings))
    ctx = method.make_ctx(SurveyModel(survey, given, guesses), {}, HashingEmbedder(), scope=scope)
    return await method.answer(survey.team, Question(id=scope.task, input="The survey."), ctx)


async def run_seed(given: SurveyParameters, seed: int) -> WorldResult:
    """All systems on all tasks of a seed."""
    figures = {name: await measure(given, seed, **config) for name, config in SYSTEMS.items()}
    patient = given.replace(hasty=0.0)
    figures |= {f"{name}{PATIENT}": await measure(patient, seed, **SYSTEMS[name]) for name in (MAIN, ONE)}
    figures[RANDOM] = await measure(given, seed, guesses=True)
    figures[ORACLE] = await measure(given.never_wrong, seed, interval=1)
    return WorldResult(seed=seed, figures=figures)


async def measure(given: SurveyParameters, seed: int, **options: Any) -> dict[str, float]:
    """Means of a system's figures over all tasks of a seed; options as `run_task`."""
    found = []
    for number in range(given.tasks):
        survey, scope = make_survey(given, seed, number), Scope(seed=seed, task=f"t{number}", phase="test")
        found.append(summarise(survey, await run_task(survey, given, scope, **options)))
    return {name: compute_mean([figures[name] for figures in found]) for name in found[0]}


def summarise(survey: Survey, done: Trajectory) -> dict[str, float]:
    """The figures of a run."""
    figures, rounds = Figures.model_validate(done.notes["figures"]), done.notes["rounds"]
    return {
        "solved": float(survey.solves(done.answer)),
        "steps": survey.count_right(done.answer) / len(survey.results),
        "rounds": figures.rounds,
        "calls": figures.calls,
        "change": figures.mean_change or 0.0,
        "slow updates": figures.slow_updates,
        "births": sum(len(record["births"]) for record in rounds),
        "deaths": sum(len(record["deaths"]) for record in rounds),
    }


def list_columns(results: Sequence[WorldResult]) -> tuple[Column[str], ...]:
    """How the runs of the loops went."""

    def change(name: str) -> str:
        return format_difference(compute_student_interval([result.figures[name]["change"] for result in results]), 3)

    return (
        mean_column(results, "steps", ".2f", "steps right"),
        Column("mean change of m per round [95 %]", change),
        *(mean_column(results, figure) for figure in ("rounds", "slow updates", "births", "deaths")),
    )


SCALE = Scale("solved", least=FIXED, most=ORACLE, main=MAIN)
CLAIMS = (
    SCALE.claim("slow loop", FAST),
    SCALE.claim("slow loop, against random births and deaths", RANDOM),
    SCALE.claim("fast loop", SLOW),
    *(SCALE.claim(f"K = 2 in place of {k}", f"both loops, K = {k}") for k in OTHER),
    SCALE.claim("K = 2 in place of 1, where the meta-model is never hasty", f"{ONE}{PATIENT}", main=f"{MAIN}{PATIENT}"),
)
STUDY = SurveyParameters()
WORLD = World(STUDY, run_seed, SCALE, CLAIMS, columns=list_columns)
