import json

import pytest

from selfwire.core.edits import AddEdge, RemoveEdge, RemoveNode, Rewiring
from selfwire.evolvers.hiva.config import KabbConfig
from selfwire.evolvers.hiva.knowledge import UNIFORM, TaskConcepts, WeightSample
from selfwire.evolvers.hiva.memory import CONCEPTS, HISTORY, Belief, EdgeRecord, HivaMemory, PastTask, TrajectoryLesson
from selfwire.evolvers.topology_ops import add_parallel, add_serial, make_newcomer
from tests.evolvers.hiva.doubles import FORK, LINE

CONFIG = KabbConfig()


def lesson(task: str = "t1", solved: bool = True, **rewards: int) -> TrajectoryLesson:
    rewards = rewards or {"s": 1, "a": 1, "end": 1}
    concepts = TaskConcepts(main="bridge", broader=("question",), skills=("lookup",))
    edges = (("s", "a"), ("a", "end"))
    return TrajectoryLesson(
        task=task, solved=solved, rewards=rewards, edges=edges, concepts=concepts, matches={"a": 0.5}, left_out=1
    )


def taught(*lessons: TrajectoryLesson) -> HivaMemory:
    return HivaMemory().restrict_to(LINE).update(lessons, config=CONFIG)


def test_everything_survives_the_workflow_s_memory_and_json() -> None:
    assert HivaMemory.of(LINE) == HivaMemory()
    learned = taught(lesson(), lesson("t2", solved=False, a=0)).refit([WeightSample(terms=UNIFORM, solved=True)])
    team = learned.save_to(LINE)
    assert HivaMemory.of(team) == learned
    again = type(team).model_validate_json(team.model_dump_json())
    assert HivaMemory.of(again) == learned
    assert again.fingerprint == team.fingerprint
    assert json.loads(json.dumps(learned.model_dump(mode="json")))["edges"]["s->a"]["runs"] == 2


def test_a_batch_is_one_update() -> None:
    learned = taught(lesson(), lesson("t2", solved=False, a=0))
    # a: matches of .5 twice, one success and one failure: 1 + 1 + .05 + .05 on both sides
    assert learned.belief("a").model_dump() == pytest.approx({"alpha": 2.1, "beta": 2.1})
    assert (learned.solved, learned.runs, learned.left_out, learned.iteration) == (1, 2, 2, 0)
    assert learned.get_rate_beside(EdgeRecord()) == 0.5


def test_d9_every_update_is_one_iteration_whatever_was_learned_before() -> None:
    learned = taught(lesson()).replace(iteration=9)
    assert learned.update([], config=CONFIG) == learned
    once = learned.update([lesson("t2", s=1)], config=CONFIG)
    assert once.iteration == 10
    assert once.belief("a") == Belief(alpha=1 + 0.6 * 1.05, beta=1 + 0.6 * 0.05)
    twice = once.update([lesson("t3", s=1)], config=CONFIG)
    assert twice.belief("a").alpha == pytest.approx(1 + 0.6**2 * 1.05)


def test_edges_take_the_receiving_agent_s_reward_and_do_not_decay() -> None:
    learned = taught(lesson(), lesson("t2", solved=False, a=0, end=0))
    edge = learned.edge("s", "a")
    assert edge.belief == Belief(alpha=2, beta=2)
    assert (edge.solved, edge.runs, edge.rate) == (1, 2, 0.5)
    assert edge.synergy == pytest.approx(1 + 0.05 * 0.5 * 2)
    assert learned.update([lesson("t3", s=1)], config=CONFIG).edge("s", "a").belief == edge.belief
    unjudged = taught(lesson(s=1)).edge("s", "a")
    assert (unjudged.belief, unjudged.runs) == (Belief(), 1)


def test_similar_past_tasks_are_those_of_the_same_or_overlapping_concepts() -> None:
    history = (
        PastTask(main="bridge", concepts=("bridge",), rewards={"a": 1}),
        PastTask(main="sum", concepts=("lookup", "sum", "table"), rewards={"a": 0}),
        PastTask(main="sum", concepts=("sum",), rewards={"a": 0}),
        PastTask(main="bridge", concepts=("bridge",), rewards={"s": 1}),
    )
    learned = HivaMemory(history=history)
    assert learned.similar_runs("a", TaskConcepts(main="bridge")) == (1, 1)
    assert learned.similar_runs("a", TaskConcepts(main="x", skills=("lookup", "sum", "table"))) == (0, 1)
    assert learned.similar_runs("nobody", TaskConcepts(main="bridge")) == (0, 0)


def test_the_most_familiar_concepts_come_first() -> None:
    later = lesson("t2").replace(concepts=TaskConcepts(main="zither", skills=("lookup",)))
    learned = taught(lesson(), later, later.replace(task="t3"))
    assert learned.get_familiar_concepts(3) == ("lookup", "zither", "bridge")
    assert learned.get_familiar_concepts(60) == ("lookup", "zither", "bridge", "question")


def test_history_and_concepts_are_bounded() -> None:
    concepts = [TaskConcepts(main=f"kind {i}", skills=(f"skill {i}",)) for i in range(CONCEPTS // 2 + 20)]
    learned = taught(*(lesson(one.main).replace(concepts=one) for one in concepts))
    assert len(learned.history) == HISTORY
    assert learned.history[-1].main == concepts[-1].main
    assert len(learned.knowledge.concepts) == CONCEPTS


def test_entries_of_what_is_gone_go() -> None:
    kept = LINE.apply(Rewiring(AddEdge("s", "end"), RemoveNode("a"), why="short cut"))
    kept = kept.replace(agents=[agent for agent in kept.agents if agent.id != "a"])
    learned = taught(lesson()).restrict_to(kept)
    assert set(learned.beliefs) == {"s", "end"}
    assert set(learned.edges) == {"s->end"}
    assert not learned.knowledge.get_concepts("a")


def test_a_newcomer_starts_at_the_prior() -> None:
    grown = LINE.apply(add_serial(LINE, "s", make_newcomer(LINE, "s", "Checks lookups."), why="test"))
    learned = taught(lesson()).restrict_to(grown)
    assert learned.belief("check-lookups") == learned.belief("checks-lookups") == Belief()
    assert learned.knowledge.get_concepts("checks-lookups") == {"lookup"}


def test_d5_a_new_edge_starts_at_the_mean_of_its_siblings() -> None:
    learned = HivaMemory(
        edges={"s->a": EdgeRecord(synergy=1.8), "s->b": EdgeRecord(synergy=1.2), "a->end": EdgeRecord()}
    )
    grown = FORK.apply(add_parallel(FORK, "s", make_newcomer(FORK, "s", "Checks."), why="test"))
    fitted = learned.restrict_to(grown)
    assert fitted.edge("s", "checks").synergy == pytest.approx(1.5)
    assert fitted.edge("checks", "end").synergy == 1.0
    assert fitted.edge("s", "checks").runs == 0


def test_fitting_again_changes_nothing_and_an_edge_that_comes_back_starts_anew() -> None:
    learned = taught(lesson()).restrict_to(LINE)
    assert learned.restrict_to(LINE) == learned
    cut = LINE.apply(Rewiring(AddEdge("s", "end"), RemoveEdge("s", "a"), why="test"))
    back = cut.apply(Rewiring(AddEdge("s", "a"), why="test"))
    assert taught(lesson()).restrict_to(cut).restrict_to(back).edge("s", "a").runs == 0
