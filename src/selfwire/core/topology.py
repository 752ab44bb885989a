"""The topology of a team: nodes, edges, entry and sink, their problems and their drawings.

Nodes and edges are sorted by id, so topologies of equal content are equal and have equal fingerprints. Ties are broken
by id everywhere. Construction raises ValueError for faults that no edit can repair. Repairable faults (cycles, dead
ends, an unreachable sink) are allowed, and `problems` lists them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush
from itertools import pairwise, product
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, model_validator

from selfwire.core.values import FrozenModel, Id, fingerprint, sort_by

Part = TypeVar("Part", bound=FrozenModel)


class Node(FrozenModel):
    """A place of an agent in a topology; an agent may have several."""

    id: Id
    agent: Id


class Edge(FrozenModel):
    """A directed edge from one node to another; messages travel along it."""

    source: Id
    target: Id

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


class TopologyLimits(FrozenModel):
    """Upper limits of a topology."""

    nodes: int = Field(default=1000, ge=1)
    successors: int = Field(default=1000, ge=1)


class TopologyPolicy(FrozenModel):
    """Problems that a caller tolerates; an unreachable sink is never tolerated.

    Args:
        cycles: whether cycles are tolerated.
        loose: whether nodes on no path from entry to sink are tolerated.
    """

    cycles: bool = False
    loose: bool = False


class Problem(FrozenModel):
    """A problem of a topology, with the ids of its nodes."""

    kind: Literal["cycle", "loose", "sink unreachable"]
    where: tuple[Id, ...]

    def __str__(self) -> str:
        return f"{self.kind}: {(' -> ' if self.kind == 'cycle' else ', ').join(self.where)}"


class Difference(FrozenModel):
    """The fields in which two values differ; the others are empty, and are not shown. Without any it is false."""

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in type(self).model_fields)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        return ((name, value) for name, value in super().__repr_args__() if value)


class TopologyDiff(Difference):
    """The difference between two topologies: added and removed nodes and edges."""

    added_nodes: tuple[Node, ...] = ()
    removed_nodes: tuple[Node, ...] = ()
    added_edges: tuple[Edge, ...] = ()
    removed_edges: tuple[Edge, ...] = ()


class Topology(FrozenModel):
    """A graph of nodes with an entry, which receives the question, and a sink, which answers.

    Raises:
        ValueError: duplicate ids or edges, unknown ends, a self-loop, a missing entry or sink, or more nodes or
            successors than `caps` allows.
    """

    nodes: Annotated[tuple[Node, ...], sort_by("id")]
    edges: Annotated[tuple[Edge, ...], sort_by("source", "target")] = ()
    entry: Id
    sink: Id
    caps: TopologyLimits = TopologyLimits()

    @model_validator(mode="after")
    def _check(self) -> Self:
        ids = [node.id for node in self.nodes]
        present = set(ids)
        _refuse_duplicates("node", ids)
        _refuse_duplicates("edge", [str(edge) for edge in self.edges])
        for edge in self.edges:
            if edge.source == edge.target:
                raise ValueError(f"edge {edge} is a self-loop")
            for end in (edge.source, edge.target):
                if end not in present:
                    raise ValueError(f"edge {edge} ends at {end!r}, which is not a node; nodes are {', '.join(ids)}")
        for name, place in (("entry", self.entry), ("sink", self.sink)):
            if place not in present:
                raise ValueError(f"{name} {place!r} is not a node; nodes are {', '.join(ids)}")
        if len(ids) > self.caps.nodes:
            raise ValueError(f"{len(ids)} nodes exceed the cap of {self.caps.nodes}")
        for node, targets in self.successors.items():
            if len(targets) > self.caps.successors:
                raise ValueError(f"node {node!r} has {len(targets)} successors; the cap is {self.caps.successors}")
        return self

    @cached_property
    def agents(self) -> dict[str, str]:
        """Node id to agent id."""
        return {node.id: node.agent for node in self.nodes}

    @cached_property
    def successors(self) -> dict[str, tuple[str, ...]]:
        """Node id to the targets of its edges, sorted."""
        return _group_neighbours(self.agents, ((edge.source, edge.target) for edge in self.edges))

    @cached_property
    def predecessors(self) -> dict[str, tuple[str, ...]]:
        """Node id to the sources of edges to it, sorted."""
        return _group_neighbours(self.agents, ((edge.target, edge.source) for edge in self.edges))

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the content, equal in every process."""
        return fingerprint(self)

    def __eq__(self, other: object) -> bool:
        """Compare by fingerprint, which is computed once."""
        return isinstance(other, Topology) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def order(self) -> tuple[str, ...]:
        """Node ids in order: entry first, sink last, the others as in `compute_greedy_order`; topological if acyclic.

        Every reachable node can also be reached along edges that follow the order.
        """
        return self._order

    @cached_property
    def _order(self) -> tuple[str, ...]:
        if self.entry == self.sink:
            return compute_greedy_order([node.id for node in self.nodes], [(e.source, e.target) for e in self.edges])
        inner = [node.id for node in self.nodes if node.id not in (self.entry, self.sink)]
        ends = {self.entry, self.sink}
        pairs = [(e.source, e.target) for e in self.edges if not ends & {e.source, e.target}]
        rest = compute_greedy_order(inner, pairs, starts=self.successors[self.entry])
        return (self.entry, *rest, self.sink)

    @cached_property
    def closing_edges(self) -> frozenset[Edge]:
        """Edges against `order()`, which close a cycle; a team delivers their messages in the next round."""
        place = {node: index for index, node in enumerate(self.order())}
        return frozenset(edge for edge in self.edges if place[edge.source] > place[edge.target])

    def levels(self) -> tuple[tuple[str, ...], ...]:
        """Group node ids by longest-path depth over the edges that follow `order()`.

        The sink has the last level to itself, unless it is also the entry.
        """
        return self._levels

    @cached_property
    def _levels(self) -> tuple[tuple[str, ...], ...]:
        depth: dict[str, int] = {}
        for node in self.order():
            before = [depth[p] for p in self.predecessors[node] if p in depth]
            depth[node] = 1 + max(before, default=-1)
        if self.entry != self.sink:
            depth[self.sink] = max(depth[self.sink], 1 + max(d for node, d in depth.items() if node != self.sink))
        levels: list[list[str]] = [[] for _ in range(1 + max(depth.values()))]
        for node in self.order():
            levels[depth[node]].append(node)
        return tuple(tuple(level) for level in levels)

    def problems(self, policy: TopologyPolicy = TopologyPolicy()) -> tuple[Problem, ...]:
        """List the problems that the policy does not tolerate; without problems the topology may run."""
        found: list[Problem] = []
        cycle = () if policy.cycles else find_cycle(self)
        if cycle:
            found.append(Problem(kind="cycle", where=cycle))
        reached = find_reachable(self.successors, [self.entry])
        useful = find_reachable(self.predecessors, [self.sink])
        loose = tuple(node for node in self.agents if node not in reached & useful)
        if self.sink not in reached:
            found.append(Problem(kind="sink unreachable", where=(self.sink,)))
        elif loose and not policy.loose:
            found.append(Problem(kind="loose", where=loose))
        return tuple(found)

    def diff(self, other: "Topology") -> TopologyDiff:
        """Compare with a later topology: the nodes and edges that `other` adds and removes."""
        return TopologyDiff(
            added_nodes=_subtract(other.nodes, self.nodes),
            removed_nodes=_subtract(self.nodes, other.nodes),
            added_edges=_subtract(other.edges, self.edges),
            removed_edges=_subtract(self.edges, other.edges),
        )


def find_reachable(neighbours: Mapping[str, Sequence[str]], starts: Iterable[str]) -> set[str]:
    """Find the ids that are reachable from `starts`, including the starts."""
    found, todo = set(starts), list(starts)
    while todo:
        for target in neighbours[todo.pop()]:
            if target not in found:
                found.add(target)
                todo.append(target)
    return found


def compute_greedy_order(
    nodes: Sequence[str], edges: Iterable[tuple[str, str]], *, starts: Iterable[str] | None = None
) -> tuple[str, ...]:
    """Order nodes: each next node has the fewest predecessors left, which is topological if acyclic.

    Ties go to the smallest id. All nodes and edges are kept (DyTopo, Sec. 3, order sigma).

    Args:
        starts: nodes that can begin, None for all. A cycle is entered at a node reachable from them, so that no part
            of the cycle is cut off.
    """
    waiting: dict[str, int] = dict.fromkeys(nodes, 0)
    after: dict[str, set[str]] = {node: set() for node in nodes}
    for source, target in edges:
        if target not in after[source]:
            after[source].add(target)
            waiting[target] += 1
    reached = set(nodes) if starts is None else set(starts)

    def rank(node: str) -> tuple[bool, int, str]:
        return (waiting[node] > 0 and node not in reached, waiting[node], node)

    heap = [rank(node) for node in waiting]
    heapify(heap)
    order: list[str] = []
    while heap:
        taken = heappop(heap)
        node = taken[-1]
        if node not in waiting or rank(node) != taken:
            continue  # taken already, or a stale rank
        order.append(node)
        del waiting[node]
        if node in reached:
            reached |= after[node]
        for target in after[node] & waiting.keys():
            waiting[target] -= 1
            heappush(heap, rank(target))
    return tuple(order)


def find_cycle(topology: Topology) -> tuple[str, ...]:
    """Find a cycle: its node ids, the first repeated at the end; empty if there is none."""
    try:
        TopologicalSorter(topology.predecessors).prepare()
    except CycleError as error:
        return tuple(error.args[1])
    return ()


def find_dead_nodes(topology: Topology) -> tuple[str, ...]:
    """Find nodes to prune: in- or out-degree 0, entry and sink apart, until no more are found (HiVA, App. G.1)."""
    alive = set(topology.agents)
    edges = set(topology.edges)
    while True:
        sources, targets = {e.source for e in edges}, {e.target for e in edges}
        dead = {n for n in alive - {topology.entry, topology.sink} if n not in sources or n not in targets}
        if not dead:
            return tuple(sorted(set(topology.agents) - alive))
        alive -= dead
        edges = {e for e in edges if e.source in alive and e.target in alive}


def cuts_sink(topology: Topology, edge: Edge) -> bool:
    """Whether removing the edge leaves no path from entry to sink."""
    without = {
        node: [t for t in targets if (node, t) != (edge.source, edge.target)]
        for node, targets in topology.successors.items()
    }
    return topology.sink not in find_reachable(without, [topology.entry])


def make_chain(*agents: str, caps: TopologyLimits = TopologyLimits()) -> Topology:
    """Make a topology that runs the agents one after another; each node has its agent's id."""
    return make_layers(*((agent,) for agent in agents), caps=caps)


def make_layers(*layers: Sequence[str], caps: TopologyLimits = TopologyLimits()) -> Topology:
    """Make a topology in which every agent of a layer hands on to all of the next; each node has its agent's id.

    Args:
        layers: the first begins with the entry, and the last ends with the sink.
    """
    nodes = ((agent, agent) for layer in layers for agent in layer)
    edges = (edge for pair in pairwise(layers) for edge in product(*pair))
    return make_topology(nodes, edges, layers[0][0], layers[-1][-1], caps)


def make_topology(
    nodes: Iterable[tuple[str, str]],
    edges: Iterable[tuple[str, str]],
    entry: str,
    sink: str,
    caps: TopologyLimits = TopologyLimits(),
) -> Topology:
    """Make a topology of pairs: each node and its agent, and the two nodes of each edge."""
    return Topology(
        nodes=tuple(Node(id=node, agent=agent) for node, agent in nodes),
        edges=tuple(Edge(source=source, target=target) for source, target in edges),
        entry=entry,
        sink=sink,
        caps=caps,
    )


def _group_neighbours(nodes: Iterable[str], pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {node: [] for node in nodes}
    for node, neighbour in pairs:
        found[node].append(neighbour)
    return {node: tuple(sorted(neighbours)) for node, neighbours in found.items()}


def _subtract(these: tuple[Part, ...], those: tuple[Part, ...]) -> tuple[Part, ...]:
    others = set(those)
    return tuple(part for part in these if part not in others)


def _refuse_duplicates(what: str, ids: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in ids:
        if name in seen:
            raise ValueError(f"{what} {name!r} appears twice")
        seen.add(name)


def to_mermaid(topology: Topology) -> str:
    """Draw a Mermaid flowchart: the entry rounded, the sink framed, edges that close a cycle dotted."""
    names = {node: f"n{index}" for index, node in enumerate(topology.order())}
    ends, nodes = {topology.entry: ('(["', '"])'), topology.sink: ('[["', '"]]')}, []
    for node, name in names.items():
        left, right = ends.get(node, ('["', '"]'))
        nodes.append(f"    {name}{left}{_make_label(topology, node)}{right}")
    edges = [
        f"    {names[edge.source]} {'-.->' if edge in topology.closing_edges else '-->'} {names[edge.target]}"
        for edge in topology.edges
    ]
    return "\n".join(["flowchart TD", *nodes, *edges])


def to_text(topology: Topology) -> str:
    """Draw the topology as text: a line per node, by level, with the node's successors.

    `search ~> plan` is an edge that delivers its message in the next round.
    """
    width = max(len(_make_label(topology, node)) for node in topology.agents)
    lines = []
    for depth, level in enumerate(topology.levels()):
        for place, node in enumerate(level):
            margin = f"{depth:>3} " if place == 0 else "    "
            label, successors = _make_label(topology, node), _format_successors(topology, node)
            lines.append(f"{margin} {label:<{width}}  {successors}".rstrip())
    return "\n".join(lines)


def _format_successors(topology: Topology, node: str) -> str:
    closing = {edge.target for edge in topology.closing_edges if edge.source == node}
    now = [target for target in topology.successors[node] if target not in closing]
    parts = [f"-> {', '.join(now)}"] if now else []
    parts += [f"~> {', '.join(sorted(closing))}"] if closing else []
    return "  ".join(parts) or ("(answers)" if node == topology.sink else "(leads nowhere)")


def _make_label(topology: Topology, node: str) -> str:
    agent = topology.agents[node]
    return node if agent == node else f"{node} ({agent})"
