"""Edits of a team, grouped in rewirings that are applied as a whole or not at all.

An edit is one change; a `Rewiring` is a group of edits with a reason, which `Team.apply` applies all or not at all.
Edits take their fields by position: `AddEdge("plan", "answer")`.
"""

from typing import Annotated, Any, Literal, TypeVar, cast, dataclass_transform

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from selfwire.core.agent import MEMORY_NOTES, Agent
from selfwire.core.own_tool import TOOLS, OwnTool, ToolExample, ToolRecord
from selfwire.core.topology import Edge, Node, Topology
from selfwire.core.values import AnyText, FrozenModel, Id, format_count

_Class = TypeVar("_Class")


@dataclass_transform(frozen_default=True, field_specifiers=(Field,))
def _edit(cls: type[_Class]) -> type[_Class]:
    return cast("type[_Class]", dataclass(frozen=True, config=ConfigDict(extra="forbid"))(cls))


@_edit
class AddAgent:
    """Add an agent that no node uses yet."""

    agent: Agent
    kind: Literal["add_agent"] = Field(default="add_agent", kw_only=True)


@_edit
class RemoveAgent:
    """Remove an agent that no node uses."""

    agent: Id
    kind: Literal["remove_agent"] = Field(default="remove_agent", kw_only=True)


@_edit
class ReplaceAgent:
    """Replace an agent by another one; the nodes of the old agent keep their ids and edges."""

    agent: Id
    replacement: Agent
    kind: Literal["replace_agent"] = Field(default="replace_agent", kw_only=True)


@_edit
class AddNode:
    """Add a node for an existing agent."""

    node: Id
    agent: Id
    kind: Literal["add_node"] = Field(default="add_node", kw_only=True)


@_edit
class RemoveNode:
    """Remove a node with its edges; not the entry or the sink."""

    node: Id
    kind: Literal["remove_node"] = Field(default="remove_node", kw_only=True)


@_edit
class AddEdge:
    """Add an edge between two nodes."""

    source: Id
    target: Id
    kind: Literal["add_edge"] = Field(default="add_edge", kw_only=True)


@_edit
class RemoveEdge:
    """Remove an edge."""

    source: Id
    target: Id
    kind: Literal["remove_edge"] = Field(default="remove_edge", kw_only=True)


@_edit
class ReplaceTopology:
    """Replace nodes, edges, entry and sink; the agents stay."""

    topology: Topology
    kind: Literal["replace_topology"] = Field(default="replace_topology", kw_only=True)


@_edit
class RewritePrompt:
    """Replace an agent's prompt."""

    agent: Id
    prompt: str
    kind: Literal["rewrite_prompt"] = Field(default="rewrite_prompt", kw_only=True)


@_edit
class AddTool:
    """Add a tool to the team; no agent may call it until it is granted."""

    tool: OwnTool
    kind: Literal["add_tool"] = Field(default="add_tool", kw_only=True)


@_edit
class RewriteTool:
    """Replace the source of a team's tool, and optionally its description and examples.

    The new version is numbered one higher, starts with an empty record, and takes `by` and `why` from the rewiring. An
    edit that changes only the examples makes no new version.
    """

    tool: Id
    source: str
    description: str | None = None
    examples: tuple[ToolExample, ...] | None = None
    kind: Literal["rewrite_tool"] = Field(default="rewrite_tool", kw_only=True)


@_edit
class RemoveTool:
    """Remove a tool of the team; it must have been revoked from all agents."""

    tool: Id
    kind: Literal["remove_tool"] = Field(default="remove_tool", kw_only=True)


@_edit
class Grant:
    """Let an agent call a tool, either the team's own or one of the run's toolbox."""

    agent: Id
    tool: Id
    kind: Literal["grant"] = Field(default="grant", kw_only=True)


@_edit
class Revoke:
    """Take a tool from an agent."""

    agent: Id
    tool: Id
    kind: Literal["revoke"] = Field(default="revoke", kw_only=True)


@_edit
class Remember:
    """Append a note to an agent's memory; the oldest note goes when the memory is full."""

    agent: Id
    note: str
    kind: Literal["remember"] = Field(default="remember", kw_only=True)


@_edit
class SetModel:
    """Have an agent ask another model, by a name that runs are given for one; "" for the run's own."""

    agent: Id
    model: str
    kind: Literal["set_model"] = Field(default="set_model", kw_only=True)


Edit = Annotated[
    AddAgent
    | RemoveAgent
    | ReplaceAgent
    | AddNode
    | RemoveNode
    | AddEdge
    | RemoveEdge
    | ReplaceTopology
    | RewritePrompt
    | AddTool
    | RewriteTool
    | RemoveTool
    | Grant
    | Revoke
    | Remember
    | SetModel,
    Field(discriminator="kind"),
]
"""A single change to a team."""


class Rewiring(FrozenModel):
    """A group of edits with its reason, applied all or not at all: `Rewiring(edit, ..., why="...")`.

    Args:
        why: the reason, shown in histories and diffs.
        operation: the method's name for the group, such as ADD_SERIAL.
        by: the agent, node or step that proposed it.
    """

    edits: tuple[Edit, ...] = Field(min_length=1)
    why: AnyText
    operation: str = ""
    by: str = ""

    def __init__(self, *edits: Edit, **fields: Any) -> None:
        super().__init__(**({"edits": edits} if edits else {}), **fields)


class RefusedRewiring(FrozenModel):
    """A rewiring that was not applied, with the reason."""

    rewiring: Rewiring
    reason: str


def format_edit(edit: Edit) -> str:
    """Format an edit as short text, such as `AddEdge(plan, answer)`."""
    fields = {name: value for name, value in vars(edit).items() if name != "kind" and not name.startswith("__")}
    values = [value for value in fields.values() if value is not None]
    return f"{type(edit).__name__}({', '.join(_shorten(value) for value in values)})"


def _shorten(value: object) -> str:
    if isinstance(value, Agent | OwnTool):
        return value.id if isinstance(value, Agent) else value.name
    if isinstance(value, Topology):
        return format_count(len(value.nodes), "node")
    if isinstance(value, tuple):
        return format_count(len(value), "example")
    text = " ".join(str(value).split())
    return (text if len(text) <= 40 else f"{text[:37]}...") or '""'


def format_rewiring(rewiring: Rewiring) -> str:
    """Format a rewiring in one line: operation, edits, proposer and reason."""
    operation = f"{rewiring.operation} " if rewiring.operation else ""
    by = f" by {rewiring.by}" if rewiring.by else ""
    return f"{operation}{', '.join(map(format_edit, rewiring.edits))}{by}: {rewiring.why}"


def edit_agents(edit: Edit, agents: tuple[Agent, ...], topology: Topology) -> tuple[Agent, ...]:
    """Return the agents after an edit.

    Raises:
        ValueError: the edit is not legal; the message lists the legal choices.
    """
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
        case RewritePrompt(name) | Grant(name) | Revoke(name) | Remember(name) | SetModel(name):
            new = _change_agent(edit, _get_agent(name, agents))
            return tuple(new if agent.id == name else agent for agent in agents)
        case _:
            return agents


def edit_topology(  # noqa: C901  (one case per kind of edit)
    edit: Edit, agents: tuple[Agent, ...], topology: Topology
) -> Topology:
    """Return the topology after an edit; raises ValueError as `edit_agents` does."""
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
        case ReplaceTopology(new):
            for agent in new.agents.values():
                _get_agent(agent, agents)
            return new
        case _:
            return topology


def edit_tools(
    edit: Edit, tools: tuple[OwnTool, ...], agents: tuple[Agent, ...], rewiring: Rewiring
) -> tuple[OwnTool, ...]:
    """Return the team's own tools after an edit of a rewiring; raises ValueError as `edit_agents` does."""
    match edit:
        case AddTool(tool):
            if any(other.name == tool.name for other in tools):
                raise ValueError(f"tool {tool.name!r} exists already; rewrite it, or choose another name")
            if len(tools) >= TOOLS:
                raise ValueError(f"the team has {TOOLS} tools, the most that it may have; remove one first")
            return (*tools, tool)
        case RewriteTool(name):
            new = _rewrite_tool(_get_tool(name, tools), edit, rewiring)
            return tuple(new if tool.name == name else tool for tool in tools)
        case RemoveTool(name):
            _get_tool(name, tools)
            if holders := [agent.id for agent in agents if name in agent.tools]:
                raise ValueError(f"tool {name!r} is held by {', '.join(holders)}; revoke it first")
            return tuple(tool for tool in tools if tool.name != name)
        case _:
            return tools


def _rewrite_tool(old: OwnTool, edit: RewriteTool, rewiring: Rewiring) -> OwnTool:
    description = old.description if edit.description is None else edit.description
    examples = old.examples if edit.examples is None else edit.examples
    if (edit.source, description) == (old.source, old.description):
        if examples == old.examples:
            raise ValueError(f"tool {old.name!r} stays as it is; change its source, description or examples")
        return old.replace(examples=examples)
    return old.replace(
        source=edit.source,
        description=description,
        version=old.version + 1,
        by=rewiring.by,
        why=rewiring.why,
        examples=examples,
        record=ToolRecord(),
    )


def _get_tool(name: str, tools: tuple[OwnTool, ...]) -> OwnTool:
    for tool in tools:
        if tool.name == name:
            return tool
    there = ", ".join(tool.name for tool in tools) or "none"
    raise ValueError(f"the team has no tool {name!r} of its own; its own tools are {there}")


def _change_agent(edit: RewritePrompt | Grant | Revoke | Remember | SetModel, agent: Agent) -> Agent:
    match edit:
        case RewritePrompt(_, prompt):
            if not prompt.strip():
                raise ValueError("the new prompt is blank; give the agent a prompt")
            return agent.replace(prompt=prompt)
        case Grant(_, tool):
            if tool in agent.tools:
                raise ValueError(f"agent {agent.id!r} holds tool {tool!r} already")
            return agent.replace(tools=(*agent.tools, tool))
        case Revoke(_, tool):
            if tool not in agent.tools:
                held = ", ".join(agent.tools) or "none"
                raise ValueError(f"agent {agent.id!r} holds no tool {tool!r}; it holds {held}")
            return agent.replace(tools=tuple(name for name in agent.tools if name != tool))
        case Remember(_, note):
            if not note.strip():
                raise ValueError("the note is blank; write what the agent should remember")
            return agent.replace(memory=(*agent.memory, note)[-MEMORY_NOTES:])
        case SetModel(_, model):
            return agent.replace(model=model)


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
