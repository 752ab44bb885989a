"""RepairTopology: the graph stays an efficient DAG from source to sink (App. G.1)."""

from selfwire.core.edits import AddEdge, Edit, RemoveAgent, RemoveEdge, RemoveNode, Rewiring
from selfwire.core.team import Workflow
from selfwire.core.topology import Edge, Topology, cuts_sink, find_cycle, find_dead_nodes, find_reachable
from selfwire.core.values import FrozenModel
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.memory import EdgeRecord, HivaMemory
from selfwire.evolvers.topology_ops import rejoin_source, remove_dead


class RepairResult(FrozenModel):
    """A repaired workflow and the rewirings of the repair; its lineage lists earlier rewirings and these."""

    workflow: Workflow
    rewirings: tuple[Rewiring, ...] = ()


def repair_topology(workflow: Workflow, config: HivaConfig = HivaConfig()) -> RepairResult:
    """Revert what closes a cycle, prune dead nodes and failing edges, restore source -> sink; idempotent.

    The edits of the workflow's lineage say which edges are newest. In "w/o TEV" nothing changes.
    """
    if not config.topology_evolution:
        return RepairResult(workflow=workflow)
    learned = HivaMemory.of(workflow)
    now, done = workflow, list[Rewiring]()
    while (step := _next_step(now, workflow, learned, config)) is not None:
        now = now.apply(step)
        done.append(step)
    if not done:
        return RepairResult(workflow=workflow)
    history = (*workflow.lineage.rewirings, *done)
    lineage = workflow.lineage.replace(rewirings=history)
    return RepairResult(workflow=now.replace(lineage=lineage), rewirings=tuple(done))


def _next_step(now: Workflow, given: Workflow, learned: HivaMemory, config: HivaConfig) -> Rewiring | None:
    topology = now.topology
    wrong = [e for e in topology.edges if e.target == topology.entry or e.source == topology.sink]
    if wrong:
        edits = [RemoveEdge(edge.source, edge.target) for edge in wrong]
        return _make_repair("nothing leads into the source or out of the sink", *edits)
    if find_cycle(topology):
        return _revert_edge(topology, given)
    if dead := remove_dead(now):
        return _make_repair(f"nothing leads to or from {', '.join(find_dead_nodes(topology))}", *dead)
    if joined := rejoin_source(topology):
        return _make_repair("the source lost its last successor", *joined)
    return _prune_failing(topology, learned, config)


def _revert_edge(topology: Topology, given: Workflow) -> Rewiring:
    """Remove the newest edge on a cycle; in a cycle that no known edit made, an edge against the order (D17)."""
    on_cycle = [e for e in topology.edges if e.source in find_reachable(topology.successors, [e.target])]
    edits = [edit for rewiring in given.lineage.rewirings for edit in rewiring.edits]
    added = [Edge(source=e.source, target=e.target) for e in edits if isinstance(e, AddEdge)]
    newest = [edge for edge in reversed(added) if edge in on_cycle]
    edge = newest[0] if newest else next(e for e in on_cycle if e in topology.closing_edges)
    return _make_repair(f"{edge} closes a cycle", RemoveEdge(edge.source, edge.target))


def _prune_failing(topology: Topology, learned: HivaMemory, config: HivaConfig) -> Rewiring | None:
    """Remove the worst failing edge whose removal does not cut off the sink (D10)."""
    records = [(learned.edge(edge.source, edge.target), edge) for edge in topology.edges]
    failing = sorted((r.rate, str(e), r, e) for r, e in records if is_failing(r, learned, config))
    for rate, name, record, edge in failing:
        if not cuts_sink(topology, edge):
            why = f"{name} solved {record.solved} of {record.runs} tasks, rate {rate:.2f} < {config.prune_below}"
            return _make_repair(why, RemoveEdge(edge.source, edge.target))
    return None


def propose_least_helpful_removal(workflow: Workflow) -> Rewiring | None:
    """The rewiring that removes the inner node whose agent has the lowest belief; None if none can go.

    Neighbours that only this node connected are connected directly.
    """
    topology, learned = workflow.topology, HivaMemory.of(workflow)
    inner = [node for node in topology.nodes if node.id not in (topology.entry, topology.sink)]
    for node in sorted(inner, key=lambda n: (learned.belief(n.agent).mean, n.id)):
        rewiring = _contract(workflow, node.id)
        if not workflow.apply_legal([rewiring])[1]:
            return rewiring
    return None


def _contract(workflow: Workflow, node: str) -> Rewiring:
    topology, agent = workflow.topology, workflow.topology.agents[node]
    before, after = topology.predecessors[node], topology.successors[node]
    bridges = [
        AddEdge(source, target)
        for source in before
        for target in after
        if target not in topology.successors[source]
        and (topology.successors[source] == (node,) or topology.predecessors[target] == (node,))
    ]
    alone = sum(n.agent == agent for n in topology.nodes) == 1
    edits: list[Edit] = [RemoveNode(node), *([RemoveAgent(agent)] if alone else []), *bridges]
    belief = HivaMemory.of(workflow).belief(agent)
    return Rewiring(*edits, why=f"{node} helps least: belief {belief.mean:.2f}", operation="PRUNE", by="gate")


def is_failing(record: EdgeRecord, learned: HivaMemory, config: HivaConfig) -> bool:
    """Whether an edge's smoothed success rate is below the threshold and below the team's own (D10)."""
    return record.runs >= config.prune_after and record.rate < min(config.prune_below, learned.rate)


def _make_repair(why: str, *edits: Edit) -> Rewiring:
    return Rewiring(*edits, why=why, operation="REPAIR", by="repair")
