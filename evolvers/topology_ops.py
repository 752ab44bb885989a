"""Operations around a node of a topology: add, connect, remove."""

import re
from collections.abc import Collection

from selfwire.core.agent import Agent
from selfwire.core.edits import AddAgent, AddEdge, AddNode, Edit, RemoveAgent, RemoveEdge, RemoveNode, Rewiring
from selfwire.core.team import Team
from selfwire.core.topology import Topology, find_dead_nodes
from selfwire.core.values import Id

ROLE_LENGTH = 200
ID_WORDS = 4
_FILLERS = frozenset("you are is an a the of to and that who which your role agent please will member team".split())


def make_newcomer(team: Team, parent: Id, description: str, name: str = "") -> Agent:
    """An agent as described, with the tools of the agent at `parent` and an id made of its name.

    Args:
        name: words for its job, such as "date checker"; without any the id is made of the description.
    """
    text = description.strip()
    return Agent(
        id=make_fresh_id(team, name if re.search("[A-Za-z]", name) else text),
        role=" ".join(text.split())[:ROLE_LENGTH].strip(),
        prompt=text,
        tools=team.agent_at(parent).tools,
    )


def make_fresh_id(team: Team, text: str) -> Id:
    """An id of a text's first meaningful words, with a number where the id is taken."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    meaningful = [word[:14] for word in words if word not in _FILLERS][:ID_WORDS]
    return find_free_name("-".join(meaningful) or "agent", team.agents_by_id.keys() | team.topology.agents.keys())


def find_free_name(name: str, taken: Collection[str]) -> str:
    """The name itself if it is free, else the name cut to the length of an id, with a number."""
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name[:58]}-{number}"
    return free


def add_parallel(team: Team, node: Id, agent: Agent, *, why: str) -> Rewiring:
    """ADD_PARALLEL: node -> newcomer -> sink, beside the node's other edges."""
    edits = [*_join(agent), AddEdge(node, agent.id), AddEdge(agent.id, team.topology.sink)]
    return Rewiring(*edits, why=why, operation="ADD_PARALLEL", by=node)


def add_serial(team: Team, node: Id, agent: Agent, *, why: str) -> Rewiring:
    """ADD_SERIAL: node -> newcomer -> each former successor of the node, whose direct edges go."""
    former = team.topology.successors[node]
    edits = [
        *(RemoveEdge(node, target) for target in former),
        *_join(agent),
        AddEdge(node, agent.id),
        *(AddEdge(agent.id, target) for target in former),
    ]
    return Rewiring(*edits, why=why, operation="ADD_SERIAL", by=node)


def remove_successor(node: Id, successor: Id, *, why: str) -> Rewiring:
    """REMOVE_SUCCESSOR: the edge node -> successor goes."""
    return Rewiring(RemoveEdge(node, successor), why=why, operation="REMOVE_SUCCESSOR", by=node)


def connect_to_sink(team: Team, node: Id, *, why: str) -> Rewiring:
    """CONNECT_TO_AGGREGATOR: an edge node -> sink beside the others."""
    return Rewiring(AddEdge(node, team.topology.sink), why=why, operation="CONNECT_TO_AGGREGATOR", by=node)


def remove_dead(team: Team) -> tuple[Edit, ...]:
    """Edits that remove dead nodes, and the agents that lose their last node with them."""
    dead = find_dead_nodes(team.topology)
    used = {node.agent for node in team.topology.nodes if node.id not in dead}
    orphans = sorted({team.topology.agents[node] for node in dead} - used)
    return (*(RemoveNode(node) for node in dead), *(RemoveAgent(agent) for agent in orphans))


def rejoin_source(topology: Topology) -> tuple[Edit, ...]:
    """The edit that joins a source without successors to the sink; none where it has successors."""
    if topology.entry == topology.sink or topology.successors[topology.entry]:
        return ()
    return (AddEdge(topology.entry, topology.sink),)


def list_legal_operations(team: Team, node: Id) -> tuple[str, ...]:
    """The operations that are legal at a node within the topology's caps; none for the sink."""
    topology = team.topology
    if node == topology.sink:
        return ()
    targets = topology.successors[node]
    room = len(targets) < topology.caps.successors
    space = len(topology.nodes) < topology.caps.nodes
    legal = {
        "ADD_PARALLEL": space and room,
        "ADD_SERIAL": space and bool(targets),
        "REMOVE_SUCCESSOR": any(target != topology.sink for target in targets) or len(targets) > 1,
        "CONNECT_TO_AGGREGATOR": room and topology.sink not in targets,
    }
    return tuple(name for name, is_legal in legal.items() if is_legal)


def _join(agent: Agent) -> tuple[Edit, ...]:
    return (AddAgent(agent), AddNode(agent.id, agent.id))
