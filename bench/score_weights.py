"""From how many graded runs HiVA finds a planted lambda and eta.

Runs come in batches of ten, each with a level of its own. A run's log odds of success are its batch's level plus the
planted weight times its term: how much nearer than by chance its agents are, up to 0.4 either way, or the logarithm of
their synergy, which is drawn from all that synergy can be or from its upper half.
"""

from math import log

import numpy as np

from bench.measuring import Row
from selfwire.evolvers.hiva.config import KabbConfig
from selfwire.evolvers.hiva.knowledge import UNIFORM, ScoreSample, fit_score_weights
from selfwire.evolvers.hiva.memory import SYNERGY_BOUNDS

TITLE = "how many runs tell lambda and eta"
RUNS = (100, 200, 500, 1000, 2000)
DRAWS, BATCH = 20, 10
LAMBDA, ETA = 20.0, 2.0
"""Planted, twice and four times what a fit begins with."""
LEAST, MOST = SYNERGY_BOUNDS
TERMS = {
    "lambda": (LAMBDA, -0.4, 0.4),
    "eta": (ETA, log(LEAST), log(MOST)),
    "eta, synergy of 1.5 or more": (ETA, log((LEAST + MOST) / 2), log(MOST)),
}
"""The planted weight, and the bounds of its term."""


def fit_planted(term: str, runs: int, seed: int) -> float:
    """The weight that is fitted to runs in which one is planted."""
    random, config = np.random.default_rng([seed, runs]), KabbConfig()
    planted, low, high = TERMS[term]
    values, levels = random.uniform(low, high, runs), np.repeat(random.normal(0, 1, runs // BATCH), BATCH)
    solved = random.random(runs) < 1 / (1 + np.exp(-(planted * (values - (low + high) / 2) + levels)))
    is_lambda = term == "lambda"
    evidence = [
        ScoreSample(
            nearer=(value,) * 4 if is_lambda else (0.0,) * 4,
            synergy=0.0 if is_lambda else value,
            solved=bool(right),
            batch=number // BATCH,
        )
        for number, (value, right) in enumerate(zip(values.tolist(), solved, strict=True))
    ]
    return fit_score_weights(evidence, UNIFORM, (config.distance_weight, config.synergy_weight))[0 if is_lambda else 1]


def measure(counts: tuple[int, ...] = RUNS, draws: int = DRAWS) -> list[Row]:
    """The share of draws in which the fitted weight is within a quarter of the planted one."""
    rows = []
    for runs in counts:
        for term, (planted, _, _) in TERMS.items():
            found = [fit_planted(term, runs, seed) for seed in range(draws)]
            share = sum(abs(weight - planted) <= planted / 4 for weight in found) / draws
            rows.append(Row(what=f"{runs:,} runs", column=f"{term} of {planted:g} found", value=share))
    return rows
