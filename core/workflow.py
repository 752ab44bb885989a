"""Workflows: agents, a topology and what the method has learned. They evolve, and are saved and versioned."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from selfwire.core.agent import Agent
from selfwire.core.apply_edits import edit_agents, edit_tools, edit_topology
from selfwire.core.edits import RefusedRewiring, Rewiring, format_edit
from selfwire.core.errors import EditError, format_faults
from selfwire.core.topology import Topology
from selfwire.core.values import FrozenJson, FrozenMap, FrozenModel, fingerprint
from selfwire.core.workflow_tool import TOOLS, WorkflowTool


class Lineage(FrozenModel):
    """The origin of a workflow.

    Args:
        parent: fingerprint of the workflow before the rewirings; None for an initial one.
        rewirings: changes to the parent, in the order of application.
    """

    parent: str | None = None
    rewirings: tuple[Rewiring, ...] = ()


class Workflow(FrozenModel):
    """Agents, topology, tools, memory and lineage; a frozen value.

    Args:
        agents: the pool, sorted by id; not every agent needs a node.
        tools: its own tools, sorted by name, beside those that a run lends.
        memory: what the method has learned, as JSON by name (beliefs, synergy, weights, ...).
        lineage: parent and rewirings; not part of the fingerprint.

    Raises:
        ValueError: duplicate agents or tools, or a node whose agent does not exist.
    """

    method: str
    agents: tuple[Agent, ...]
    topology: Topology
    tools: tuple[WorkflowTool, ...] = Field(default=(), max_length=TOOLS)
    memory: FrozenJson = Field(default_factory=FrozenMap)
    lineage: Lineage = Lineage()

    @field_validator("agents")
    @classmethod
    def _sort_agents(cls, agents: tuple[Agent, ...]) -> tuple[Agent, ...]:
        return tuple(sorted(agents, key=lambda agent: agent.id))

    @field_validator("tools")
    @classmethod
    def _sort_tools(cls, tools: tuple[WorkflowTool, ...]) -> tuple[WorkflowTool, ...]:
        return tuple(sorted(tools, key=lambda tool: tool.name))

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not isinstance(self.memory, Mapping):
            raise ValueError(f"memory must be a JSON object by name, not {type(self.memory).__name__}")
        if len(self.agents_by_id) != len(self.agents):
            ids = [agent.id for agent in self.agents]
            raise ValueError(f"agent {next(i for i in ids if ids.count(i) > 1)!r} appears twice")
        if len(self.tools_by_name) != len(self.tools):
            names = [tool.name for tool in self.tools]
            raise ValueError(f"tool {next(name for name in names if names.count(name) > 1)!r} appears twice")
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
    def tools_by_name(self) -> dict[str, WorkflowTool]:
        """Its own tools by name."""
        return {tool.name: tool for tool in self.tools}

    @cached_property
    def fingerprint(self) -> str:
        """16 hexadecimal digits over method, agents, topology, tools and memory; equal in every process.

        Records of tools are left out, as time is no fact of a team, and so are tools where there are none.
        """
        tools: Any = {"__all__": {"record"}} if self.tools else True
        return fingerprint(self.model_dump(mode="json", exclude={"lineage": True, "tools": tools}))

    def agent_at(self, node: str) -> Agent:
        """The agent of a node."""
        return self.agents_by_id[self.topology.agents[node]]

    def apply(self, rewiring: Rewiring) -> "Workflow":
        """Return the workflow after all edits of the rewiring.

        Raises:
            EditError: an edit is not legal; the message names it and the legal choices. Nothing is applied.
        """
        agents, topology, tools = self.agents, self.topology, self.tools
        for edit in rewiring.edits:
            try:
                tools = edit_tools(edit, tools, agents, rewiring)
                agents, topology = edit_agents(edit, agents, topology), edit_topology(edit, agents, topology)
            except ValidationError as error:
                raise EditError(f"{format_edit(edit)}: {format_faults(error)}") from None
            except ValueError as error:
                raise EditError(f"{format_edit(edit)}: {error}") from None
        return self.replace(
            agents=agents,
            topology=topology,
            tools=tools,
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
