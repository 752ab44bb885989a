"""What a study would cost, before it is run."""

from selfwire.core.usage import total
from selfwire.runs.ablation.plan import Study
from selfwire.runs.estimates import evaluation as of_evaluation
from selfwire.runs.estimates import evolution
from selfwire.runs.estimates.evolution import WITHIN, Forecast, told, told_tokens


def estimated(study: Study) -> Forecast:
    """Estimate calls, tokens and dollars of all runs together; nothing is sent or written.

    Raises:
        ConfigError: the study cannot be used.
    """
    runs = [_one(study, name) for name in study.chosen]
    low, high = (total(ends * study.seeds) for ends in ([run.low for run in runs], [run.high for run in runs]))
    title = (
        f"dry run of {len(runs)} variants of {study.method} on {study.benchmark}, {study.seeds} seeds each: "
        "nothing was sent"
    )
    assumes = (
        f"assumes the calls that they take offline, {WITHIN}, and {told_tokens()}; fewer --variants or --seeds, or "
        "smaller sizes, cost less"
    )
    return Forecast(low, high, told(title, low, high, assumes))


def _one(study: Study, name: str) -> Forecast:
    if study.evolves:
        return evolution.estimated(study.request(name, 0), None)
    return of_evaluation.estimated(study.evaluation(name, 0), None)
