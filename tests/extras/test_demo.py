"""The model and the sizes of `make demo`."""

import math

from selfwire.evolvers.gate import OUTCOMES, EvidenceRule, compute_log_evidence, compute_share, compute_weight
from selfwire.extras.demo import ARGUMENTS


def test_a_second_gain_of_an_eighth_of_the_tasks_can_be_proved_with_the_gate_tasks_of_the_demo() -> None:
    sizes = dict(zip(ARGUMENTS[2::2], ARGUMENTS[3::2], strict=True))
    share = compute_share(1, int(sizes["--iterations"]), is_last=False)
    rule = EvidenceRule(error=0.05 * share * compute_weight({}, "accepted", OUTCOMES["better"]))
    gains = [1.0] * 21 + [-1.0] * 9 + [0.0] * 70
    paid = [gain - 8 * rule.objective.calls for gain in gains]
    tasks = int(sizes["--gate-size"])
    evidence = compute_log_evidence(paid, bound=1.25, times=tasks / len(paid), weights=rule.weights)
    assert evidence >= -math.log(rule.error)


def test_the_demo_asks_the_offline_model_whatever_the_environment_names() -> None:
    assert dict(zip(ARGUMENTS[2::2], ARGUMENTS[3::2], strict=True))["--model"] == "offline"
