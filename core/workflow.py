"""Workflows: agents, a topology and what the method has learned. They evolve, and are saved and versioned."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from selfwire.core.agent import MEMORY_NOTES, Agent
from selfwire.core.edits import (
    AddAgent,
    AddEdge,
    AddNode,
    Edit,
    RefusedRewiring,
    Remember,
    RemoveAgent,
    RemoveEdge,
    RemoveNode,
    ReplaceAgent,
    Rewiring,
    RewritePrompt,
    RewriteTool,
    format_edit,
)
from selfwire.core.errors import EditError
from selfwire.core.topology import Edge, Node, Topology
from selfwire.core.values import FrozenJson, FrozenMap, FrozenModel, fingerprint


class Lineage(FrozenModel):
    """The origin of a workflow.

    Args:
        parent: fingerprint of the workflow before the rewirings; None for an initial one.
        rewirings: changes to the parent, in the order of application.
    """

    parent: str | None = None
    rewirings: tuple[Rewiring, ...] = ()


class Workflow(FrozenModel):
    """Agents, topology, memory and lineage; a frozen value.

    Args:
        agents: the pool, sorted by id; not every agent needs a node.
        memory: what the method has learned, as JSON by name (beliefs, synergy, weights, ...).
        lineage: parent and rewirings; not part of the fingerprint.

    Raises:
        ValueError: duplicate agents, or a node whose agent does not exist.
    """

    method: str
    agents: tuple[Agent, ...]
    topology: Topology
    memory: FrozenJson = Field(default_factory=FrozenMap)
    lineage: Lineage = Lineage()

    @field_validator("agents")
    @classmethod
    def _sort_agents(cls, agents: tuple[Agent, ...]) -> tuple[Agent, ...]:
        return tuple(sorted(agents, key=lambda agent: agent.id))

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not isinstance(self.memory, Mapping):
            raise ValueError(f"memory must be a JSON object by name, not {type(self.memory).__name__}")
        if len(self.agents_by_id) != len(self.agents):
            ids = [agent.id for agent in self.agents]
            raise ValueError(f"agent {next(i for i in ids if ids.count(i) > 1)!r} appears twice")
        for node in self.topology.nodes:
            if node.agent not in self.agents_by_id:
                there = ", ".join(self.agents_by_id) or "none"
                raise ValueError(f"node {node.id!r} needs agent {node.agent!r}; agents are {there}")
        return self

    @cached_property
    def agents_by_id(self) -> dict[str, Agent]:
        """Agents by id."""
        return {agent.id: agent for agent in self.agents}

    @cached_property
    def fingerprint(self) -> str:
        """16 hexadecimal digits over method, agents, topology and memory; equal in every process."""
        return fingerprint(self.model_dump(mode="json", exclude={"lineage"}))

    def agent_at(self, node: str) -> Agent:
        """The agent of a node."""
        return self.agents_by_id[self.topology.agents[node]]

    def apply(self, rewiring: Rewiring) -> "Workflow":
        """Return the workflow after all edits of the rewiring.

        Raises:
            EditError: an edit is not legal; the message names it and the legal choices. Nothing is applied.
        """
        agents, topology = self.agents, self.topology
        for edit in rewiring.edits:
            try:
                agents, topology = _edit_agents(edit, agents, topology), _edit_topology(edit, agents, topology)
            except ValidationError as error:
                raise EditError(f"{format_edit(edit)}: {'; '.join(e['msg'] for e in error.errors())}") from None
            except ValueError as error:
                raise EditError(f"{format_edit(edit)}: {error}") from None
        return self.replace(
            agents=agents,
            topology=topology,
            lineage=Lineage(parent=self.fingerprint, rewirings=(rewiring,)),
        )

    def apply_legal(self, rewirings: Iterable[Rewiring]) -> tuple["Workflow", tuple[RefusedRewiring, ...]]:
        """Apply rewirings one by one, leaving out illegal ones.

        Returns:
            The workflow, whose lineage has this one as parent and lists the applied rewirings; the refused rewirings.
        """
        now, applied, refused = self, list[Rewiring](), list[RefusedRewiring]()
        for rewiring in rewirings:
            try:
                now = now.apply(rewiring)
            except EditError as error:
                refused.append(RefusedRewiring(rewiring=rewiring, reason=str(error)))
            else:
                applied.append(rewiring)
        if not applied:
            return self, tuple(refused)
        return now.replace(lineage=Lineage(parent=self.fingerprint, rewirings=tuple(applied))), tuple(refused)

    def with_memory(self, **memory: Any) -> "Workflow":
        """Return the workflow with some entries of its memory replaced; the lineage stays."""
        return self.replace(memory={**self.memory, **memory})

    def with_lineage(self, parent: "Workflow", rewirings: Iterable[Rewiring]) -> "Workflow":
        """Return this workflow with a lineage: a parent and the rewirings since then."""
        return self.replace(lineage=Lineage(parent=parent.fingerprint, rewirings=tuple(rewirings)))


def _edit_agents(edit: Edit, agents: tuple[Agent, ...], topology: Topology) -> tuple[Agent, ...]:
    match edit:
        case AddAgent(agent):
            _refuse_taken(agent.id, agents)
            return (*agents, agent)
        case RemoveAgent(name):
            _get_agent(name, agents)
            if nodes := [node.id for node in topology.nodes if node.agent == name]:
                raise ValueError(f"agent {name!r} is used by node {', '.join(nodes)}; remove the nodes first")
            return tuple(agent for agent in agents if agent.id != name)
        case ReplaceAgent(name, replacement):
            _get_agent(name, agents)
            kept = tuple(agent for agent in agents if agent.id != name)
            _refuse_taken(replacement.id, kept)
            return (*kept, replacement)
        case RewritePrompt(name, prompt):
            if not prompt.strip():
                raise ValueError("the new prompt is blank; give the agent a prompt")
            return _replace_agent(_get_agent(name, agents).replace(prompt=prompt), agents)
        case RewriteTool(name, old, new):
            return _replace_agent(_swap_tool(_get_agent(name, agents), old, new), agents)
        case Remember(name, note):
            if not note.strip():
                raise ValueError("the note is blank; write what the agent should remember")
            agent = _get_agent(name, agents)
            return _replace_agent(agent.replace(memory=(*agent.memory, note)[-MEMORY_NOTES:]), agents)
        case _:
            return agents


def _edit_topology(edit: Edit, agents: tuple[Agent, ...], topology: Topology) -> Topology:
    match edit:
        case ReplaceAgent(name, new):
            return topology.replace(
                nodes=tuple(n.replace(agent=new.id) if n.agent == name else n for n in topology.nodes)
            )
        case AddNode(node, agent):
            _get_agent(agent, agents)
            return topology.replace(nodes=(*topology.nodes, Node(id=node, agent=agent)))
        case RemoveNode(node):
            _refuse_unknown_node(node, topology)
            for end, place in (("entry", topology.entry), ("sink", topology.sink)):
                if node == place:
                    raise ValueError(f"node {node!r} is the {end}, which cannot be removed; replace its agent instead")
            nodes = tuple(n for n in topology.nodes if n.id != node)
            edges = tuple(edge for edge in topology.edges if node not in (edge.source, edge.target))
            return topology.replace(nodes=nodes, edges=edges)
        case AddEdge(source, target):
            return topology.replace(edges=(*topology.edges, Edge(source=source, target=target)))
        case RemoveEdge(source, target):
            edge = Edge(source=source, target=target)
            if edge not in topology.edges:
                _refuse_unknown_node(source, topology)
                legal = ", ".join(topology.successors[source]) or "nothing"
                raise ValueError(f"there is no edge {edge}; {source!r} leads to {legal}")
            return topology.replace(edges=tuple(e for e in topology.edges if e != edge))
        case _:
            return topology


def _swap_tool(agent: Agent, old: str | None, new: str | None) -> Agent:
    if old is not None and old not in agent.tools:
        raise ValueError(f"agent {agent.id!r} holds no tool {old!r}; it holds {', '.join(agent.tools) or 'none'}")
    if new is not None and new != old and new in agent.tools:
        raise ValueError(f"agent {agent.id!r} holds tool {new!r} already")
    if old is None and new is None:
        raise ValueError("neither an old nor a new tool is named; name at least one")
    kept = [new if tool == old else tool for tool in agent.tools]
    return agent.replace(tools=tuple(tool for tool in (kept if old else [*kept, new]) if tool is not None))


def _replace_agent(agent: Agent, agents: tuple[Agent, ...]) -> tuple[Agent, ...]:
    return tuple(agent if a.id == agent.id else a for a in agents)


def _get_agent(name: str, agents: tuple[Agent, ...]) -> Agent:
    for agent in agents:
        if agent.id == name:
            return agent
    raise ValueError(f"there is no agent {name!r}; agents are {', '.join(a.id for a in agents)}")


def _refuse_taken(name: str, agents: tuple[Agent, ...]) -> None:
    if any(agent.id == name for agent in agents):
        raise ValueError(f"agent {name!r} exists already; choose another id")


def _refuse_unknown_node(name: str, topology: Topology) -> None:
    if name not in topology.agents:
        raise ValueError(f"there is no node {name!r}; nodes are {', '.join(topology.agents)}")
