"""Beyond the paper: fits tau and K_in to held-out tasks, as the best tau depends on the tasks (Table 3).

Nothing else is learned, so train tasks are held out too; the gate then compares the chosen setting on fresh ones.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from statistics import mean

from pydantic import Field

from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import sum_usages
from selfwire.core.values import FrozenModel
from selfwire.evolvers.dytopo.config import DytopoConfig
from selfwire.evolvers.dytopo.domain import MEMORY, DytopoMemory, TunedSetting
from selfwire.evolvers.trajectory_text import gather_all

RunGraded = Callable[[Team, Question], Awaitable[Trajectory]]
"""Puts a question to a team, and grades the answer."""

THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""The paper's sweep (Table 3)."""
PROVIDERS = (1, 2, 3)


class Setting(FrozenModel):
    """A choice of tau and K_in."""

    threshold: float = Field(ge=-1, le=1)
    providers: int = Field(ge=1, le=1000)


class Trial(FrozenModel):
    """Result of a setting on held-out tasks.

    Args:
        scores: per task, in [0, 1]; the same tasks in every trial. None: the run ended as an error.
    """

    setting: Setting
    scores: tuple[float | None, ...]
    tokens: int = Field(default=0, ge=0)


class Tuning(FrozenModel):
    """Result of tuning: the current setting's trial is the first, and without graded trajectories there is none."""

    workflow: Team
    chosen: Setting
    trials: tuple[Trial, ...] = ()


AT_ONCE = 8
"""Questions of a trial that run at the same time."""


async def tune_team(
    team: Team,
    trajectories: Sequence[Trajectory],
    config: DytopoConfig,
    run_graded: RunGraded,
    *,
    settings: Sequence[Setting] | None = None,
) -> Tuning:
    """Fit tau and K_in to tasks; the setting changes only if another one scores higher.

    Args:
        trajectories: its runs with the current setting; those without a grade teach nothing.
        run_graded: makes the runs of a trial; a question draws alike in every trial.
        settings: tried beside the current one; by default as the config says.

    Raises:
        BudgetError, OutageError: the trials must stop.
    """
    now = get_current_setting(team, config)
    graded = [done for done in trajectories if done.feedback is not None]
    if not graded:
        return Tuning(workflow=team, chosen=now)
    if settings is None:
        settings = find_neighbours(now) if config.search == "near" else make_grid()
    places = asyncio.Semaphore(AT_ONCE)

    async def run(candidate: Team, question: Question) -> Trajectory:
        async with places:
            return await run_graded(candidate, question)

    trials = [_make_trial(now, graded)]
    for setting in dict.fromkeys(settings):
        if setting != now:
            candidate = with_setting(team, setting)
            trials.append(_make_trial(setting, await gather_all(run(candidate, done.question) for done in graded)))
    chosen = choose_best(trials, now)
    kept = team if chosen == now else with_setting(team, chosen).with_lineage(team, ())
    return Tuning(workflow=kept, chosen=chosen, trials=tuple(trials))


def _make_trial(setting: Setting, runs: Sequence[Trajectory]) -> Trial:
    return Trial(
        setting=setting,
        scores=tuple(done.feedback.score if done.feedback else None for done in runs),
        tokens=sum_usages(done.usage for done in runs).tokens,
    )


def get_current_setting(team: Team, config: DytopoConfig) -> Setting:
    """The setting that a team runs with: the tuned one, else the config's."""
    tuned = DytopoMemory.of(team).tuned
    return Setting(
        threshold=config.threshold if tuned.threshold is None else tuned.threshold,
        providers=config.providers if tuned.providers is None else tuned.providers,
    )


def make_grid() -> tuple[Setting, ...]:
    """All settings of the sweep."""
    return tuple(Setting(threshold=tau, providers=most) for tau in THRESHOLDS for most in PROVIDERS)


def find_neighbours(now: Setting) -> tuple[Setting, ...]:
    """The settings one step of the sweep away in tau or in K_in."""
    steps = [round(now.threshold + step, 6) for step in (-0.1, 0.1)]
    taus = [Setting(threshold=tau, providers=now.providers) for tau in steps if -1 <= tau <= 1]
    most = [now.providers + step for step in (-1, 1)]
    return (*taus, *(Setting(threshold=now.threshold, providers=cap) for cap in most if 1 <= cap <= max(PROVIDERS)))


def choose_best(trials: Sequence[Trial], now: Setting) -> Setting:
    """The setting with the highest mean score over the tasks that ended without an error in every trial.

    Among equal scores the current setting stays; else fewer tokens decide, then the higher tau, then the lower K_in.

    Raises:
        ValueError: there are no trials, or they are not about the same tasks.
    """
    if not trials or len({len(trial.scores) for trial in trials}) != 1:
        raise ValueError("trials are compared on the same tasks; run every setting on all of them")
    sound = [at for at in range(len(trials[0].scores)) if all(trial.scores[at] is not None for trial in trials)]
    if not sound:
        return now

    def rank(trial: Trial) -> tuple[float, bool, int, float, int]:
        score = mean(trial.scores[at] or 0.0 for at in sound)
        setting = trial.setting
        return (-round(score, 9), setting != now, trial.tokens, -setting.threshold, setting.providers)

    return min(trials, key=rank).setting


def with_setting(team: Team, setting: Setting) -> Team:
    """The team with a tuned setting, which overrides the config's."""
    tuned = TunedSetting(threshold=setting.threshold, providers=setting.providers)
    return team.with_memory(**{MEMORY: DytopoMemory.of(team).replace(tuned=tuned).model_dump(mode="json")})
