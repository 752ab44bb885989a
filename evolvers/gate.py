"""The gate decides, on fresh tasks that both have run, whether a candidate replaces the incumbent. Method-free.

    mean      the mean paired difference is at least the margin (`decide`); noise passes it in about half of the cases
    better    a gain above the margin is proved, the price of further calls taken off (`decide_by_evidence`)
    no-worse  that, or: a loss above the margin is ruled out, and the candidate costs less

What a gain is, and what it has to pay for, an objective says: "score - 0.002*calls".

A proof is an e-process (Waudby-Smith and Ramdas, arXiv 2010.09686): the wealth of somebody who bets at fair odds, task
by task, against the claim that there is no gain. If there is none, the wealth reaches 1/error in a share of at most
`error` of all runs, however often one looks, so the gate may stop as soon as it is there. A run deals its error out to
its decisions, most to the first (`compute_share`), and each part to the outcomes that earlier decisions may have had
(`compute_weight`), since outcomes are all that these can tell a candidate of the gate tasks. Both are union bounds.

Before a proof of a gain, some train tasks choose what is worth it: there the candidate has to do no worse in the mean
than the incumbent, and than the draft that it has come from (`keep_draft`). More of them decide where it seems to do
worse. Train tasks tell nothing of the gate tasks, so this costs no error.

A run that takes parts out expects to be right, and deals its error out otherwise: half of it to all decisions before
the first rejection, since only the first harmful candidate in a row of acceptances can be the first false one. What
follows a rejection has a quarter of that, halved once more for each acceptance since the rejection before
(`compute_row_weight`). Over all places of the next rejection these parts add up to a half, and over any number of
rejections the rows add up to the error.

What passes this, its gain not proved, is a draft: the next rewiring builds on it and is compared with the incumbent
again, so that small gains add up to one that can be proved. What does worse than a draft which does no worse than the
incumbent leaves the draft as it is. A run hands over what was proved.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, Literal

from pydantic import Field

from selfwire.core.usage import Objective, Usage, subtract_cost
from selfwire.core.values import FrozenModel, format_count

Gate = Literal["better", "no-worse", "mean", "off"]
TIE = 1e-9  # differences of mean scores below this are ties
BETS = tuple((number - 0.5) / 20 for number in range(1, 21))
"""Shares of the wealth that are bet on each task; the evidence is the mean wealth of all, so none has to be tuned."""
EQUAL_BETS = (1.0,) * len(BETS)
"""Weights of the bets in that mean, where the size of what is looked for is not known."""
MIDDLE_BETS = tuple(bet * (1 - bet) for bet in BETS)
"""Weights of the bets for a gain beside losses by chance: the least bet wins too little, the most loses too much."""
OUTCOMES: Mapping[str, Sequence[str]] = {"better": ("accepted", "draft"), "no-worse": ("accepted", "draft", "rejected")}
"""What a proof can end as; where train tasks have chosen the draft, that is no outcome of the proof."""
MOST_PRICE = 0.25
"""What a task's gain and costs together may lie beyond [-1, 1]; more is cut off, as a bet needs a bound."""
SIMPLER_PRICE = 0.05
"""The same where parts are taken out, which saves few calls."""


class GateDecision(FrozenModel):
    """The gate's decision.

    Args:
        why: the reason, with the figures.
        difference: mean of candidate - incumbent over the compared tasks; None if none could be compared.
        compared: tasks that were compared.
        left_out: tasks that ended as an error for either; of a proof, for the incumbent.
        by_errors: whether only errors of the candidate have rejected it; not on record.
        evidence: for a gain, against "there is none", as a factor; None for a gate that needs no proof.
        error: chance of a false acceptance that this decision may take; None for such a gate.
        draft: whether it does no worse in the mean, though no gain is proved, so that the next rewiring builds on it.
        keeps_draft: whether it does worse than the draft that it has come from, which the next rewiring builds on, or
            which is put to proof in its place where none is left.
        patience_used: ties at more calls that were accepted in a row, this decision included.
        try_pruning: whether the patience is used up, so that a cheaper team should be tried.
        unchanged: why there was nothing to compare, where the team is as it was: no change was proposed, or only what
            could not be used.
    """

    accepted: bool
    why: str
    difference: float | None = None
    compared: int = Field(default=0, ge=0)
    left_out: int = Field(default=0, ge=0)
    by_errors: bool = Field(default=False, exclude=True)
    evidence: float | None = None
    error: float | None = None
    draft: bool = False
    keeps_draft: bool = False
    patience_used: int = Field(default=0, ge=0)
    try_pruning: bool = False
    unchanged: Literal["", "no change", "unusable reply"] = ""


def name_outcome(decision: Mapping[str, Any]) -> str:
    """Outcome of an iteration by its decision on record: accepted, draft, rejected, no change or unusable reply."""
    if decision.get("unchanged"):
        return str(decision["unchanged"])
    return "accepted" if decision.get("accepted") else "draft" if decision.get("draft") else "rejected"


def compute_weight(before: Mapping[str, int], outcome: str, possible: Sequence[str]) -> float:
    """Compute the part of a decision's share of the error that belongs to the histories in which it has this outcome.

    It is the outcome's chance by Krichevsky and Trofimov's estimate from those before, so that a run whose decisions
    end alike loses little of its error. Over all outcomes the parts add up to 1.

    Args:
        before: how often each outcome was had.
        possible: all outcomes.
    """
    return (before.get(outcome, 0) + 0.5) / sum(before.get(name, 0) + 0.5 for name in possible)


def compute_share(decided: int, decisions: int, *, is_last: bool) -> float:
    """Compute the share of a run's error that its next decision has, before the weight of the earlier outcomes.

    Shares are as 1, 1/2, 1/3, ... of the first decision's, as most gains come early or not at all. The last one has all
    that is left, also what iterations without a comparison have not used. So the shares of a run add up to 1.

    Args:
        decided: decisions before it.
        decisions: most decisions of the run.
    """
    shares = [1 / number for number in range(1, max(1, decisions) + 1)]
    return sum(shares[decided:] if is_last else shares[decided : decided + 1]) / sum(shares)


def compute_row_weight(accepted: int) -> float:
    """Compute the part of a row's error that the decisions after its rejection have.

    Args:
        accepted: acceptances of the row before its rejection.
    """
    return float(0.5 ** (accepted + 2))


def decide(
    incumbent_scores: Sequence[float | None],
    candidate_scores: Sequence[float | None],
    incumbent_calls: Sequence[float],
    candidate_calls: Sequence[float],
    patience_used: int,
    *,
    margin: float = 0.0,
    patience: int = 3,
) -> GateDecision:
    """Accept if the paired mean difference is at least the margin; ties at more calls only so often in a row.

    Args:
        incumbent_scores, candidate_scores: N scores in [0, 1], task by task; None for an error.
        incumbent_calls, candidate_calls: N model calls, task by task.
        patience_used: ties at more calls that were accepted in a row before this one.
        margin: least difference, >= 0.
        patience: most ties at more calls in a row.

    Raises:
        ValueError: the sequences differ in length, or the margin is negative.
    """
    lengths = {len(s) for s in (incumbent_scores, candidate_scores, incumbent_calls, candidate_calls)}
    if len(lengths) != 1:
        raise ValueError(f"scores and calls must name the same tasks; lengths are {sorted(lengths)}")
    if margin < 0:
        raise ValueError(f"the margin must be at least 0, not {margin}")
    rows = zip(incumbent_scores, candidate_scores, incumbent_calls, candidate_calls, strict=True)
    pairs = [(new - old, after - before) for old, new, before, after in rows if old is not None and new is not None]
    left_out = len(incumbent_scores) - len(pairs)
    if not pairs:
        why = f"no task could be compared: all {left_out} ended as an error"
        return GateDecision(accepted=False, why=why, left_out=left_out, patience_used=patience_used)
    difference, extra = (sum(column) / len(pairs) for column in zip(*pairs, strict=True))
    accepted, why, used = _rule(difference, extra, patience_used, margin, patience)
    return GateDecision(
        accepted=accepted,
        why=f"{why} over {len(pairs)} tasks",
        difference=difference,
        compared=len(pairs),
        left_out=left_out,
        patience_used=used,
        try_pruning=not accepted and abs(difference) < TIE and margin < TIE,
    )


def _rule(difference: float, extra: float, used: int, margin: float, patience: int) -> tuple[bool, str, int]:
    if difference < margin - TIE:
        return False, f"mean difference {difference:+.3f} is below the margin {margin:.3f}", used
    if abs(difference) >= TIE or extra <= 0:
        return True, f"mean difference {difference:+.3f} at {extra:+.2f} calls per task", 0
    if used < patience:
        return True, f"a tie at {extra:+.2f} calls per task, {used + 1} of {patience} in a row", used + 1
    return False, f"a tie at {extra:+.2f} calls per task, and {patience} such ties in a row were accepted", used


MOST_TASKS = 100_000
"""Tasks that are read of a file at most."""


class EvidenceRule(FrozenModel):
    """The proof that a change needs.

    Args:
        gate: better or no-worse.
        margin: least gain of `better`; largest loss that `no-worse` does not count.
        objective: the price of what a change costs; the cheapest one is of no-worse.
        error: chance of a false acceptance, in (0, 1).
        saves: a cost that has to be lower in the mean; "" for none.
        simpler: whether candidates have fewer parts, so that `no-worse` accepts as many calls as before, and counts the
            price of those that it saves or adds.
    """

    gate: Literal["better", "no-worse"] = "better"
    margin: float = Field(default=0.0, ge=0, lt=1)
    objective: Objective = Objective()
    error: float = Field(default=0.05, gt=0, lt=1)
    saves: Literal["", "dollars"] = ""
    simpler: bool = False

    @property
    def proves_no_loss(self) -> bool:
        """Whether no gain is looked for."""
        return self.simpler or self.objective.cheapest

    @property
    def weights(self) -> Sequence[float]:
        """The weights of the bets."""
        return MIDDLE_BETS if self.gate == "better" else EQUAL_BETS

    def find_bounds(self, *, saves: bool) -> tuple[float, float]:
        """Find what the mean gain has to exceed, and the most that a task's gain less its price counts for.

        Args:
            saves: whether the change saves costs, so that it needs no gain.
        """
        most = SIMPLER_PRICE if self.simpler else 0.0 if saves or not self.objective.prices else MOST_PRICE
        return -self.margin if saves else self.margin, 1.0 + most

    def is_proof(self, gains: Sequence[float], *, saves: bool, times: int = 1) -> bool:
        """Whether gains less their price are a proof, if each occurs so many times."""
        least, bound = self.find_bounds(saves=saves)
        found = compute_log_evidence(gains, least=least, bound=bound, times=times, weights=self.weights)
        return found >= -math.log(self.error)

    def can_prove(self, tasks: int) -> bool:
        """Whether so many tasks can prove anything: that nothing is lost, or else the most on all of them."""
        saves = self.gate == "no-worse"
        _, most = self.find_bounds(saves=saves)
        return self.is_proof([0.0 if self.proves_no_loss else most], saves=saves, times=tasks)

    def find_least_tasks(self) -> int | None:
        """The fewest tasks that can prove anything; None if not even the most tasks of a file can."""
        found = bisect_left(range(MOST_TASKS + 1), True, key=self.can_prove)
        return found if found <= MOST_TASKS else None

    def find_least_gain(self, tasks: int, lost: int = 0) -> float | None:
        """The least mean gain that is proof on this many tasks, some of them lost; None if not even the most is.

        With none lost a task won counts for the most that it may, as if it saved calls too, so that no smaller gain is
        proof; else it counts 1.
        """
        most = 1.0 if lost else self.find_bounds(saves=False)[1]
        won = bisect_left(
            range(tasks - lost + 1),
            True,
            key=lambda won: self.is_proof([most] * won + [-1.0] * lost + [0.0] * (tasks - won - lost), saves=False),
        )
        return (won - lost) / tasks if won <= tasks - lost else None


def compute_log_evidence(
    gains: Sequence[float],
    *,
    least: float = 0.0,
    bound: float = 1.0,
    times: float = 1.0,
    weights: Sequence[float] = EQUAL_BETS,
) -> float:
    """Natural logarithm of the evidence against "the mean gain is at most `least`"; the order does not matter.

    Args:
        gains: N gains in [-bound, bound].
        least: above -bound.
        times: how often each gain counts; more than once for what is to be expected of more tasks.
        weights: of the bets, chosen before the gains are seen.

    Raises:
        ValueError: a gain is out of bounds.
    """
    if any(abs(gain) > bound + TIE for gain in gains):
        raise ValueError(f"gains must lie in [-{bound:g}, {bound:g}]")
    odds = [(gain - least) / (bound + least) for gain in gains]
    logs = [times * math.fsum(math.log1p(bet * odd) for odd in odds) for bet in BETS]
    most, wealth = max(logs), zip(weights, logs, strict=True)
    return most + math.log(math.fsum(weight * math.exp(log - most) for weight, log in wealth) / math.fsum(weights))


def decide_by_evidence(
    incumbent_scores: Sequence[float | None],
    candidate_scores: Sequence[float | None],
    incumbent_costs: Sequence[Usage],
    candidate_costs: Sequence[Usage],
    rule: EvidenceRule,
    *,
    left: int = 0,
    sizes: Sequence[int] = (),
) -> GateDecision | None:
    """Accept what is proved, reject what cannot be proved any more; None while neither is the case.

    A task that ends as an error for the candidate alone counts as wrong at the same cost: a change that turns wrong
    answers into errors would seem better without them. Where that alone rejects it, the decision says so.

    Args:
        incumbent_scores, candidate_scores: N scores in [0, 1], task by task; None for an error.
        incumbent_costs, candidate_costs: N costs, task by task.
        left: groups of tasks that may still be compared; without any there is a decision.
        sizes: of the groups that count as one by their mean, N tasks in all; () where each task counts by itself.

    Raises:
        ValueError: dollars count, and a price is not known.
    """
    groups = [number for number, size in enumerate(sizes) for _ in range(size)] or range(len(incumbent_scores))
    rows = [
        (group, old, new, before, after)
        for group, old, new, before, after in zip(
            groups, incumbent_scores, candidate_scores, incumbent_costs, candidate_costs, strict=True
        )
        if old is not None
    ]
    left_out = len(incumbent_scores) - len(rows)
    if not rows:
        why = f"no task could be compared: all {left_out} ended as an error"
        return None if left else GateDecision(accepted=False, why=why, left_out=left_out, error=rule.error)
    found, finished = _weigh(rows, rule, left, left_out), [row for row in rows if row[2] is not None]
    if found is None or found.accepted or len(finished) == len(rows):
        return found
    without = _weigh(finished, rule, left, left_out) if finished else None
    return found.replace(by_errors=without is None or without.accepted)


def _weigh(
    rows: Sequence[tuple[int, float, float | None, Usage, Usage]], rule: EvidenceRule, left: int, left_out: int
) -> GateDecision | None:
    """Decide on tasks that the incumbent finished, each with its group, both scores and both costs."""
    pairs = [
        (-old, before, before) if new is None else (new - old, before, after) for _, old, new, before, after in rows
    ]
    objective, groups = rule.objective, [group for group, *_ in rows]
    gains = _average([gain for gain, _, _ in pairs], groups)
    prices = _average([objective.compute_price(before, after) for _, before, after in pairs], groups)
    counted = dict.fromkeys([*(objective.prices or ("calls",)), *filter(None, [rule.saves])])
    extra = {name: sum(subtract_cost(name, old, new) for _, old, new in pairs) / len(pairs) for name in counted}
    saved = extra[rule.saves] if rule.saves else sum(prices) if objective.prices else extra["calls"]
    cheaper = saved < 0
    saves = rule.gate == "no-worse" and (rule.proves_no_loss or cheaper)
    least, bound = rule.find_bounds(saves=saves)
    paid = [0.0] * len(gains) if saves and not rule.simpler else prices
    whole = [min(bound, gain - price) for gain, price in zip(gains, paid, strict=True)]
    net = [max(-bound, gain) for gain in whole]
    log_evidence = compute_log_evidence(net, least=least, bound=bound, weights=rule.weights)
    is_proof = log_evidence >= -math.log(rule.error)
    pays = whole == net or fmean(whole) - 2 * _estimate_deviation(whole) > least
    dearer = not cheaper and (objective.cheapest or bool(rule.saves))
    accepted = is_proof and pays and not dearer
    if not accepted and not dearer and left and _may_be_proved(net, left, rule, saves=saves):
        return None
    difference = sum(gains) / len(gains)
    after = ", calls paid for," if rule.simpler else " at a lower cost"
    aim = f"a loss of at most {rule.margin:g}{after}" if saves else f"a gain above {rule.margin:g}"
    said = f"it saves no {rule.saves or 'calls'}" if dearer else f"{aim} is {'proved' if accepted else 'not proved'}"
    said += ", as a few tasks cost very much more" if is_proof and not (pays or dearer) else ""
    failed = sum(new is None for _, _, new, _, _ in rows)
    errors = f", {failed} of them ended as errors and count as wrong" if failed else ""
    grouped = f" in {format_count(len(gains), 'group')}" if len(gains) < len(pairs) else ""
    evidence = math.exp(min(log_evidence, 700))
    shown = f"{evidence:.2g}" if evidence < 10 or evidence > 1e6 else f"{evidence:,.0f}"
    return GateDecision(
        accepted=accepted,
        why=(
            f"{said}: mean difference {difference:+.3f} at {format_extra(extra)} per task over "
            f"{format_count(len(pairs), 'task')}{grouped}{errors}, evidence {shown} of {1 / rule.error:,.0f} needed"
        ),
        difference=difference,
        compared=len(pairs),
        left_out=left_out,
        evidence=evidence,
        error=rule.error,
        draft=not accepted and not dearer and difference >= -TIE and not rule.simpler,
    )


def _average(values: Sequence[float], groups: Sequence[int]) -> list[float]:
    """Average values over groups."""
    found = dict[int, list[float]]()
    for value, group in zip(values, groups, strict=True):
        found.setdefault(group, []).append(value)
    return [*map(fmean, found.values())]


def keep_draft(
    incumbent: Sequence[float | None], draft: Sequence[float | None], candidate: Sequence[float | None]
) -> GateDecision:
    """Decide on train tasks whether the candidate is the next draft; its difference is that from the incumbent.

    Args:
        incumbent, draft, candidate: N scores in [0, 1], task by task; None for an error. Without a draft it has none.
    """
    rows = [row for row in zip(incumbent, draft or incumbent, candidate, strict=True) if None not in row]
    found = GateDecision(accepted=False, why="")
    if not rows:
        return found.replace(why=f"no train task could be compared: all {len(incumbent)} ended as an error")
    first, second, third = (sum(score or 0.0 for score in side) / len(rows) for side in zip(*rows, strict=True))
    found = found.replace(difference=third - first)
    over = f"over {format_count(len(rows), 'train task')}"
    if third < first - TIE and (not draft or second < first - TIE):
        return found.replace(why=f"it does worse than the proved team: mean difference {third - first:+.3f} {over}")
    if third < second - TIE:
        why = f"it does worse than the draft that it has come from: mean difference {third - second:+.3f} {over}"
        return found.replace(why=why, keeps_draft=True)
    why = f"it does no worse: mean difference {third - first:+.3f} {over}"
    return found.replace(draft=True, why=why)


def estimate_gain(gains: Sequence[float], error: float = 0.05) -> tuple[float, float]:
    """Estimate the mean gain by an interval, which holds whenever the gate has stopped to look.

    It has every mean that the evidence does not exclude, each end at half of the error.

    Args:
        gains: N gains in [-1, 1].
        error: chance that the interval does not have the mean.
    """

    def find_low(some: Sequence[float]) -> float:
        low, high = -1.0, 1.0
        for _ in range(30):  # to a billionth
            middle = (low + high) / 2
            excluded = compute_log_evidence(some, least=middle) >= -math.log(error / 2)
            low, high = (middle, high) if excluded else (low, middle)
        return low

    return find_low(gains), -find_low([-gain for gain in gains])


def pair_scores(
    before: Mapping[str, float | None], after: Mapping[str, float | None], *, is_proof: bool = False
) -> dict[str, tuple[float, float]]:
    """Pair the scores of the tasks that both sides finished, by task; None is an error.

    Args:
        is_proof: whether an error of `after` alone counts as wrong, as in `decide_by_evidence`.
    """
    return {
        task: (old, new or 0.0)
        for task, new in after.items()
        if (old := before.get(task)) is not None and (is_proof or new is not None)
    }


def format_extra(extra: Mapping[str, float]) -> str:
    """Format further costs by name, such as "+1.20 calls and -300 tokens"."""
    digits = {"calls": 2, "tokens": 0, "dollars": 5, "seconds": 2}
    return " and ".join(f"{amount:+,.{digits[name]}f} {name}" for name, amount in extra.items())


def _estimate_deviation(gains: Sequence[float]) -> float:
    """Estimate how far the mean gain lies off by chance, its standard error.

    A deviation of 1 is counted beside those seen, as a few equal tasks do not show that all are equal.
    """
    mean = fmean(gains)
    return math.sqrt((math.fsum((gain - mean) ** 2 for gain in gains) + 1) / (len(gains) + 1) / len(gains))


def _may_be_proved(net: Sequence[float], left: int, rule: EvidenceRule, *, saves: bool) -> bool:
    """Whether it would be if the tasks left went two standard errors better than those so far."""
    _, bound = rule.find_bounds(saves=saves)
    hoped = min(bound, fmean(net) + 2 * _estimate_deviation(net))
    return rule.is_proof([*net, *[hoped] * left], saves=saves)
