"""Topology mutation, for groups in which every score is 0 (Sec. 3.5, Alg. 6)."""

from collections.abc import Collection, Mapping, Sequence

from pydantic import Field

from selfwire.core.agent import Agent
from selfwire.core.edits import AddAgent, RefusedRewiring, Rewiring
from selfwire.core.errors import ModelError
from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.core.topology import Edge, Node, Topology
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenModel, is_id
from selfwire.evolvers.hera.failures import Blame
from selfwire.evolvers.hera.groups import Group
from selfwire.evolvers.hera.initial_team import list_able_agents
from selfwire.evolvers.hera.reflection import get_topology, render_plan
from selfwire.evolvers.hera.rules import to_plain_line
from selfwire.evolvers.hera.schemas import Mutation
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.evolvers.topology_ops import find_free_name
from selfwire.evolvers.trajectory_text import (
    Described,
    describe_tools,
    find_name,
    format_trace,
    get_score,
    render_agents,
    render_feedback,
    render_topology,
)

MEMORY = "mutated"  # names the questions that had their second group, in a team's memory
REMEMBERED = 500
JOIN = "MUTATE"
"""The operation that takes a newcomer into the pool."""


class MutatedTopology(FrozenModel):
    """A candidate of a mutation; the `newcomer` of an insertion joins the pool only after it has helped."""

    kind: str
    topology: Topology
    newcomer: Agent | None = None
    why: str = ""


async def propose_mutations(
    group: Sequence[Trajectory],
    blame: Blame,
    team: Team,
    orchestrator: PromptedModel,
    *,
    tools: Mapping[str, Described],
    pool: int,
    scope: Scope,
) -> tuple[tuple[MutatedTopology, ...], Usage]:
    """Propose two candidates: the failed agent replaced by an alternative, and a new agent inserted after it.

    Without a valid reply a seeded draw selects, and no agent is created.

    Args:
        group: the trajectories of a group that failed, the best first; the topology of the first one is mutated.
        tools: those that a new agent may hold.
        pool: most agents.
    """
    best, topology = group[0], get_topology(group[0])
    if topology is None:
        return (), Usage()
    ends = topology.agents[topology.sink] == blame.agent
    others = [agent for agent in list_able_agents(team.agents) if agent.id != blame.agent]
    if ends:
        others = [agent for agent in others if agent.kind == "aggregator"] or others
    reply, usage = await orchestrator.ask_or(
        None,
        Mutation,
        "mutate",
        scope=scope.at(node="mutate"),
        catch=ModelError,
        task=best.question.input,
        plan=render_topology(topology),
        agent=render_agents([team.agents_by_id[blame.agent]]),
        cause=blame.cause,
        agents=render_agents(others),
        trace=format_trace(best),
        feedback=render_feedback(best),
        tried="\n".join(dict.fromkeys(render_plan(trajectory) for trajectory in group)),
        tools=describe_tools(list(tools), team, tools),
    )
    found = []
    alternative = find_name(reply.alternative, [agent.id for agent in others]) if reply else None
    if not alternative and others:
        alternative = others[int(scope.at(node="mutate").random("alternative").integers(len(others)))].id
    if alternative:
        why = f"{alternative} in the place of {blame.agent}"
        replaced = replace_agent(topology, blame.agent, alternative)
        found.append(MutatedTopology(kind="replace", topology=replaced, why=why))
    newcomer = _create_agent(reply, team, tools) if reply and len(team.agents) < pool else None
    if newcomer is not None and ends:
        newcomer = newcomer.replace(kind="aggregator")  # it gives the answer, here and in plans that follow this run
    if newcomer is not None:
        inside = insert_agent(topology, blame.agent, newcomer.id)
        why = f"{newcomer.id} after {blame.agent}: {newcomer.role}"
        found.append(MutatedTopology(kind="insert", topology=inside, newcomer=newcomer, why=why))
    return tuple(found), usage


def replace_agent(topology: Topology, agent: str, alternative: str) -> Topology:
    """The topology with an agent replaced at all its nodes, which are renamed."""
    taken = set(topology.agents)
    names: dict[str, str] = {}
    for node, own in topology.agents.items():
        names[node] = find_free_name(alternative, taken) if own == agent else node
        taken.add(names[node])
    return topology.replace(
        nodes=tuple(
            Node(id=names[node.id], agent=alternative if node.agent == agent else node.agent) for node in topology.nodes
        ),
        edges=tuple(Edge(source=names[edge.source], target=names[edge.target]) for edge in topology.edges),
        entry=names[topology.entry],
        sink=names[topology.sink],
    )


def insert_agent(topology: Topology, agent: str, newcomer: str) -> Topology:
    """The topology with a new agent after an agent's last node: it reads that node and writes to its successors."""
    after = [node for node in topology.order() if topology.agents[node] == agent][-1]
    name = find_free_name(newcomer, set(topology.agents))
    moved = tuple(edge.replace(source=name) if edge.source == after else edge for edge in topology.edges)
    return topology.replace(
        nodes=(*topology.nodes, Node(id=name, agent=newcomer)),
        edges=(*moved, Edge(source=after, target=name)),
        sink=name if topology.sink == after else topology.sink,
    )


class TriedMutation(FrozenModel):
    """A mutation that was tried, and the index of its trajectory in the batch."""

    place: int = Field(ge=0)
    candidate: MutatedTopology


def find_hopeless(groups: Sequence[Group], mutated: Collection[str]) -> list[Group]:
    """Find the groups that scored nothing and were never mutated."""
    return [group for group in groups if group.outcome == "zero" and group.question not in mutated]


def join_pool(
    team: Team, tried: Sequence[TriedMutation], done: Sequence[Trajectory], success_at: float
) -> tuple[Team, list[Rewiring], Sequence[RefusedRewiring]]:
    """Take the newcomers whose trajectories succeeded into the pool (D8).

    Returns:
        The pool, and the rewirings that were applied and refused.
    """
    wanted = list[Rewiring]()
    for candidate, score in ((each.candidate, get_score(done[each.place]) or 0.0) for each in tried):
        if candidate.newcomer is not None and score >= success_at:
            why = f"{candidate.why}; a group that had scored nothing came to {score:.2f} with it"
            wanted.append(Rewiring(AddAgent(candidate.newcomer), why=why, operation=JOIN, by="mutate_topology"))
    return apply_wanted(team, wanted)


def apply_wanted(team: Team, wanted: Sequence[Rewiring]) -> tuple[Team, list[Rewiring], Sequence[RefusedRewiring]]:
    """Apply the legal ones of the wanted rewirings; returns the team, the applied and the refused ones."""
    now, refused = team.apply_legal(wanted)
    return now, [] if now is team else [*now.lineage.rewirings], refused


def get_mutated(team: Team) -> tuple[str, ...]:
    """Questions that had their second group.

    Raises:
        ValueError: the team's memory holds something else.
    """
    kept = team.memory.get(MEMORY, ())
    if not isinstance(kept, tuple) or not all(isinstance(question, str) for question in kept):
        raise ValueError(f"{MEMORY}: a list of texts belongs here, not {kept!r}")
    return kept


def with_mutated(team: Team, questions: Sequence[str]) -> Team:
    """The team that remembers further questions; the oldest are dropped where there are too many."""
    if not questions:
        return team
    known = dict.fromkeys((*get_mutated(team), *questions))
    return team.with_memory(**{MEMORY: list(known)[-REMEMBERED:]})


def _create_agent(reply: Mutation, team: Team, tools: Collection[str]) -> Agent | None:
    base = "_".join("".join(c if c.isalnum() and c.isascii() else " " for c in reply.name.lower()).split())[:40]
    name = find_free_name(base, set(team.agents_by_id)) if base else ""
    if not is_id(name) or not reply.instruction.strip():
        return None
    held = tuple(dict.fromkeys(tool for said in reply.tools if (tool := find_name(said, tools))))
    return Agent(id=name, role=to_plain_line(reply.role), prompt=reply.instruction.strip()[:4000], tools=held)
