"""A team: agents, topology, own tools and what was learned, as one frozen value."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from selfwire.core.agent import Agent
from selfwire.core.edits import RefusedRewiring, Rewiring, edit_agents, edit_tools, edit_topology, format_edit
from selfwire.core.errors import ConfigError, EditError
from selfwire.core.own_tool import TOOLS, OwnTool
from selfwire.core.plugins import is_graph
from selfwire.core.topology import Difference, Topology, TopologyDiff
from selfwire.core.values import FrozenJson, FrozenMap, FrozenModel, fingerprint, sort_by


class Lineage(FrozenModel):
    """The origin of a team.

    Args:
        parent: fingerprint of the team before the rewirings; None for an initial one.
        rewirings: changes to the parent, in the order of application.
    """

    parent: str | None = None
    rewirings: tuple[Rewiring, ...] = ()


class AgentChange(FrozenModel):
    """A changed field of an agent, before and after, as JSON."""

    agent: str
    field: str
    before: FrozenJson
    after: FrozenJson


class ToolChange(FrozenModel):
    """A changed field of a team's own tool, before and after, as JSON."""

    tool: str
    field: str
    before: FrozenJson
    after: FrozenJson


class TeamDiff(Difference):
    """Differences between a team `before` and one `after`.

    Args:
        topology: added and removed nodes and edges.
        entry, sink: (before, after) where they differ; None where they do not.
        agents: changed fields of agents that both have, such as prompt, tools, memory.
        added_tools, removed_tools: names of the team's own tools.
        tools: changed fields of own tools that both have, without their records.
        memory: names of the method's memory entries that differ, sorted.
        method: (before, after) if the methods differ.
    """

    topology: TopologyDiff = TopologyDiff()
    entry: tuple[str, str] | None = None
    sink: tuple[str, str] | None = None
    added_agents: tuple[str, ...] = ()
    removed_agents: tuple[str, ...] = ()
    agents: tuple[AgentChange, ...] = ()
    added_tools: tuple[str, ...] = ()
    removed_tools: tuple[str, ...] = ()
    tools: tuple[ToolChange, ...] = ()
    memory: tuple[str, ...] = ()
    method: tuple[str, str] | None = None


class Team(FrozenModel):
    """A team as a frozen value: agents, topology, tools, memory and lineage.

    Args:
        agents: all agents, sorted by id; not every agent needs a node.
        tools: the team's own tools, sorted by name; a run's toolbox adds others.
        memory: the method's learned state, as JSON by name (beliefs, synergy, weights, ...).
        lineage: parent and rewirings; not part of the fingerprint.

    Raises:
        ValueError: duplicate agents or tools, or a node whose agent does not exist.
    """

    method: str
    agents: Annotated[tuple[Agent, ...], sort_by("id")]
    topology: Topology
    tools: Annotated[tuple[OwnTool, ...], sort_by("name")] = Field(default=(), max_length=TOOLS)
    memory: FrozenJson = Field(default_factory=FrozenMap)
    lineage: Lineage = Lineage()

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
    def tools_by_name(self) -> dict[str, OwnTool]:
        """The team's own tools by name."""
        return {tool.name: tool for tool in self.tools}

    @property
    def own_model(self) -> str:
        """The model of an agent that names none, in texts for people."""
        return "the program's model" if is_graph(self.method) else "the run's model"

    @cached_property
    def fingerprint(self) -> str:
        """16 hexadecimal digits over method, agents, topology, tools and memory; equal in every process.

        Records of tools are left out, since run times are not part of the team. An empty list of tools is left out too.
        """
        tools: Any = {"__all__": {"record"}} if self.tools else True
        return fingerprint(self.model_dump(mode="json", exclude={"lineage": True, "tools": tools}))

    @property
    def members(self) -> tuple[Agent, ...]:
        """The agents that have a node, sorted by id."""
        placed = set(self.topology.agents.values())
        return tuple(agent for agent in self.agents if agent.id in placed)

    def agent_at(self, node: str) -> Agent:
        """Return the agent of a node."""
        return self.agents_by_id[self.topology.agents[node]]

    def apply(self, rewiring: Rewiring) -> "Team":
        """Return the team after all edits of the rewiring.

        Raises:
            EditError: an edit is not legal; the message names it and the legal choices. Nothing is applied.
            ConfigError: it is no rewiring.
        """
        if not isinstance(rewiring, Rewiring):
            raise ConfigError(f'a team is changed by Rewiring(edit, why="..."), not by {rewiring!r:.200}')
        agents, topology, tools = self.agents, self.topology, self.tools
        for edit in rewiring.edits:
            try:
                tools = edit_tools(edit, tools, agents, rewiring)
                agents, topology = edit_agents(edit, agents, topology), edit_topology(edit, agents, topology)
            except ValueError as error:
                raise EditError(f"{format_edit(edit)}: {error}") from None
        return self.replace(
            agents=agents,
            topology=topology,
            tools=tools,
            lineage=Lineage(parent=self.fingerprint, rewirings=(rewiring,)),
        )

    def apply_legal(self, rewirings: Iterable[Rewiring]) -> tuple["Team", tuple[RefusedRewiring, ...]]:
        """Apply rewirings one by one, leaving out illegal ones.

        Returns:
            The team, whose lineage has this one as parent and lists the applied rewirings; the refused rewirings.
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

    def with_memory(self, **memory: Any) -> "Team":
        """Return the team with some entries of its memory replaced; the lineage stays."""
        return self.replace(memory={**self.memory, **memory})

    def with_lineage(self, parent: "Team", rewirings: Iterable[Rewiring]) -> "Team":
        """Return this team with a lineage: a parent and the rewirings since then."""
        return self.replace(lineage=Lineage(parent=parent.fingerprint, rewirings=tuple(rewirings)))

    def diff(self, before: "Team") -> TeamDiff:
        """List the changes since an earlier team, lineages apart."""
        return diff_teams(before, self)

    def graph(self, model: Any = "offline", *, checkpointer: Any = None, **options: Any) -> Any:
        """Compile the team as a LangGraph, to be invoked, streamed, or added to another graph as a node.

        Its input is `{"question": ...}` or `{"messages": [...]}`; it gives `answer`, and with messages appends it.

        Args:
            model: the agents' model: a name such as "openai:gpt-4o-mini", or a chat model of LangChain's.
            checkpointer: LangGraph's checkpointer; None inside a graph that has one. A graph of the user's own has its
                program's in place of None, and none with False.
            options: arguments of the method's `build`, such as meta, judge, tools (functions, too), budget and config.

        Raises:
            ConfigError: a model, a tool or an option cannot be used.
        """
        package = sys.modules[__name__.partition(".")[0]]  # imported by name, as core may not import the other rooms
        return package.compile_graph(self, model, checkpointer=checkpointer, **options)


def diff_teams(before: Team, after: Team) -> TeamDiff:
    """Compare two teams, without their lineages."""
    keys = before.memory.keys() | after.memory.keys()
    both = [(old, after.agents_by_id[old.id]) for old in before.agents if old.id in after.agents_by_id]
    kept = [(old, after.tools_by_name[old.name]) for old in before.tools if old.name in after.tools_by_name]
    return TeamDiff(
        topology=before.topology.diff(after.topology),
        entry=_compare(before.topology.entry, after.topology.entry),
        sink=_compare(before.topology.sink, after.topology.sink),
        added_agents=tuple(agent.id for agent in after.agents if agent.id not in before.agents_by_id),
        removed_agents=tuple(agent.id for agent in before.agents if agent.id not in after.agents_by_id),
        agents=tuple(AgentChange(agent=old.id, **change) for old, new in both for change in _diff_fields(old, new)),
        added_tools=tuple(tool.name for tool in after.tools if tool.name not in before.tools_by_name),
        removed_tools=tuple(tool.name for tool in before.tools if tool.name not in after.tools_by_name),
        tools=tuple(
            ToolChange(tool=old.name, **change) for old, new in kept for change in _diff_fields(old, new, "record")
        ),
        memory=tuple(sorted(key for key in keys if before.memory.get(key) != after.memory.get(key))),
        method=_compare(before.method, after.method),
    )


def _diff_fields(before: FrozenModel, after: FrozenModel, *hidden: str) -> Iterator[dict[str, Any]]:
    old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
    for name in old | new:  # an empty model is written by none
        if name not in hidden and old.get(name, "") != new.get(name, ""):
            yield {"field": name, "before": old.get(name, ""), "after": new.get(name, "")}


def _compare(before: str, after: str) -> tuple[str, str] | None:
    return None if before == after else (before, after)
