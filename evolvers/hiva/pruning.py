"""What to take away when a team only grows dearer: asked for by the gate once its patience is used up."""

from selfwire.core.edits import AddEdge, Edit, RemoveAgent, RemoveNode, Rewiring
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hiva.memory import Learned


def least_useful_removed(workflow: Workflow) -> Rewiring | None:
    """Remove the inner node whose agent has the lowest posterior mean; ties go to the first id.

    A predecessor that would lose its last successor is connected to the sink.

    Returns:
        The rewiring; None if there are only entry and sink.
    """
    topology, learned = workflow.topology, Learned.of(workflow)
    inner = [node for node in topology.agents if node not in (topology.entry, topology.sink)]
    if not inner:
        return None
    node = min(inner, key=lambda one: (learned.belief(topology.agents[one]).mean, one))
    agent = topology.agents[node]
    edits: list[Edit] = [RemoveNode(node)]
    edits += [
        AddEdge(before, topology.sink)
        for before in topology.predecessors[node]
        if topology.successors[before] == (node,)
    ]
    if list(topology.agents.values()).count(agent) == 1:
        edits.append(RemoveAgent(agent))
    mean = learned.belief(agent).mean
    return Rewiring(*edits, why=f"{agent} has the lowest posterior mean, {mean:.2f}", operation="PRUNE", by="gate")
