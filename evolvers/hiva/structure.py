"""Topological evolution f_G: one change around each node, from its gradients (Sec. 3.6), and repair (App. G.1)."""

from collections import Counter
from collections.abc import Mapping, Sequence

from selfwire.core.edits import AddEdge, Edit, RemoveAgent, RemoveEdge, RemoveNode, Rewiring
from selfwire.core.errors import ModelError
from selfwire.core.protocols import Toolbox
from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.core.text import excerpt
from selfwire.core.topology import Edge, Topology, cuts_sink, find_cycle, find_dead_nodes, find_reachable
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.values import FrozenModel, Id
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.forward import get_concepts
from selfwire.evolvers.hiva.gradients import Gradient, describe_team
from selfwire.evolvers.hiva.memory import EdgeRecord, HivaMemory
from selfwire.evolvers.hiva.schemas import TopologyDecision, offer_operations
from selfwire.evolvers.hiva.semantics import render_gradients
from selfwire.evolvers.prompted_model import DeclinedProposal, PromptedModel
from selfwire.evolvers.topology_ops import (
    add_parallel,
    add_serial,
    connect_to_sink,
    list_legal_operations,
    make_newcomer,
    rejoin_source,
    remove_dead,
    remove_successor,
)
from selfwire.evolvers.trajectory_text import describe_tools, gather_all, shorten

Traffic = Mapping[tuple[Id, Id], int]
"""R: how many runs of the batch used an edge."""


class StructureResult(FrozenModel):
    """Result of f_G; `declined` are decisions that became no rewiring, and rewirings that no longer fit."""

    workflow: Team
    applied: tuple[Rewiring, ...] = ()
    declined: tuple[DeclinedProposal, ...] = ()
    usage: Usage = Usage()


def count_traffic(trajectories: Sequence[Trajectory]) -> Traffic:
    """R over a batch; it starts at 0 in every iteration (Alg. 2)."""
    return Counter(edge for trajectory in trajectories for edge in dict.fromkeys(trajectory.edges))


async def decide_edits(
    team: Team,
    gradients: Sequence[Gradient],
    runs: Sequence[Trajectory],
    meta_model: PromptedModel,
    config: HivaConfig,
    *,
    toolbox: Toolbox,
    scope: Scope,
) -> StructureResult:
    """f_G: ask for one decision per node over all its gradients on topology (D11), then apply them (D12).

    Args:
        gradients: of the whole batch, in task order.
        runs: of the batch; R is counted in them, and their concepts say how parallelizable a task is, 0 without any.
        config: without `topology_evolution` nothing is asked (w/o TEV).
        toolbox: the run's tools, the team's own included, whose descriptions are shown.
    """
    if not config.topology_evolution:
        return StructureResult(workflow=team)
    backwards = [node for node in reversed(team.topology.order()) if node != team.topology.sink]
    concerns = list_concerns(gradients)
    asked = {node: mine for node in backwards if (mine := [g for g in concerns if g.node == node])}
    used = count_traffic(runs)
    known = {done.question.id: named.parallelizability for done in runs if (named := get_concepts(done))}
    parallel = {node: sum(known.get(g.task, 0.0) for g in mine) / len(mine) for node, mine in asked.items()}

    async def decide(node: Id, mine: Sequence[Gradient]) -> tuple[TopologyDecision | DeclinedProposal, Usage]:
        agent, targets = team.agent_at(node), team.topology.successors[node]
        offered = list_operations(team, node, parallel[node], config)
        prompts = {target: " ".join(team.agent_at(target).prompt.split()) for target in targets}
        reply, usage = await meta_model.try_ask(
            offer_operations(TopologyDecision, offered),
            "decision",
            scope=scope.at(phase="decide", node=node),
            agent=node,
            role=agent.prompt,
            gradients=render_gradients(mine, lambda gradient: gradient.overall.strip()),
            team=describe_team(team),
            tools=describe_tools(agent.tools, team, toolbox),
            successors="\n".join(f"{target}: {excerpt(prompts[target], 240)}" for target in targets),
            routing="\n".join(f"{target}: {used.get((node, target), 0)}" for target in targets),
            parallelizability=f"{parallel[node]:.2f}",
            operations="\n".join(offered),
        )
        if isinstance(reply, ModelError):
            return DeclinedProposal(by=node, operation="NO_CHANGE", reason=str(reply)), usage
        return reply, usage

    found = await gather_all(decide(node, mine) for node, mine in asked.items())
    decisions = dict(zip(asked, (decision for decision, _ in found), strict=True))
    changed, applied, declined = apply_decisions(team, decisions, parallel, config)
    return StructureResult(
        workflow=changed, applied=applied, declined=declined, usage=sum_usages(cost for _, cost in found)
    )


def list_concerns(gradients: Sequence[Gradient]) -> list[Gradient]:
    """Gradients that ask for a change of the team; what they say of a prompt or a tool has led to its own change."""
    return [g for g in gradients if g.concerns in ("topology", "both") and g.overall.strip()]


def list_parallel_tasks(team: Team, gradients: Sequence[Gradient], config: HivaConfig) -> frozenset[str]:
    """Tasks whose parallelizability f_G needs: those of a node with feedback on the topology and room in parallel."""
    if not config.topology_evolution:
        return frozenset()
    asking = list_concerns(gradients)
    return frozenset(g.task for g in asking if "ADD_PARALLEL" in list_legal_operations(team, g.node))


def list_operations(team: Team, node: Id, parallel: float, config: HivaConfig) -> tuple[str, ...]:
    """The operations that a node may choose from; ADD_PARALLEL only from the threshold on."""
    legal = list_legal_operations(team, node)
    return (*(o for o in legal if o != "ADD_PARALLEL" or parallel >= config.parallel_threshold), "NO_CHANGE")


def apply_decisions(
    team: Team,
    decisions: Mapping[Id, TopologyDecision | DeclinedProposal],
    parallel: Mapping[Id, float],
    config: HivaConfig,
) -> tuple[Team, tuple[Rewiring, ...], tuple[DeclinedProposal, ...]]:
    """Turn decisions into rewirings and apply them one by one, each to the result of those before."""
    now, applied, declined = team, list[Rewiring](), list[DeclinedProposal]()
    for node, decision in decisions.items():
        built = to_rewiring(now, node, decision, list_operations(now, node, parallel.get(node, 0.0), config), config)
        if isinstance(built, DeclinedProposal):
            declined.append(built)
        elif built is not None:
            now, refused = now.apply_legal([built])
            applied += [built] if not refused else []
            declined += map(DeclinedProposal.of, refused)
    return (now.with_lineage(team, applied) if applied else team), tuple(applied), tuple(declined)


def to_rewiring(
    team: Team,
    node: Id,
    decision: TopologyDecision | DeclinedProposal,
    legal: Sequence[str],
    config: HivaConfig,
) -> Rewiring | DeclinedProposal | None:
    """A decision as a rewiring; None for NO_CHANGE. Ids and descriptions from a model are checked."""
    if isinstance(decision, DeclinedProposal):
        return decision
    if decision.operation == "NO_CHANGE":
        return None
    if objection := _find_objection(team, node, decision, legal, config):
        return DeclinedProposal(by=node, operation=decision.operation, reason=objection)
    why = shorten(decision.reason.strip() or "the gradients ask for it", 300)
    if decision.operation == "REMOVE_SUCCESSOR":
        return remove_successor(node, decision.successor, why=why)
    if decision.operation == "CONNECT_TO_AGGREGATOR":
        return connect_to_sink(team, node, why=why)
    add = add_parallel if decision.operation == "ADD_PARALLEL" else add_serial
    return add(team, node, make_newcomer(team, node, decision.description, decision.name), why=why)


def _find_objection(team: Team, node: Id, decision: TopologyDecision, legal: Sequence[str], config: HivaConfig) -> str:
    if decision.operation not in legal:
        return f"{decision.operation} is not offered at {node!r}; offered are {', '.join(legal)}"
    if decision.operation.startswith("ADD_"):
        length = len(decision.description.strip())
        if not length:
            return "the newcomer has no description"
        return f"the description has {length} characters, too many" if length > config.prompt_length else ""
    targets = team.topology.successors[node]
    if decision.operation == "REMOVE_SUCCESSOR" and decision.successor not in targets:
        return f"{decision.successor!r} is no successor of {node!r}; successors are {', '.join(targets)}"
    return ""


class RepairResult(FrozenModel):
    """A repaired team and the rewirings of the repair; its lineage lists earlier rewirings and these."""

    workflow: Team
    rewirings: tuple[Rewiring, ...] = ()


def repair_topology(team: Team, config: HivaConfig = HivaConfig()) -> RepairResult:
    """Revert what closes a cycle, prune dead nodes and failing edges, restore source -> sink; idempotent.

    The edits of the team's lineage say which edges are newest. In "w/o TEV" nothing changes.
    """
    if not config.topology_evolution:
        return RepairResult(workflow=team)
    learned = HivaMemory.of(team)
    now, done = team, list[Rewiring]()
    while (step := _next_step(now, team, learned, config)) is not None:
        now = now.apply(step)
        done.append(step)
    if not done:
        return RepairResult(workflow=team)
    history = (*team.lineage.rewirings, *done)
    lineage = team.lineage.replace(rewirings=history)
    return RepairResult(workflow=now.replace(lineage=lineage), rewirings=tuple(done))


def _next_step(now: Team, given: Team, learned: HivaMemory, config: HivaConfig) -> Rewiring | None:
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


def _revert_edge(topology: Topology, given: Team) -> Rewiring:
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


def propose_least_helpful_removal(team: Team, worth: Mapping[Id, float]) -> Rewiring | None:
    """The rewiring that removes the inner node whose agent is worth least; None if none can go.

    Of agents of equal worth, and of those that were never left out, whose worth counts 0, the one of the lowest belief
    goes. Neighbours that only this node connected are connected directly.

    Args:
        worth: of the agents that were left out: the score that they add.
    """
    topology, learned = team.topology, HivaMemory.of(team)
    inner = [node for node in topology.nodes if node.id not in (topology.entry, topology.sink)]
    for node in sorted(inner, key=lambda n: (worth.get(n.agent, 0.0), learned.belief(n.agent).mean, n.id)):
        known = f"worth {worth[node.agent]:+.2f}, " if node.agent in worth else ""
        rewiring = _contract(team, node.id, f"{known}belief {learned.belief(node.agent).mean:.2f}")
        if not team.apply_legal([rewiring])[1]:
            return rewiring
    return None


def _contract(team: Team, node: str, known: str) -> Rewiring:
    topology, agent = team.topology, team.topology.agents[node]
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
    return Rewiring(*edits, why=f"{node} helps least: {known}", operation="PRUNE", by="gate")


def is_failing(record: EdgeRecord, learned: HivaMemory, config: HivaConfig) -> bool:
    """Whether an edge's smoothed success rate is below the threshold and the team's own since its first run (D10)."""
    return record.runs >= config.prune_after and record.rate < min(config.prune_below, learned.get_rate_beside(record))


def _make_repair(why: str, *edits: Edit) -> Rewiring:
    return Rewiring(*edits, why=why, operation="REPAIR", by="repair")
