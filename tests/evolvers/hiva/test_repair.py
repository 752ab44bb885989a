from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfwire.core.agent import Agent
from selfwire.core.edits import AddEdge, RemoveEdge, Rewiring
from selfwire.core.team import Team
from selfwire.core.topology import Edge, Node, find_cycle
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.memory import Belief, EdgeRecord, HivaMemory, TrajectoryLesson
from selfwire.evolvers.hiva.structure import is_failing, propose_least_helpful_removal, repair_topology
from tests.evolvers.hiva.doubles import FORK, LINE, edges, team

CONFIG = HivaConfig()


def taught(workflow: Team, *, solved: int = 5, runs: int = 8, **records: tuple[int, int]) -> Team:
    known = {name.replace("__", "->"): EdgeRecord(solved=s, runs=n) for name, (s, n) in records.items()}
    return HivaMemory(edges=known, solved=solved, runs=runs).save_to(workflow)


def test_a_sound_topology_stays_the_same_object() -> None:
    done = repair_topology(FORK)
    assert done.workflow is FORK
    assert done.rewirings == ()


def test_d17_an_edge_that_closes_a_cycle_is_reverted() -> None:
    cyclic = team(("s", "a"), ("a", "b"), ("b", "end")).apply(Rewiring(AddEdge("b", "a"), why="raw"))
    assert find_cycle(cyclic.topology)
    done = repair_topology(cyclic)
    assert edges(done.workflow) == {"s->a", "a->b", "b->end"}
    assert [r.why for r in done.rewirings] == ["b->a closes a cycle"]
    assert done.workflow.lineage.parent == cyclic.lineage.parent
    assert [r.operation for r in done.workflow.lineage.rewirings] == ["", "REPAIR"]


def test_d17_only_the_newest_edge_on_the_cycle_goes() -> None:
    line = team(("s", "a"), ("a", "end"), ("s", "b"), ("b", "end"))
    changed, _ = line.apply_legal([
        Rewiring(AddEdge("a", "b"), why="first"), Rewiring(AddEdge("b", "a"), why="second"),
        Rewiring(AddEdge("s", "end"), why="harmless"),
    ])  # fmt: skip
    assert edges(repair_topology(changed).workflow) == edges(line) | {"a->b", "s->end"}


def test_d17_a_cycle_of_the_seed_is_cut_against_the_order() -> None:
    done = repair_topology(team(("s", "a"), ("a", "b"), ("b", "a"), ("b", "end")))
    assert edges(done.workflow) == {"s->a", "a->b", "b->end"}
    odd = team(("s", "a"), ("a", "s"), ("a", "end"), ("end", "a"))  # into the source, out of the sink
    assert edges(repair_topology(odd).workflow) == {"s->a", "a->end"}


@pytest.mark.parametrize(("whole", "lost"), [
    (team(("s", "a"), ("a", "b"), ("b", "c"), ("s", "end")), RemoveEdge("b", "c")),
    (LINE, RemoveEdge("s", "a")),
])  # fmt: skip
def test_d16_dead_nodes_and_their_agents_go_and_the_source_is_joined_to_the_sink(whole: Team, lost: RemoveEdge) -> None:
    done = repair_topology(whole.apply(Rewiring(lost, why="cut")))
    assert edges(done.workflow) == {"s->end"}
    assert set(done.workflow.agents_by_id) == {"s", "end"}


def test_an_agent_with_another_node_and_one_that_never_had_a_node_stay() -> None:
    short = team(("s", "end"))
    second = short.topology.replace(nodes=(*short.topology.nodes, Node(id="x", agent="s")))
    done = repair_topology(short.replace(topology=second, agents=(*short.agents, Agent(id="spare", prompt="spare"))))
    assert set(done.workflow.topology.agents) == {"s", "end"}
    assert set(done.workflow.agents_by_id) == {"s", "end", "spare"}


@pytest.mark.parametrize(("solved", "runs", "pruned"), [(1, 8, True), (2, 8, False), (0, 7, False), (0, 8, True)])
def test_d10_pruning_is_smoothed_and_waits_for_eight_runs(solved: int, runs: int, pruned: bool) -> None:
    done = repair_topology(taught(FORK, s__a=(solved, runs)))
    assert ("s->a" not in edges(done.workflow)) is pruned
    assert ("a" not in done.workflow.agents_by_id) is pruned


def test_d10_an_edge_at_the_team_s_own_rate_is_not_pruned() -> None:
    assert repair_topology(taught(FORK, solved=1, runs=8, s__a=(1, 8))).rewirings == ()
    assert is_failing(EdgeRecord(solved=1, runs=8), HivaMemory(solved=4, runs=8), CONFIG)
    assert not is_failing(EdgeRecord(solved=1, runs=8), HivaMemory(solved=1, runs=8), CONFIG)


def test_d10_an_edge_that_every_run_uses_is_not_pruned_where_earlier_tasks_were_easier() -> None:
    def batch(*edges: tuple[str, str], solved: int) -> list[TrajectoryLesson]:
        return [TrajectoryLesson(task=f"t{i}", solved=i < solved, rewards={}, edges=edges) for i in range(10)]

    easier = HivaMemory().update(batch(("s", "end"), solved=8), config=CONFIG.routing)
    for path, pruned in (((("s", "a"), ("a", "end")), False), ((("s", "b"), ("b", "end")), True)):
        learned = easier.update(batch(*path, solved=1), config=CONFIG.routing)
        if pruned:  # the other path has solved in the meantime what this one did not
            learned = learned.update(batch(("s", "a"), ("a", "end"), solved=9), config=CONFIG.routing)
        assert bool(repair_topology(learned.save_to(FORK)).rewirings) is pruned


def test_d10_the_last_path_is_never_cut() -> None:
    assert repair_topology(taught(LINE, s__a=(0, 20), a__end=(0, 20))).rewirings == ()
    both = repair_topology(taught(FORK, s__a=(0, 20), s__b=(1, 20)))
    assert edges(both.workflow) == {"s->b", "b->end"}


names = ("s", "a", "b", "c", "d", "end")


@st.composite
def workflows(draw: st.DrawFn) -> Team:
    pairs = [(a, b) for a in names for b in names if a != b]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=14))
    seeded = draw(st.integers(0, len(chosen)))
    first = team(*pairwise(names))
    first = first.replace(topology=first.topology.replace(edges=[Edge(source=a, target=b) for a, b in chosen[:seeded]]))
    records = {
        f"{a}->{b}": EdgeRecord(solved=min(s, n), runs=n)
        for (a, b), (s, n) in draw(
            st.dictionaries(st.sampled_from(pairs), st.tuples(st.integers(0, 9), st.integers(0, 30)), max_size=9)
        ).items()
    }
    grown, _ = first.apply_legal(Rewiring(AddEdge(a, b), why="drawn") for a, b in chosen[seeded:])
    return HivaMemory(edges=records, solved=draw(st.integers(0, 9)), runs=9).save_to(grown)


@settings(max_examples=150, deadline=None)
@given(workflows())
def test_repair_leaves_a_valid_topology_and_is_idempotent(workflow: Team) -> None:
    done = repair_topology(workflow)
    assert done.workflow.topology.problems() == ()
    assert repair_topology(done.workflow).rewirings == ()
    replayed, refused = workflow.apply_legal(done.rewirings)
    assert refused == ()
    assert replayed.fingerprint == done.workflow.fingerprint


def test_the_least_helpful_agent_is_the_one_of_the_lowest_belief() -> None:
    workflow = HivaMemory(beliefs={"a": Belief(alpha=1, beta=4), "b": Belief(alpha=4, beta=1)}).save_to(FORK)
    rewiring = propose_least_helpful_removal(workflow, {})
    assert rewiring is not None
    assert edges(workflow.apply(rewiring)) == {"s->b", "b->end"}
    assert set(workflow.apply(rewiring).agents_by_id) == {"s", "b", "end"}


def test_what_leaving_agents_out_has_shown_comes_before_beliefs() -> None:
    workflow = HivaMemory(beliefs={"a": Belief(alpha=1, beta=4), "b": Belief(alpha=4, beta=1)}).save_to(FORK)

    def remove(**worth: float) -> tuple[str, set[str]]:
        rewiring = propose_least_helpful_removal(workflow, worth)
        assert rewiring is not None
        return rewiring.why, {"a", "b"} & set(workflow.apply(rewiring).agents_by_id)

    assert remove(a=0.3) == ("b helps least: belief 0.80", {"a"})
    assert remove(a=0.3, b=0.1) == ("b helps least: worth +0.10, belief 0.80", {"a"})
    assert remove(a=0.1, b=0.1) == ("a helps least: worth +0.10, belief 0.20", {"b"})


def test_removing_a_link_of_a_chain_joins_its_neighbours() -> None:
    line = team(("s", "a"), ("a", "b"), ("b", "end"))
    rewiring = propose_least_helpful_removal(line, {})
    assert rewiring is not None
    assert edges(line.apply(rewiring)) == {"s->b", "b->end"}
    assert propose_least_helpful_removal(team(("s", "end")), {}) is None


@settings(max_examples=100, deadline=None)
@given(workflows())
def test_removing_the_least_helpful_agent_leaves_a_valid_topology(workflow: Team) -> None:
    sound = repair_topology(workflow).workflow
    rewiring = propose_least_helpful_removal(sound, {})
    assert (rewiring is None) == (len(sound.topology.nodes) == 2)
    if rewiring is not None:
        assert sound.apply(rewiring).topology.problems() == ()
