"""What a study would cost, before it is run."""

from selfwire.core.usage import sum_usages
from selfwire.runs.ablation.plan import Study
from selfwire.runs.estimates import evaluation as of_evaluation
from selfwire.runs.estimates import evolution
from selfwire.runs.estimates.evolution import WITHIN, CostEstimate, format_range, format_tokens


def estimate_cost(study: Study) -> CostEstimate:
    """Estimate calls, tokens and dollars of all runs together; nothing is sent or written.

    Raises:
        ConfigError: the study cannot be used.
    """
    runs = [_one(study, name) for name in study.chosen]
    low, high = (sum_usages(ends * study.seeds) for ends in ([run.low for run in runs], [run.high for run in runs]))
    title = (
        f"dry run of {len(runs)} variants of {study.method} on {study.benchmark}, {study.seeds} seeds each: "
        "nothing was sent"
    )
    assumes = (
        f"assumes the calls that they take offline, {WITHIN}, and {format_tokens()}; fewer --variants or --seeds, or "
        "smaller sizes, cost less"
    )
    return CostEstimate(low, high, format_range(title, low, high, assumes))


def _one(study: Study, name: str) -> CostEstimate:
    if study.evolves:
        return evolution.estimate_cost(study.request(name, 0), None)
    return of_evaluation.estimate_cost(study.evaluation(name, 0), None)
