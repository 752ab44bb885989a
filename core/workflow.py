"""Workflows: agents, a topology and what the method has learned. They evolve, and are saved and versioned."""

from collections.abc import Iterable, Mapping
from functools import cached_property, singledispatch
from typing import Any, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from selfwire.core.agent import MEMORY_NOTES, Agent
from selfwire.core.edits import (
    AddAgent,
    AddEdge,
    AddNode,
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
        method: name of its method.
        agents: the pool, sorted by id; not every agent needs a node.
        topology: nodes and edges.
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
                agents, topology = _apply_edit(edit, agents, topology)
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


_Parts = tuple[tuple[Agent, ...], Topology]


@singledispatch
def _apply_edit(edit: Any, agents: tuple[Agent, ...], topology: Topology) -> _Parts:
    raise TypeError(f"{edit!r} is not an edit")


@_apply_edit.register
def _(edit: AddAgent, agents: tuple[Agent, ...], topology: Topology) -> _Parts:
    _refuse_taken(edit.agent.id, agents)
    return (*agents, edit.agent), topology


@_apply_edit.register
def _(edit: RemoveAgent, agents: tuple[Agent, ...], topology: Topology) -> _Parts:
    agent = _get_agent(edit.agent, agents)
    nodes = [node.id for node in topology.nodes if node.agent == agent.id]
    if nodes:
        raise ValueError(f"agent {agent.id!r} is used by node {', '.join(nodes)}; remove the nodes first")
    return tuple(a for a in agents if a.id != agent.id), topology


@_apply_edit.register
def _(edit: ReplaceAgent, agents: tuple[Agent, ...], topology: Topology) -> _Parts:
    old = _get_agent(edit.agent, agents)
    kept = tuple(a for a in agents if a.id != old.id)
    _refuse_taken(edit.replacement.id, kept)
    nodes = tuple(n.replace(agent=edit.replacement.id) if n.agent == old.id else n for n in topology.nodes)
    return (*kept, edit.replacement), topology.replace(nodes=nodes)


@_apply_edit.register
def _(edit: AddNode, agents: tuple[Agent, ...], topology: Topology) -> _Parts:
    _get_agent(edit.agent, agents)
    return agents, topology.replace(nodes=(*topology.nodes, Node(id=edit.node, agent=edit.agent)))


@_apply_edit.register
def _(edit: RemoveNode, agents: tuple[Agent, ...], topology: Topology) -> _Parts:
    _refuse_unknown_node(edit.node, topology)
    for name, place in (("entry", topology.entry), ("sink", topology.sink)):
        if edit.node == place:
            raise ValueError(f"node {place!r} is the {name}, which cannot be removed; replace its agent instead")
    nodes = tuple(node for node in topology.nodes if node.id != edit.node)
    edges = tuple(edge for edge in topology.edges if edit.node not in (edge.source, edge.target))
    return agents, topology.replace(nodes=nodes, edges=edges)


@_apply_edit.register
def _(edit: AddEdge, agents: tuple[Agent, ...], topology: Topology) -> _Parts:
    return agents, topology.replace(edges=(*topology.edges, Edge(source=edit.source, target=edit.target)))


@_apply_edit.register
def _(edit: RemoveEdge, agents: tuple[Agent, ...], topology: Topology) -> _Parts:
    edge = Edge(source=edit.source, target=edit.target)
    if edge not in topology.edges:
        legal = topology.successors.get(edit.source)
        if legal is None:
            _refuse_unknown_node(edit.source, topology)
        raise ValueError(f"there is no edge {edge}; {edit.source!r} leads to {', '.join(legal or ()) or 'nothing'}")
    return agents, topology.replace(edges=tuple(e for e in topology.edges if e != edge))


@_apply_edit.register
def _(edit: RewritePrompt, agents: tuple[Agent, ...], topology: Topology) -> _Parts:
    if not edit.prompt.strip():
        raise ValueError("the new prompt is blank; give the agent a prompt")
    return _replace_agent(_get_agent(edit.agent, agents).replace(prompt=edit.prompt), agents), topology


@_apply_edit.register
def _(edit: RewriteTool, agents: tuple[Agent, ...], topology: Topology) -> _Parts:
    agent = _get_agent(edit.agent, agents)
    if edit.old is not None and edit.old not in agent.tools:
        raise ValueError(f"agent {agent.id!r} holds no tool {edit.old!r}; it holds {', '.join(agent.tools) or 'none'}")
    if edit.new is not None and edit.new != edit.old and edit.new in agent.tools:
        raise ValueError(f"agent {agent.id!r} holds tool {edit.new!r} already")
    if edit.old is None and edit.new is None:
        raise ValueError("neither an old nor a new tool is named; name at least one")
    kept = [edit.new if tool == edit.old else tool for tool in agent.tools]
    tools = tuple(tool for tool in (kept if edit.old else [*kept, edit.new]) if tool is not None)
    return _replace_agent(agent.replace(tools=tools), agents), topology


@_apply_edit.register
def _(edit: Remember, agents: tuple[Agent, ...], topology: Topology) -> _Parts:
    if not edit.note.strip():
        raise ValueError("the note is blank; write what the agent should remember")
    agent = _get_agent(edit.agent, agents)
    return _replace_agent(agent.replace(memory=(*agent.memory, edit.note)[-MEMORY_NOTES:]), agents), topology


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
