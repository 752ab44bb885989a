from collections import Counter
from math import log
from typing import Any

import pytest

from selfwire.core.team import Team
from selfwire.core.trajectory import DecisionCount, Routing, Step, sum_decisions
from selfwire.evolvers.hiva.config import HivaConfig, KabbConfig
from selfwire.evolvers.hiva.kabb import (
    TaskMatch,
    compute_regret,
    count_decisions,
    count_left_out,
    estimate_turns,
    learn_lessons,
    make_kabb_router,
    make_router,
    needs_concepts,
    score,
)
from selfwire.evolvers.hiva.knowledge import distance
from selfwire.evolvers.hiva.memory import Belief, EdgeRecord, HivaMemory, TrajectoryLesson
from selfwire.graphs.method import estimate_calls
from tests.evolvers.hiva.doubles import known, team

FORK = team(("s", "a"), ("s", "b"), ("s", "c"), ("s", "end"), ("a", "end"), ("b", "end"), ("c", "end"))
ARMS = FORK.topology.successors["s"]


def routed(
    config: KabbConfig = KabbConfig(),
    match: TaskMatch = TaskMatch(),
    learned: HivaMemory = HivaMemory(),
    arms: tuple[str, ...] = ARMS,
    **where: Any,
) -> Routing:
    return make_kabb_router(FORK, learned, match, config)("s", arms, known("s", **where))


def counts(learned: HivaMemory, config: KabbConfig, match: TaskMatch = TaskMatch(), runs: int = 300) -> Counter[str]:
    return Counter(c for i in range(runs) for c in routed(config, match, learned, task=f"t{i}").chosen)


def test_score_by_hand() -> None:
    near, far = distance(2, (0.2, 0.5, 0.4, 0), (0.25,) * 4), distance(2, (0.8, 1, 0.5, 1), (0.25,) * 4)
    one = score(0.5, near, 1.0, distance_weight=1, synergy_weight=1)
    two = score(0.75, far, 1.1, distance_weight=1, synergy_weight=1)
    assert (one, two) == pytest.approx((0.369625, 0.333295), abs=1e-6)
    assert (one / (one + two), two / (one + two)) == pytest.approx((0.525842, 0.474158), abs=1e-6)


def test_lambda_and_eta_weigh_distance_and_synergy() -> None:
    assert score(0.5, 9.0, 1.7, distance_weight=0, synergy_weight=0) == 0.5
    assert score(0.5, log(2), 1.44, distance_weight=1, synergy_weight=0.5) == pytest.approx(0.5 * 0.5 * 1.2)


def test_equal_input_gives_equal_output() -> None:
    assert routed() == routed()


def test_a_decision_depends_on_neither_other_nodes_nor_other_candidates() -> None:
    few, many = routed(KabbConfig(k=1), arms=("a", "b")).scores, routed(KabbConfig(k=1)).scores
    assert few["a"] / few["b"] == pytest.approx(many["a"] / many["b"], rel=1e-4)


def test_two_tasks_and_two_seeds_share_no_draw() -> None:
    scores = {str(routed(task=t, seed=s).scores) for t in ("t1", "t2") for s in (0, 1)}
    assert len(scores) == 4


@pytest.mark.parametrize("k", [1, 2, 3, 9])
def test_the_k_best_are_chosen(k: int) -> None:
    routing = routed(KabbConfig(k=k))
    arms = [c for c in routing.chosen if c != "end"]
    assert len(arms) == min(k, 3)
    assert sorted(arms) == sorted(sorted(routing.scores, key=lambda a: -routing.scores[a])[:k])


def test_estimated_turns_and_calls_go_by_the_arms_that_the_beliefs_leave() -> None:
    turns, instructions = estimate_turns(FORK, HivaConfig())
    assert turns == pytest.approx({"s": 1, "a": 2 / 3, "b": 2 / 3, "c": 2 / 3, "end": 1})
    assert instructions == 2
    learned = HivaMemory(beliefs={"a": Belief(alpha=9), "b": Belief(beta=9)})  # of c nothing is known
    known_team = learned.save_to(FORK)
    turns, _ = estimate_turns(known_team, HivaConfig())
    assert (turns["a"], turns["b"], turns["c"]) == (1, 0, 1)
    assert estimate_turns(known_team, HivaConfig(kabb=False)) == (dict.fromkeys(turns, 1.0), 3)
    assert sum(estimate_calls("hiva", {}, known_team).question.values()) == 4 + 2 + 1  # turns, instructions, concepts


def test_d6_an_edge_to_the_aggregator_always_carries_and_is_no_arm() -> None:
    routing = routed(KabbConfig(k=1))
    assert "end" in routing.chosen
    assert "end" not in routing.scores
    assert len(routing.chosen) == 2
    alone = make_kabb_router(FORK, HivaMemory(), TaskMatch(), KabbConfig())("a", ("end",), known("a"))
    assert alone.chosen == ("end",)


def test_d6_the_aggregator_takes_no_part_in_synergy() -> None:
    learned = HivaMemory(edges={"s->end": EdgeRecord(synergy=2.0), "end->a": EdgeRecord(synergy=2.0)})
    assert routed(learned=learned, selected=["s", "end"]) == routed(learned=learned, selected=["s"])


SINK_AS_ARM = KabbConfig(sink_is_arm=True)


def test_d6_the_aggregator_as_an_arm_takes_a_place_and_alone_ends_the_branch() -> None:
    routing = routed(SINK_AS_ARM)
    assert set(routing.scores) == {"a", "b", "c", "end"}
    assert len(routing.chosen) == SINK_AS_ARM.k
    found = counts(HivaMemory(), SINK_AS_ARM)
    assert all(found[arm] > 30 for arm in ("a", "b", "c", "end"))
    sure = HivaMemory(beliefs={"end": Belief(alpha=30), **{arm: Belief(beta=30) for arm in "abc"}})
    assert counts(sure, SINK_AS_ARM) == {"end": 300}


def test_d6_with_the_aggregator_as_an_arm_every_run_still_reaches_it() -> None:
    router = make_kabb_router(FORK, HivaMemory(), TaskMatch(), SINK_AS_ARM)
    for number in range(100):
        decided = {"s": router("s", ARMS, known("s", task=f"t{number}")).chosen}
        decided |= {arm: router(arm, ("end",), known(arm, task=f"t{number}")).chosen for arm in decided["s"]}
        assert any("end" in chosen for chosen in decided.values())


def test_d6_an_agent_beside_the_aggregator_is_a_choice_only_where_this_is_an_arm() -> None:
    beside = team(("s", "a"), ("s", "end"), ("a", "end"))
    assert needs_concepts(beside, HivaConfig(routing=SINK_AS_ARM))
    assert not needs_concepts(beside, HivaConfig())


@pytest.mark.parametrize("exploration", ["thompson", "gumbel"])
def test_d3_both_explorations_try_every_arm_and_prefer_the_better(exploration: str) -> None:
    learned = HivaMemory(beliefs={"a": Belief(alpha=6, beta=2)})
    found = counts(learned, KabbConfig.model_validate({"exploration": exploration, "k": 1}))
    assert min(found[arm] for arm in "abc") > 10
    assert found["a"] > max(found["b"], found["c"])


def test_a_lower_distance_is_chosen_more_often() -> None:
    match = TaskMatch(depth=4, indicators={"a": (0.0, 0.2, 0.2, 0.0), "b": (0.7,) * 4, "c": (0.7,) * 4})
    found = counts(HivaMemory(), KabbConfig(k=1), match)
    assert found["a"] > found["b"] + found["c"]


FAR = TaskMatch(depth=1, indicators={"a": (0.2,) * 4, "b": (0.2,) * 4, "c": (0.7,) * 4})


def test_d32_distance_ranks_arms_and_takes_out_none_for_which_there_is_a_place() -> None:
    assert counts(HivaMemory(), KabbConfig(k=2), FAR)["c"] < 30
    assert counts(HivaMemory(), KabbConfig(k=3), FAR) == {"a": 300, "b": 300, "c": 300, "end": 300}


def test_d32_arms_of_equal_beliefs_all_run_and_evidence_takes_one_out() -> None:
    config = KabbConfig(k=3)
    assert counts(HivaMemory(), config) == {"a": 300, "b": 300, "c": 300, "end": 300}
    learned = HivaMemory(beliefs={"a": Belief(alpha=9, beta=1), "b": Belief(alpha=5, beta=5), "c": Belief(beta=9)})
    assert counts(learned, config) == {"a": 300, "b": 300, "end": 300}
    assert counts(learned, KabbConfig(k=3, within=0)) == {"a": 300, "b": 300, "c": 300, "end": 300}
    routing = routed(config, learned=learned)
    assert routing.free is True
    assert "best 2 of 3" in routing.why


@pytest.mark.parametrize("exploration", ["thompson", "gumbel"])
def test_d32_arms_may_be_compared_with_the_best_as_they_were_drawn(exploration: str) -> None:
    def count_arms(compares: str) -> Counter[int]:
        config = KabbConfig.model_validate({"k": 5, "compares": compares, "exploration": exploration})
        return Counter(len(routed(config, task=f"t{i}").chosen) - 1 for i in range(300))

    assert count_arms("beliefs") == {3: 300}
    by_draw = count_arms("draws")
    assert set(by_draw) == {1, 2, 3}
    assert min(by_draw.values()) > 10


def test_d33_fitted_weights_decide_unless_the_config_fixes_them() -> None:
    learned = HivaMemory(score_weights=(0.0, 0.5))
    assert learned.get_score_weights(KabbConfig()) == (0.0, 0.5)
    assert learned.get_score_weights(KabbConfig(fits_weights=False)) == (10.0, 0.5)
    assert counts(learned, KabbConfig(), FAR)["c"] > 150
    assert counts(learned, KabbConfig(fits_weights=False), FAR)["c"] < 30


def test_synergy_with_those_selected_before_raises_an_arm() -> None:
    learned = HivaMemory(edges={"s->b": EdgeRecord(synergy=2.0)})
    config = KabbConfig(k=1, synergy_weight=5)
    assert counts(learned, config)["b"] > counts(HivaMemory(), config)["b"] + 30


def test_d7_far_candidates_are_left_out_unless_none_would_remain() -> None:
    match = TaskMatch(indicators={"a": (0.9,) * 4, "b": (0.75,) * 4, "c": (0.1,) * 4})
    routing = routed(match=match)
    assert set(routing.scores) == {"b", "c"}
    assert "beyond mismatch" in routing.why
    assert count_left_out(routing) == 1
    nobody = TaskMatch(indicators=dict.fromkeys("abc", (0.9, 0.9, 0.9, 0.9)))
    routing = routed(match=nobody)
    assert set(routing.scores) == set("abc")
    assert count_left_out(routing) == 0


def test_without_kabb_every_successor_is_activated() -> None:
    routing = make_router(FORK, TaskMatch(), HivaConfig(kabb=False))("s", ARMS, known("s"))
    assert routing.chosen == ARMS
    assert count_left_out(routing) == 0


def test_feedback_turns_a_decision_that_fell_the_other_way_before() -> None:
    fork, config = team(("s", "a"), ("s", "b"), ("a", "end"), ("b", "end")), HivaConfig(routing=KabbConfig(k=1))

    def choose(workflow: Team) -> list[str]:
        router = make_router(workflow, TaskMatch(), config)
        return [router("s", ("a", "b"), known("s", task=f"t{i}")).chosen[0] for i in range(200)]

    lessons = [TrajectoryLesson(task=f"t{i}", solved=False, rewards={"a": 0, "b": 1}) for i in range(10)]
    before, after = choose(fork), choose(learn_lessons(fork, lessons, config=config.routing))
    assert 60 < before.count("b") < 140
    assert after.count("b") > 190
    assert after[before.index("a")] == "b"


@pytest.mark.parametrize(
    ("k", "far", "counted"),
    [
        (1, {}, DecisionCount(made=1, free=1)),
        (2, {}, DecisionCount(made=1, free=1)),
        (3, {}, DecisionCount(made=1)),
        (2, {"b": (0.9,) * 4}, DecisionCount(made=1, filtered=1)),
        (1, {"b": (0.9,) * 4}, DecisionCount(made=1, free=1)),
    ],
)
def test_a_decision_is_free_where_more_candidates_than_places_stand_open(
    k: int, far: dict[str, Any], counted: DecisionCount
) -> None:
    routing = routed(KabbConfig(k=k, within=0), TaskMatch(indicators=far))
    assert routing.free is bool(counted.free)
    found = count_decisions([Step(node="s", agent="s", routing=routing), Step(node="end", agent="end")])
    assert found is not None
    assert found.replace(regret=None) == counted
    assert counted.is_vacuous == (k == 3)


def test_the_regret_is_the_share_of_the_best_arms_score_that_was_given_up() -> None:
    learned = HivaMemory(beliefs={"a": Belief(alpha=8, beta=2), "b": Belief(alpha=6, beta=4), "c": Belief(beta=4)})
    regrets = {
        routing.chosen[0]: routing.regret
        for task in range(300)
        if (routing := routed(KabbConfig(k=1), learned=learned, task=f"t{task}"))
    }
    assert regrets == pytest.approx({"a": 0.0, "b": 0.25, "c": 0.75}, abs=1e-6)
    assert compute_regret({"a": 0.8, "b": 0.6, "c": 0.2}, ["b", "c"]) == pytest.approx(1 - 0.8 / 1.4, abs=1e-6)
    assert compute_regret({"a": 0.0, "b": 0.0}, ["a"]) == compute_regret({}, []) == 0.0


def test_the_regret_of_a_run_is_the_mean_over_its_free_decisions() -> None:
    free = [Routing(chosen=("a",), free=True, regret=regret) for regret in (0.0, 0.3)]
    forced, told = Routing(chosen=("a",), free=False), Routing(chosen=("a",), free=True)
    steps = [Step(node=f"n{at}", agent="a", routing=routing) for at, routing in enumerate((*free, forced))]
    found = sum_decisions([count_decisions(steps), count_decisions(steps), None])
    assert found == DecisionCount(made=6, free=4, regret=0.6)
    assert found is not None
    assert found.mean_regret == pytest.approx(0.15)
    without = count_decisions([Step(node="n", agent="a", routing=told)])
    assert without is not None
    assert without.mean_regret is None
    assert "regret" not in f"{without.model_dump()} {told.model_dump()}"  # as in records without beliefs


@pytest.mark.parametrize(
    ("regret", "text"), [(None, ""), (0.0, "0%"), (0.8, "below 1%"), (1.99, "below 1%"), (2.0, "1%"), (32.0, "16%")]
)
def test_a_regret_is_printed_as_0_only_where_the_best_was_always_taken(regret: float | None, text: str) -> None:
    assert DecisionCount(made=200, free=200, regret=regret).format_regret() == text


def test_an_edge_to_the_aggregator_alone_is_a_forced_decision_and_a_rule_decides_nothing() -> None:
    alone = make_kabb_router(FORK, HivaMemory(), TaskMatch(), KabbConfig())("a", ("end",), known("a"))
    assert alone.free is False
    everyone = make_router(FORK, TaskMatch(), HivaConfig(kabb=False))("s", ARMS, known("s"))
    assert count_decisions([Step(node="s", agent="s", routing=everyone)]) is None
