import math
import random
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfwire.core.usage import Objective, Usage
from selfwire.evolvers.gate import (
    BETS,
    EQUAL_BETS,
    MIDDLE_BETS,
    EvidenceRule,
    GateDecision,
    compute_log_evidence,
    decide,
    decide_by_evidence,
)

Scores = list[float | None]


def ruled(old: Scores, new: Scores, dearer: float = 0.0, used: int = 0, margin: float = 0.0) -> GateDecision:
    return decide(old, new, [2.0] * len(old), [2.0 + dearer] * len(new), used, margin=margin)


def test_a_better_candidate_is_accepted_whatever_it_costs_and_a_worse_one_is_not() -> None:
    better = ruled([0, 1, 0], [1, 1, 0], dearer=9, used=3)
    assert (better.accepted, better.patience_used) == (True, 0)
    assert better.difference == pytest.approx(1 / 3)
    worse = ruled([1, 1, 0], [1, 0, 0], dearer=-1, used=2)
    assert (worse.accepted, worse.try_pruning, worse.patience_used) == (False, False, 2)
    assert "below the margin" in worse.why


def test_a_dearer_tie_is_accepted_three_times_in_a_row_and_then_pruning_is_tried() -> None:
    for used in range(3):
        verdict = ruled([1, 0], [0, 1], dearer=0.5, used=used)
        assert (verdict.accepted, verdict.patience_used) == (True, used + 1)
    verdict = ruled([1, 0], [0, 1], dearer=0.5, used=3)
    assert (verdict.accepted, verdict.try_pruning) == (False, True)
    assert ruled([1, 0], [0, 1], dearer=0.0, used=3).patience_used == 0


def test_a_margin_must_be_reached() -> None:
    assert not ruled([0.5] * 4, [0.55] * 4, margin=0.1).accepted
    assert ruled([0.5] * 4, [0.6] * 4, margin=0.1).accepted
    tie = ruled([1.0], [1.0], margin=0.1)
    assert (tie.accepted, tie.try_pruning) == (False, False)


def test_errors_are_left_out_pairwise() -> None:
    verdict = decide([0, None, 1, 0], [1, 1, None, 0], [1, 1, 1, 1], [1, 99, 99, 1], 0)
    assert (verdict.accepted, verdict.compared, verdict.left_out, verdict.difference) == (True, 2, 2, 0.5)
    assert "+0.00 calls" in verdict.why


def test_nothing_is_accepted_where_nothing_can_be_compared() -> None:
    verdict = ruled([None, 1], [0, None], used=1)
    assert (verdict.accepted, verdict.difference, verdict.patience_used) == (False, None, 1)
    assert not ruled([], []).accepted


def test_misuse_is_refused() -> None:
    with pytest.raises(ValueError, match="same tasks"):
        decide([1], [1, 0], [1], [1, 1], 0)
    with pytest.raises(ValueError, match="margin"):
        ruled([1], [1], margin=-0.1)


scores = st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0, None]), st.sampled_from([0.0, 0.5, 1.0, None])), max_size=9)


@settings(deadline=None)
@given(scores, st.floats(-5, 5), st.integers(0, 5))
def test_patience_never_runs_over(pairs: list[tuple[float | None, float | None]], dearer: float, used: int) -> None:
    verdict = ruled([old for old, _ in pairs], [new for _, new in pairs], dearer=dearer, used=used)
    assert verdict.patience_used <= max(used, 3)
    if verdict.accepted:
        assert verdict.difference is not None
        assert verdict.difference >= -1e-9


def proved(gains: list[float], rule: EvidenceRule, *, left: int = 0, extra: int = 0) -> GateDecision | None:
    old = [max(0.0, -gain) for gain in gains]
    new = [before + gain for before, gain in zip(old, gains, strict=True)]
    return decide_by_evidence(
        old, new, [Usage(calls=2)] * len(gains), [Usage(calls=2 + extra)] * len(gains), rule, left=left
    )


@given(
    st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]), max_size=40),
    st.sampled_from([-0.25, 0.0, 0.125]),
    st.sampled_from([EQUAL_BETS, MIDDLE_BETS]),
)
def test_evidence_is_the_mean_wealth_of_the_bets_in_exact_fractions(
    gains: list[float], least: float, weights: tuple[float, ...]
) -> None:
    wealth = [Fraction(1) for _ in BETS]
    for gain in gains:
        odd = (Fraction(gain) - Fraction(least)) / (1 + Fraction(least))
        wealth = [kept * (1 + Fraction(bet) * odd) for kept, bet in zip(wealth, BETS, strict=True)]
    weighed = sum(Fraction(weight) * kept for weight, kept in zip(weights, wealth, strict=True))
    exact = math.log(weighed / sum(map(Fraction, weights)))
    assert compute_log_evidence(gains, least=least, weights=weights) == pytest.approx(exact, abs=1e-9)


def test_evidence_is_fair_where_there_is_no_gain() -> None:
    """The mean over all outcomes is the mean before: no way of betting earns where wins and losses are equal."""
    both = [math.exp(compute_log_evidence([0.5, gain])) for gain in (1.0, -1.0)]
    assert sum(both) / 2 == pytest.approx(math.exp(compute_log_evidence([0.5])))


def play(win: float, lose: float, chance: random.Random, rule: EvidenceRule, tasks: int = 200, look: int = 20) -> bool:
    gains: list[float] = []
    while True:
        drawn = [chance.random() for _ in range(look)]
        gains += [1.0 if found < win else -1.0 if found < win + lose else 0.0 for found in drawn]
        verdict = proved(gains, rule, left=tasks - len(gains))
        if verdict is not None:
            return verdict.accepted


@pytest.mark.slow
def test_at_most_one_run_of_twenty_accepts_a_change_without_effect_and_clear_gains_pass() -> None:
    chance, runs, decisions = random.Random(7), 400, 5
    rule = EvidenceRule(error=0.05 / decisions)
    false = sum(any(play(0.3, 0.3, chance, rule) for _ in range(decisions)) for _ in range(runs))
    assert false <= 0.05 * runs
    assert not any(play(0.05, 0.15, chance, rule) for _ in range(runs))
    assert sum(play(0.3, 0.05, chance, rule) for _ in range(100)) >= 90
    usual = [[chance.choice([1.0, -1.0, 0.0]) for _ in range(20)] for _ in range(runs)]
    assert sum(ruled([0.5] * 20, [0.5 + gain / 2 for gain in gains]).accepted for gains in usual) > 0.4 * runs


def test_a_proof_stops_when_it_succeeds_or_has_no_chance_and_goes_on_between() -> None:
    rule = EvidenceRule(error=0.01)
    assert proved([1.0] * 4, rule, left=40) is None
    done = proved([1.0] * 10, rule, left=40)
    assert done is not None
    assert (done.accepted, done.compared, done.error) == (True, 10, 0.01)
    assert done.evidence is not None
    assert done.evidence >= 100
    assert "a gain above 0 is proved: mean difference +1.000" in done.why
    sure = proved([1.0] * 20, rule)
    assert sure is not None
    assert re.search(r"evidence [\d,]{5,} of 100 needed$", sure.why), sure.why
    harmful = proved([-1.0, 0.0] * 10, rule, left=180)
    assert harmful is not None
    assert not harmful.accepted
    assert "a gain above 0 is not proved" in harmful.why


def test_a_gain_has_to_pay_for_the_calls_that_it_adds() -> None:
    gains = [1.0, 0.0, 0.0] * 20
    for extra, accepted in ((0, True), (20, True), (100, False)):
        verdict = proved(gains, EvidenceRule(objective=Objective(calls=0.002)), extra=extra)
        assert verdict is not None
        assert verdict.accepted == accepted, extra


def test_what_saves_calls_has_to_rule_out_a_loss_and_only_under_no_worse() -> None:
    equal = [0.0] * 300
    for gate, extra, accepted in (("no-worse", -1, True), ("no-worse", 1, False), ("better", -1, False)):
        rule = EvidenceRule.model_validate({"gate": gate, "margin": 0.02 if gate == "no-worse" else 0.0, "error": 0.05})
        verdict = proved(equal, rule, extra=extra)
        assert verdict is not None
        assert verdict.accepted == accepted, (gate, extra)


def test_a_gain_beside_losses_is_proved_by_less_than_equal_bets_would_take() -> None:
    gains = [1.0] * 35 + [-1.0] * 15 + [0.0] * 50
    equal = compute_log_evidence(gains)
    found = proved(gains, EvidenceRule(error=0.05))
    assert found is not None
    assert found.evidence is not None
    assert math.log(found.evidence) > equal + 0.25
    assert EvidenceRule(gate="no-worse", margin=0.02).weights == EQUAL_BETS  # a loss ruled out takes the large bets


def test_errors_of_the_incumbent_prove_nothing() -> None:
    verdict = decide_by_evidence([None, None], [1.0, None], [Usage()] * 2, [Usage()] * 2, EvidenceRule())
    assert verdict is not None
    assert (verdict.accepted, verdict.left_out, verdict.compared) == (False, 2, 0)
    assert decide_by_evidence([None], [1.0], [Usage()], [Usage()], EvidenceRule(), left=3) is None


def test_tasks_of_a_group_count_as_one_by_their_mean() -> None:
    rule, costs = EvidenceRule(), [Usage(calls=1)] * 40
    alone = decide_by_evidence([0.0] * 40, [1.0, 0.0] * 20, costs, costs, rule)
    pairs = decide_by_evidence([0.0] * 40, [1.0, 0.0] * 20, costs, costs, rule, sizes=[2] * 20)
    halves = decide_by_evidence([0.0] * 20, [0.5] * 20, costs[:20], costs[:20], rule)
    assert alone
    assert pairs
    assert halves
    assert pairs.evidence == halves.evidence != alone.evidence
    assert (pairs.compared, pairs.difference) == (40, 0.5)
    assert "over 40 tasks in 20 groups, evidence" in pairs.why
    failed: Scores = [None, 0.0, *[0.0] * 38]  # what is left out does not count in its group
    some = decide_by_evidence(failed, [1.0, 0.0] * 20, costs, costs, rule, sizes=[2] * 20)
    first = decide_by_evidence([0.0] * 20, [0.0, *[0.5] * 19], costs[:20], costs[:20], rule)
    assert some
    assert first
    assert some.evidence == first.evidence


@pytest.mark.parametrize("gate", ["better", "no-worse"])
def test_a_change_that_turns_wrong_answers_into_errors_is_no_better(gate: Literal["better", "no-worse"]) -> None:
    rule, calls = EvidenceRule(gate=gate, objective=Objective.parse("score - 0.01*calls")), [Usage(calls=9)] * 100
    old: Scores = [*[0.0] * 20, *[1.0] * 80]
    wrong: Scores = [*[1.0] * 80, *[0.0] * 20]
    failed: Scores = [*[1.0] * 80, *[None] * 20]
    fewer = [*calls[:80], *[Usage(calls=1)] * 20]  # what an error saves is no gain
    found = [decide_by_evidence(old, new, calls, costs, rule) for new, costs in ((wrong, calls), (failed, fewer))]
    assert [verdict and (verdict.accepted, verdict.difference, verdict.evidence) for verdict in found] == [
        (False, 0.0, found[0] and found[0].evidence)
    ] * 2
    assert found[1] is not None
    assert "over 100 tasks, 20 of them ended as errors and count as wrong, evidence" in found[1].why


def test_how_small_a_gain_so_many_tasks_can_prove() -> None:
    rule = EvidenceRule(error=0.005)
    assert rule.find_least_gain(60) == pytest.approx(11 / 60)
    assert rule.find_least_gain(200) == pytest.approx(11 / 200)
    assert rule.find_least_gain(5) is None
    assert rule.find_least_gain(200, lost=10) == pytest.approx(23 / 200)  # 33 won
    assert rule.find_least_gain(20, lost=10) is None
    assert rule.find_least_gain(20_000) == 11 / 20_000, "within a second"


@pytest.mark.parametrize("objective", ["score", "score - 0.01*calls"])
@pytest.mark.parametrize("margin", [0.0, 0.1, 0.5])
def test_what_tasks_can_prove_is_what_the_decision_on_them_accepts(margin: float, objective: str) -> None:
    rule = EvidenceRule(error=0.02, margin=margin, objective=Objective.parse(objective))
    extra = -30 if rule.objective.prices else 0  # calls saved, so that a task won counts for the most

    def accepts(won: int, tasks: int) -> bool:
        costs = [Usage(calls=100 + extra)] * won + [Usage(calls=100)] * (tasks - won)
        scores = [1.0] * won + [0.0] * (tasks - won)
        found = decide_by_evidence([0.0] * tasks, scores, [Usage(calls=100)] * tasks, costs, rule)
        return found is not None and found.accepted

    assert [rule.can_prove(tasks) for tasks in range(1, 60)] == [accepts(tasks, tasks) for tasks in range(1, 60)]
    least = rule.find_least_gain(40)
    assert least == next(won / 40 for won in range(41) if accepts(won, 40))


def test_a_large_loss_that_does_not_count_is_ruled_out_by_few_tasks_which_cost_less() -> None:
    rule = EvidenceRule(gate="no-worse", margin=0.5)
    few = next(tasks for tasks in range(1, 20) if rule.can_prove(tasks))
    found = [proved([1.0] * tasks, rule, extra=-1) for tasks in (few - 1, few)]
    assert [verdict is not None and verdict.accepted for verdict in found] == [False, True]


def test_tokens_have_a_price_too_and_a_single_dear_task_counts_whole_against_the_change_alone() -> None:
    gains, cheap, dear = [0.0, 1.0] * 30, Usage(calls=1, input_tokens=100), Usage(calls=1, input_tokens=60_100)
    rule, old = EvidenceRule(objective=Objective.parse("score - tokens/100000")), [0.0] * 60
    kept = decide_by_evidence(old, gains, [cheap] * 60, [cheap] * 60, rule)
    paid = decide_by_evidence(old, gains, [cheap] * 60, [dear] * 60, rule)
    outlier = [cheap] * 59 + [Usage(input_tokens=10**9)]
    spent = decide_by_evidence(old, gains, [cheap] * 60, outlier, rule)
    saved = decide_by_evidence(old, gains, outlier, [cheap] * 60, rule)
    chance = decide_by_evidence(old, [0.0, 0.1] * 30, outlier, [cheap] * 60, rule)
    assert kept
    assert paid
    assert spent
    assert saved
    assert chance
    assert (kept.accepted, paid.accepted, spent.accepted) == (True, False, False)
    assert spent.why.startswith("a gain above 0 is not proved, as a few tasks cost very much more: ")
    assert (saved.accepted, chance.accepted) == (True, False)
    idle = decide_by_evidence(old, old, [cheap] * 60, outlier, rule)
    assert idle
    assert "cost very much more" not in idle.why, "it would not be proved without them either"
    assert "+60,000 tokens per task" in paid.why
    assert "calls" not in paid.why


def test_the_cheapest_saves_calls_and_rules_out_a_loss_and_what_saves_none_stops_at_once() -> None:
    rule = EvidenceRule(gate="no-worse", margin=0.05, objective=Objective.parse("cheapest"))
    saved = proved([0.0] * 100, rule, extra=-1)
    assert saved
    assert (saved.accepted, "a loss of at most 0.05" in saved.why) == (True, True)
    worse = proved([0.0, -1.0] * 50, rule, extra=-1)
    assert worse
    assert not worse.accepted
    for extra in (0, 1):
        gained = proved([1.0] * 20, rule, extra=extra, left=180)
        assert gained
        assert (gained.accepted, gained.draft, "it saves no calls" in gained.why) == (False, False, True)
    assert not rule.can_prove(20)
    assert rule.can_prove(100)


def play_at_a_price(draw: Callable[[], tuple[float, Usage, Usage]], rule: EvidenceRule) -> bool:
    """Whether a change is accepted on at most 200 tasks, 20 more at a look; `draw` has gain and costs of a task."""
    old, new = list[float](), list[float]()
    before, after = list[Usage](), list[Usage]()
    verdict = None
    while verdict is None:
        for _ in range(20):
            gain, dear, dearer = draw()
            old.append(max(0.0, -gain))
            new.append(max(0.0, gain))
            before.append(dear)
            after.append(dearer)
        verdict = decide_by_evidence(old, new, before, after, rule, left=200 - len(old))
    return verdict.accepted


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["score - 0.002*calls", "score - 0.02*calls", "score - tokens/50000"])
def test_at_a_price_too_one_run_of_twenty_accepts_a_change_without_effect_or_one_that_only_pays_for_itself(
    objective: str,
) -> None:
    """Costs of a task scatter widely, alike on both sides; tokens have a long tail, which the bound cuts off."""
    chance, runs, decisions = random.Random(11), 120, 5
    rule = EvidenceRule(objective=Objective.parse(objective), error=0.05 / decisions)

    def draw_cost(more: float = 0.0) -> Usage:
        tokens = chance.lognormvariate(8, 1.2)
        return Usage(calls=round(chance.randint(1, 15) + more / (rule.objective.calls or 1)), input_tokens=int(tokens))

    def draw(win: float, lose: float, more: float = 0.0) -> tuple[float, Usage, Usage]:
        found = chance.random()
        gain = 1.0 if found < win else -1.0 if found < win + lose else 0.0
        after = draw_cost(more)
        if rule.objective.tokens:
            after = after.model_copy(update={"input_tokens": after.input_tokens + int(more / rule.objective.tokens)})
        return gain, draw_cost(), after

    def count_runs(win: float, lose: float, more: float = 0.0) -> int:
        return sum(
            any(play_at_a_price(lambda: draw(win, lose, more), rule) for _ in range(decisions)) for _ in range(runs)
        )

    assert count_runs(0.2, 0.2) <= 0.05 * runs
    assert count_runs(0.3, 0.1, more=0.2) <= 0.05 * runs  # the gain is what the change costs
    assert count_runs(0.3, 0.1) > 0.9 * runs  # the same gain at no price


def test_a_cheaper_model_has_to_save_dollars_too_and_one_that_saves_none_stops_at_once() -> None:
    rule = EvidenceRule(gate="no-worse", margin=0.1, saves="dollars", simpler=True)
    right, many = [1.0] * 80, [Usage(calls=2, dollars=0.03)] * 80
    cheap = decide_by_evidence(right, right, many, [Usage(calls=2, dollars=0.01)] * 80, rule)
    assert cheap is not None
    assert cheap.accepted
    assert "at +0.00 calls and -0.02000 dollars per task" in cheap.why
    for dollars in (0.03, 0.04):
        dearer = decide_by_evidence(
            right[:20], right[:20], many[:20], [Usage(calls=1, dollars=dollars)] * 20, rule, left=60
        )
        assert dearer is not None
        assert not dearer.accepted
        assert "it saves no dollars" in dearer.why
    cheapest = rule.replace(objective=Objective(cheapest=True))
    assert decide_by_evidence(right, right, many, [Usage(calls=2, dollars=0.01)] * 80, cheapest) == cheap
