"""Beyond the paper: fits tau and K_in to held-out tasks, as the best tau depends on the tasks (Table 3).

Nothing else is learned, so train tasks are held out too; the gate then compares the chosen setting on fresh ones.
"""

from collections.abc import Sequence
from statistics import mean

from pydantic import Field

from selfwire.core.values import FrozenModel
from selfwire.core.workflow import Workflow
from selfwire.evolvers.dytopo.config import DytopoConfig
from selfwire.evolvers.dytopo.domain import MEMORY, DytopoMemory, TunedSetting

THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""The paper's sweep (Table 3)."""
PROVIDERS = (1, 2, 3)


class Setting(FrozenModel):
    """One choice of tau and K_in."""

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


def get_current_setting(workflow: Workflow, config: DytopoConfig) -> Setting:
    """The setting that a workflow runs with: the tuned one, else the config's."""
    tuned = DytopoMemory.of(workflow).tuned
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
    return (*taus, *(Setting(threshold=now.threshold, providers=one) for one in most if 1 <= one <= max(PROVIDERS)))


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


def with_setting(workflow: Workflow, setting: Setting) -> Workflow:
    """The workflow with a tuned setting, which overrides the config's."""
    tuned = TunedSetting(threshold=setting.threshold, providers=setting.providers)
    return workflow.with_memory(**{MEMORY: DytopoMemory.of(workflow).replace(tuned=tuned).model_dump(mode="json")})
