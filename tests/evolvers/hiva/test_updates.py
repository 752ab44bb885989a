import pytest

from selfwire.core.edits import AddEdge, RemoveAgent, RemoveNode, Rewiring
from selfwire.core.errors import ConfigError
from selfwire.core.team import Team
from selfwire.core.topology import TopologyLimits
from selfwire.core.usage import Objective, Usage
from selfwire.evolvers.hiva.config import HivaConfig, KabbConfig
from selfwire.evolvers.hiva.gradients import Backward, Loss
from selfwire.evolvers.hiva.kabb import (
    TaskMatch,
    carry_over_learning,
    learn_lessons,
    make_kabb_router,
    make_lesson,
    make_score_sample,
    make_weight_sample,
    refit_weights,
)
from selfwire.evolvers.hiva.knowledge import UNIFORM, TaskConcepts, WeightSample
from selfwire.evolvers.hiva.memory import Belief, HivaMemory, Retired, TrajectoryLesson
from selfwire.evolvers.topology_ops import add_serial, make_newcomer
from selfwire.graphs.hiva import Hiva
from tests.evolvers.hiva.doubles import FORK, LINE, gradient, known, run, team

MATCH = TaskMatch(
    concepts=TaskConcepts(main="bridge"), depth=2, indicators={"s": (0.2,) * 4, "a": (0.4,) * 4}, matches={"a": 0.5}
)
LESSON = make_lesson(run(LINE, solved=True), Loss(solved=True), match=MATCH)
BLAMED = make_lesson(run(LINE), Loss(solved=False), Backward(gradients=(gradient("a"),)))
KEPT = HivaMemory().restrict_to(LINE).save_to(LINE)
GROWN = KEPT.apply(add_serial(KEPT, "s", make_newcomer(KEPT, "s", "Checks."), why="test"))


def update(workflow: Team, *lessons: TrajectoryLesson | None) -> Team:
    return learn_lessons(workflow, lessons, config=KabbConfig())


def test_d2_on_success_all_that_ran_is_rewarded() -> None:
    assert LESSON == TrajectoryLesson(
        task="t1",
        solved=True,
        rewards={"a": 1, "end": 1, "s": 1},
        edges=(("s", "a"), ("a", "end")),
        receivers={"s": "s", "a": "a", "end": "end"},
        matches={"a": 0.5, "end": 0.0, "s": 0.0},
        concepts=MATCH.concepts,
    )


def test_d35_beliefs_learn_from_rewards_less_the_price_of_an_agent_s_own_calls() -> None:
    calls = {"s": 1, "a": 3, "end": 200}
    whole = run(LINE, solved=True)
    steps = (step.replace(usage=Usage(calls=calls[step.agent])) for step in whole.steps)
    done = whole.replace(steps=tuple(steps), overhead=Usage(calls=50))
    lesson = make_lesson(done, Loss(solved=True), objective=Objective.parse("score - 0.01*calls"))
    assert lesson is not None
    assert lesson.prices == pytest.approx({"s": 0.01, "a": 0.03, "end": 2})
    assert lesson.net_rewards == pytest.approx({"s": 0.99, "a": 0.97, "end": 0})
    learned = HivaMemory.of(update(KEPT, lesson))
    assert learned.belief("a").model_dump() == pytest.approx({"alpha": 1.97, "beta": 1.03})
    assert learned.belief("end").model_dump() == {"alpha": 1, "beta": 2}
    assert learned.edge("s", "a").belief.model_dump() == pytest.approx({"alpha": 1.97, "beta": 1.03})
    assert (learned.solved, lesson.rewards) == (1, {"a": 1, "end": 1, "s": 1})
    free = make_lesson(done, Loss(solved=True))
    assert free is not None
    assert free.prices == {}
    assert HivaMemory.of(update(KEPT, free)).belief("end") == Belief(alpha=2, beta=1)
    failed = lesson.replace(rewards={"a": 0}, solved=False)
    assert failed.net_rewards == {"a": 0}


def test_on_failure_the_sentiments_are_the_rewards() -> None:
    passed = Backward(gradients=(gradient("end", sentiment="neutral"), gradient("a")))
    found = make_lesson(run(LINE), Loss(solved=False), passed)
    assert found is not None
    assert found.rewards == {"end": 1, "a": 0}


def test_d13_an_infrastructure_error_teaches_nothing() -> None:
    assert make_lesson(run(LINE), Loss(solved=None, error="down")) is None
    assert make_lesson(run(LINE), Loss(solved=False), Backward(error="down")) is None
    assert make_lesson(run(LINE, solved=True).as_failed("down"), Loss(solved=True)) is None
    assert HivaMemory.of(update(LINE, None, None)).iteration == -1


def test_d7_how_often_candidates_were_left_out_is_counted() -> None:
    whole = run(FORK, solved=True)
    router = make_kabb_router(FORK, HivaMemory(), TaskMatch(indicators={"b": (0.9,) * 4}), KabbConfig())
    source = next(step for step in whole.steps if step.node == "s")
    routed = source.replace(routing=router("s", ("a", "b"), known("s")))
    trajectory = whole.replace(steps=(routed, *(s for s in whole.steps if s.node != "s")))
    found = make_lesson(trajectory, Loss(solved=True))
    assert found is not None
    assert found.left_out == 1
    assert HivaMemory.of(update(FORK, found, found)).left_out == 2


def test_nodes_that_were_removed_since_do_no_harm() -> None:
    lesson = make_lesson(run(team(("s", "gone"), ("gone", "end")), solved=True), Loss(solved=True), match=MATCH)
    learned = HivaMemory.of(update(LINE, lesson))
    assert set(learned.beliefs) == {"s", "a", "end"}
    assert set(learned.edges) == {"s->a", "a->end"}


def test_updating_fits_the_memory_to_the_rewired_topology() -> None:
    learned = HivaMemory.of(update(GROWN, LESSON))
    assert set(learned.edges) == {"s->checks", "checks->a", "a->end"}
    assert set(learned.beliefs) == {"s", "a", "end", "checks"}
    assert learned.edge("a", "end").runs == 1


def test_a_rejected_candidate_s_lessons_on_survivors_are_kept() -> None:
    candidate = update(GROWN, LESSON)
    merged = carry_over_learning(KEPT, candidate)
    assert merged.topology == KEPT.topology
    assert merged.agents == KEPT.agents
    learned = HivaMemory.of(merged)
    assert learned.belief("a") == HivaMemory.of(candidate).belief("a")
    assert learned.belief("a").alpha > 2
    assert set(learned.edges) == {"s->a", "a->end"}
    assert "checks" not in learned.beliefs


def test_d19_a_rejected_candidate_s_lessons_on_what_it_removed_are_kept() -> None:
    lessons = [*[LESSON] * 5, *[BLAMED] * 5]
    candidate = update(GROWN, *lessons)
    edge = HivaMemory.of(carry_over_learning(KEPT, candidate)).edge("s", "a")
    assert (edge.solved, edge.runs) == (5, 10)
    assert edge.synergy == pytest.approx(1.25)
    assert edge == HivaMemory.of(update(KEPT, *lessons)).edge("s", "a")


def test_d19_the_blame_of_an_agent_whose_removal_is_rejected_is_kept() -> None:
    removal = Rewiring(AddEdge("s", "end"), RemoveNode("a"), RemoveAgent("a"), why="test")
    candidate = update(KEPT.apply(removal), *[BLAMED] * 10)
    assert HivaMemory.of(carry_over_learning(KEPT, candidate)).belief("a").beta == pytest.approx(11)
    assert HivaMemory.of(carry_over_learning(KEPT, candidate)).retired == Retired()


def test_d19_an_accepted_candidate_forgets_what_it_removed_at_the_next_update() -> None:
    accepted = update(GROWN, LESSON)
    assert set(HivaMemory.of(accepted).retired.edges) == {"s->a"}
    assert HivaMemory.of(accepted).edge("s", "a").runs == 0
    assert HivaMemory.of(update(accepted, None)).retired == Retired()


def test_held_out_runs_are_evidence_for_the_weights() -> None:
    found = make_weight_sample(run(LINE, solved=True), LINE, MATCH)
    assert found is not None
    assert found.solved
    assert found.terms == pytest.approx((0.329584,) * 4, abs=1e-6)  # log(3) * (.2 + .4) / 2
    assert make_weight_sample(run(LINE).as_failed("down"), LINE, MATCH) is None


def test_d33_a_lesson_s_evidence_compares_the_chosen_agents_with_all_that_could_be() -> None:
    match = TaskMatch(depth=2, indicators={"a": (0.2,) * 4, "b": (0.6,) * 4})
    whole = run(FORK, solved=True)
    chosen = whole.replace(steps=tuple(step for step in whole.steps if step.node != "b"))
    found = make_score_sample(chosen, FORK, match, True)
    assert found is not None
    assert found.nearer == pytest.approx((0.219722,) * 4, abs=1e-6)  # log(3) * ((.2 + .6) / 2 - .2)
    assert (found.synergy, found.solved) == (0, True)
    everybody = make_score_sample(whole, FORK, match, False)
    assert everybody is not None
    assert everybody.nearer == pytest.approx((0,) * 4)
    alone = whole.replace(steps=tuple(step for step in whole.steps if step.node in ("s", "end")))
    assert make_score_sample(alone, FORK, match, True) is None


@pytest.mark.parametrize(("fits", "moved"), [(True, True), (False, False)])
def test_d33_lambda_and_eta_are_fitted_by_every_batch_that_teaches(fits: bool, moved: bool) -> None:
    match = TaskMatch(depth=2, indicators={"a": (0.2,) * 4, "b": (0.6,) * 4})
    whole = run(FORK, solved=True)
    near, far = (whole.replace(steps=tuple(s for s in whole.steps if s.node != away)) for away in ("b", "a"))
    lessons = [
        make_lesson(done, Loss(solved=solved), match=match, team=FORK)
        for done, solved in [(near, True), (far, False)] * 5
    ]
    found = HivaMemory.of(learn_lessons(FORK, lessons, config=KabbConfig(fits_weights=fits)))
    assert [sample.batch for sample in found.graded] == [0] * 10
    assert (found.score_weights is not None) is moved
    assert not moved or found.get_score_weights(KabbConfig())[0] > 10
    again = HivaMemory.of(learn_lessons(found.save_to(FORK), [LESSON], config=KabbConfig(fits_weights=fits)))
    assert again.score_weights == found.score_weights


def test_d14_the_weights_are_refitted_once_there_is_enough_evidence() -> None:
    mixed = [WeightSample(terms=(float(i % 2), float(i % 3), 0.5, 0.5), solved=i % 2 == 0) for i in range(20)]
    few = refit_weights(LINE, [*mixed[:10], None])
    assert HivaMemory.of(few).weights == UNIFORM
    one, two, three, four = HivaMemory.of(refit_weights(few, mixed[10:])).weights
    assert one > 0.35
    assert two < 0.15
    assert (three, four) == pytest.approx((0.25, 0.25), abs=1e-6)


def test_the_seed_is_a_singleton() -> None:
    workflow = Hiva().seed(["search"])
    assert workflow.topology.order() == ("source", "aggregator")
    assert workflow.topology.problems() == ()
    aggregator, source = workflow.agents
    assert (source.tools, aggregator.tools, aggregator.kind) == (("search",), (), "aggregator")
    assert workflow.topology.caps.successors == 5
    assert Hiva().seed(["search"]).fingerprint == workflow.fingerprint
    assert HivaMemory.of(workflow).edge("source", "aggregator").synergy == 1
    bare = Hiva(HivaConfig(tools=False)).seed(["search"])
    assert bare.agents_by_id["source"].tools == ()


HOLDING = LINE.replace(agents=[agent.replace(tools=["search"]) for agent in LINE.agents])


def test_an_adopted_team_has_the_caps_of_the_config() -> None:
    given = Hiva(HivaConfig(nodes=4, successors=3)).adapt(HOLDING)
    assert given.topology.caps == TopologyLimits(nodes=4, successors=3)
    assert given.agents == HOLDING.agents
    assert Hiva(HivaConfig(nodes=4, successors=3)).adapt(given) == given


def test_an_adopted_team_without_tools_holds_none_and_remembers_none() -> None:
    learned = HivaMemory().restrict_to(HOLDING)
    assert learned.knowledge.has_tool
    given = Hiva(HivaConfig(tools=False)).adapt(learned.replace(iteration=3).save_to(HOLDING))
    assert {agent.tools for agent in given.agents} == {()}
    assert HivaMemory.of(given).knowledge.has_tool == ()
    assert HivaMemory.of(given).iteration == 3
    assert Hiva(HivaConfig(tools=False)).adapt(HOLDING).memory == {}


@pytest.mark.parametrize("config", [HivaConfig(nodes=2), HivaConfig(successors=1)])
def test_d30_a_team_beyond_the_caps_is_refused_by_name(config: HivaConfig) -> None:
    told = f"4 nodes with up to 2 successors, .*nodes={config.nodes} and successors={config.successors}"
    with pytest.raises(ConfigError, match=told):
        Hiva(config).adapt(FORK)
