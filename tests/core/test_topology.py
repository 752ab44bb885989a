"""Graph arithmetic: order, levels, closing edges, findings and repair primitives."""

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfwire.core.topology import (
    Edge,
    Node,
    Topology,
    TopologyLimits,
    TopologyPolicy,
    compute_greedy_order,
    cuts_sink,
    find_cycle,
    find_dead_nodes,
    find_reachable,
    make_chain,
)
from tests.core.generators import random_topology

topologies = st.builds(random_topology, st.randoms(use_true_random=False), st.integers(1, 9))


def drawn(text: str, entry: str = "s", sink: str = "t") -> Topology:
    """A topology from text such as "s>a a>t"; a name alone is a node without edges."""
    pairs = [part.split(">") for part in text.split()]
    ids = {entry, sink} | {name for pair in pairs for name in pair}
    return Topology(
        nodes=tuple(Node(id=i, agent="x") for i in ids),
        edges=tuple(Edge(source=p[0], target=p[1]) for p in pairs if len(p) == 2),
        entry=entry,
        sink=sink,
    )


def pairs(text: str) -> list[tuple[str, str]]:
    return [(a, b) for a, b in (part.split(">") for part in text.split())]


@pytest.mark.parametrize(
    ("edges", "order"),
    [
        ("0>1 1>2 2>0 2>3", "0123"),
        ("1>0 2>0 0>3 3>1", "2031"),
        ("2>0 0>2 1>2", "102"),
        ("0>1 0>2 1>3 2>3", "0123"),
        ("3>2 2>1 1>0", "3210"),
        ("", ""),
        ("0>1 0>1 1>0", "01"),
    ],
)
def test_greedy_order_by_hand(edges: str, order: str) -> None:
    nodes = sorted({end for pair in pairs(edges) for end in pair}, reverse=True)
    assert "".join(compute_greedy_order(nodes, pairs(edges))) == order


@settings(max_examples=300, deadline=None)
@given(topologies)
def test_order_holds_every_node_once_between_entry_and_sink(topology: Topology) -> None:
    order = topology.order()
    assert sorted(order) == sorted(topology.agents)
    assert (order[0], order[-1]) == (topology.entry, topology.sink)


@settings(max_examples=300, deadline=None)
@given(topologies)
def test_an_order_without_closing_edges_means_no_cycle(topology: Topology) -> None:
    place = {node: index for index, node in enumerate(topology.order())}
    closing = topology.closing_edges
    assert all((place[e.source] > place[e.target]) == (e in closing) for e in topology.edges)
    opened = topology.replace(edges=tuple(e for e in topology.edges if e not in closing))
    assert find_cycle(opened) == ()
    if not topology.problems(TopologyPolicy()):
        assert not closing


@settings(max_examples=300, deadline=None)
@given(topologies)
def test_an_edge_that_does_not_close_leads_to_a_deeper_level(topology: Topology) -> None:
    levels = topology.levels()
    depth = {node: index for index, level in enumerate(levels) for node in level}
    assert sum(map(len, levels)) == len(depth) == len(topology.nodes)
    assert all(depth[e.source] < depth[e.target] for e in topology.edges if e not in topology.closing_edges)
    assert levels[-1] == (topology.sink,) or topology.entry == topology.sink


@settings(max_examples=300, deadline=None)
@given(topologies)
def test_a_cycle_that_is_found_is_one_and_none_is_missed(topology: Topology) -> None:
    cycle = find_cycle(topology)
    if cycle:
        assert cycle[0] == cycle[-1]
        assert len(set(cycle)) == len(cycle) - 1
        assert all(b in topology.successors[a] for a, b in pairwise(cycle))
    loops = any(n in find_reachable(topology.successors, topology.successors[n]) for n in topology.agents)
    assert bool(cycle) == loops


@settings(max_examples=300, deadline=None)
@given(topologies)
def test_pruning_dead_nodes_is_idempotent_and_spares_entry_and_sink(topology: Topology) -> None:
    dead = set(find_dead_nodes(topology))
    assert not dead & {topology.entry, topology.sink}
    alive = topology.replace(
        nodes=tuple(n for n in topology.nodes if n.id not in dead),
        edges=tuple(e for e in topology.edges if not dead & {e.source, e.target}),
    )
    assert find_dead_nodes(alive) == ()
    inner = [n for n in alive.agents if n not in (alive.entry, alive.sink)]
    assert all(alive.successors[n] and alive.predecessors[n] for n in inner)


@settings(max_examples=200, deadline=None)
@given(topologies, topologies)
def test_a_diff_leads_from_one_topology_to_the_other(before: Topology, after: Topology) -> None:
    diff = before.diff(after)
    assert {*before.nodes} - {*diff.removed_nodes} | {*diff.added_nodes} == {*after.nodes}
    assert {*before.edges} - {*diff.removed_edges} | {*diff.added_edges} == {*after.edges}
    assert bool(diff) == (before.nodes != after.nodes or before.edges != after.edges)


@settings(max_examples=200, deadline=None)
@given(topologies, st.randoms(use_true_random=False))
def test_the_order_of_construction_does_not_matter(topology: Topology, rng: random.Random) -> None:
    nodes, edges = list(topology.nodes), list(topology.edges)
    rng.shuffle(nodes)
    rng.shuffle(edges)
    again = Topology(nodes=tuple(nodes), edges=tuple(edges), entry=topology.entry, sink=topology.sink)
    assert (again, again.fingerprint) == (topology, topology.fingerprint)


@pytest.mark.parametrize(
    ("edges", "cycle"),
    [
        ("s>a a>t", ""),
        ("s>a a>b b>t s>b s>t", ""),
        ("s>a a>b b>a b>t", "aba"),
        ("s>t t>s", "sts"),
        ("s>t x>y y>z z>x", "xyzx"),
        ("s>a s>b a>b b>c c>t a>c", ""),
    ],
)
def test_cycles(edges: str, cycle: str) -> None:
    assert "".join(find_cycle(drawn(edges))) == cycle


@pytest.mark.parametrize(
    ("edges", "dead"),
    [
        ("s>a a>t", ""),
        ("s>t a", "a"),
        ("s>t s>a a>b b>c", "abc"),
        ("s>t a>b b>t", "ab"),
        ("s>t x>y y>x", ""),
        ("s", ""),
    ],
)
def test_dead_nodes(edges: str, dead: str) -> None:
    assert "".join(find_dead_nodes(drawn(edges))) == dead


@pytest.mark.parametrize(
    ("edges", "edge", "cuts"),
    [
        ("s>t", "s>t", True),
        ("s>a a>t s>t", "s>t", False),
        ("s>a a>t s>b b>t", "a>t", False),
        ("s>a a>t b>t", "a>t", True),
        ("s>a a>b b>a b>t", "b>a", False),
        ("s a>t", "a>t", True),
    ],
)
def test_cuts_sink(edges: str, edge: str, cuts: bool) -> None:
    source, target = edge.split(">")
    assert cuts_sink(drawn(edges), Edge(source=source, target=target)) is cuts


@pytest.mark.parametrize(
    ("edges", "policy", "findings"),
    [
        ("s>a a>t", TopologyPolicy(), []),
        ("s>a a>b b>a b>t", TopologyPolicy(), ["cycle: a -> b -> a"]),
        ("s>a a>b b>a b>t", TopologyPolicy(cycles=True), []),
        ("s>t a b>t s>c", TopologyPolicy(), ["loose: a, b, c"]),
        ("s>t a b>t s>c", TopologyPolicy(loose=True), []),
        ("s>a", TopologyPolicy(), ["sink unreachable: t"]),
        ("s>a", TopologyPolicy(cycles=True, loose=True), ["sink unreachable: t"]),
        ("s>t x>y y>x", TopologyPolicy(), ["cycle: x -> y -> x", "loose: x, y"]),
    ],
)
def test_problems(edges: str, policy: TopologyPolicy, findings: list[str]) -> None:
    assert [str(problem) for problem in drawn(edges).problems(policy)] == findings


@pytest.mark.parametrize(
    ("looped", "levels", "closing"),
    [
        (drawn("s>a s>b a>b b>t s>t s>c"), "s ac b t", []),  # the longest path decides, and the sink waits for all
        (drawn("s>a a>b b>a b>t"), "s a b t", ["b->a"]),
        (drawn("a>b b>a", entry="a", sink="a"), "a b", ["b->a"]),
    ],
)
def test_levels_and_closing_edges(looped: Topology, levels: str, closing: list[str]) -> None:
    assert ["".join(level) for level in looped.levels()] == levels.split()
    assert [str(edge) for edge in looped.closing_edges] == closing


def test_a_singleton_is_entry_and_sink() -> None:
    alone = make_chain("a")
    assert (alone.order(), alone.levels()) == (("a",), (("a",),))
    assert not alone.problems()
    assert not alone.closing_edges


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"nodes": (Node(id="s", agent="x"), Node(id="s", agent="y"))}, "node 's' appears twice"),
        ({"edges": (Edge(source="s", target="t"),) * 2}, "edge 's->t' appears twice"),
        ({"edges": (Edge(source="s", target="s"),)}, "edge s->s is a self-loop"),
        ({"edges": (Edge(source="s", target="u"),)}, "edge s->u ends at 'u', which is not a node; nodes are s, t"),
        ({"entry": "u"}, "entry 'u' is not a node"),
        ({"sink": "u"}, "sink 'u' is not a node"),
        ({"caps": TopologyLimits(nodes=1)}, "2 nodes exceed the cap of 1"),
        ({"edges": (Edge(source="s", target="t"),), "colour": "red"}, "colour: there is no such field"),
    ],
)
def test_what_can_never_be_right_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        drawn("s t").replace(**fields)


@pytest.mark.parametrize("names", ["aba", "abca"])
def test_a_chain_that_comes_back_to_a_node_is_refused(names: str) -> None:
    with pytest.raises(ValueError, match="node 'a' appears twice"):
        make_chain(*names)


@pytest.mark.parametrize("bad", ["", "a b", "a:b", "a|b", "-a", "ä", "x" * 65])
def test_ids_are_what_langgraph_can_name(bad: str) -> None:
    with pytest.raises(ValueError, match="id: it must have up to 64 letters"):
        Node(id=bad, agent="x")


def test_a_diff_shows_only_what_differs() -> None:
    before, after = make_chain("a", "b"), make_chain("a", "b", "c")
    shown = "TopologyDiff(added_nodes=(Node(id='c', agent='c'),), added_edges=(Edge(source='b', target='c'),))"
    assert repr(before.diff(after)) == shown
