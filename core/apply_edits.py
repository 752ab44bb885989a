"""What one edit makes of a workflow's agents, topology and tools; `Workflow.apply` does a whole rewiring."""

from selfwire.core.agent import MEMORY_NOTES, Agent
from selfwire.core.edits import (
    AddAgent,
    AddEdge,
    AddNode,
    AddTool,
    Edit,
    Grant,
    Remember,
    RemoveAgent,
    RemoveEdge,
    RemoveNode,
    RemoveTool,
    ReplaceAgent,
    Revoke,
    Rewiring,
    RewritePrompt,
    RewriteTool,
)
from selfwire.core.topology import Edge, Node, Topology
from selfwire.core.workflow_tool import TOOLS, ToolRecord, WorkflowTool


def edit_agents(edit: Edit, agents: tuple[Agent, ...], topology: Topology) -> tuple[Agent, ...]:
    """The agents after an edit; ValueError if it is not legal, with the legal choices."""
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
        case RewritePrompt(name) | Grant(name) | Revoke(name) | Remember(name):
            new = _change_agent(edit, _get_agent(name, agents))
            return tuple(new if agent.id == name else agent for agent in agents)
        case _:
            return agents


def edit_topology(edit: Edit, agents: tuple[Agent, ...], topology: Topology) -> Topology:
    """The topology after an edit; ValueError as `edit_agents`."""
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


def edit_tools(
    edit: Edit, tools: tuple[WorkflowTool, ...], agents: tuple[Agent, ...], rewiring: Rewiring
) -> tuple[WorkflowTool, ...]:
    """The workflow's own tools after an edit of a rewiring; ValueError as `edit_agents`."""
    match edit:
        case AddTool(tool):
            if any(one.name == tool.name for one in tools):
                raise ValueError(f"tool {tool.name!r} exists already; rewrite it, or choose another name")
            if len(tools) >= TOOLS:
                raise ValueError(f"the workflow has {TOOLS} tools, the most that it may have; remove one first")
            return (*tools, tool)
        case RewriteTool(name):
            new = _rewrite_tool(_get_tool(name, tools), edit, rewiring)
            return tuple(new if one.name == name else one for one in tools)
        case RemoveTool(name):
            _get_tool(name, tools)
            if holders := [agent.id for agent in agents if name in agent.tools]:
                raise ValueError(f"tool {name!r} is held by {', '.join(holders)}; revoke it first")
            return tuple(one for one in tools if one.name != name)
        case _:
            return tools


def _rewrite_tool(old: WorkflowTool, edit: RewriteTool, rewiring: Rewiring) -> WorkflowTool:
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


def _get_tool(name: str, tools: tuple[WorkflowTool, ...]) -> WorkflowTool:
    for tool in tools:
        if tool.name == name:
            return tool
    there = ", ".join(one.name for one in tools) or "none"
    raise ValueError(f"the workflow has no tool {name!r} of its own; its own tools are {there}")


def _change_agent(edit: RewritePrompt | Grant | Revoke | Remember, agent: Agent) -> Agent:
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
            return agent.replace(tools=tuple(one for one in agent.tools if one != tool))
        case Remember(_, note):
            if not note.strip():
                raise ValueError("the note is blank; write what the agent should remember")
            return agent.replace(memory=(*agent.memory, note)[-MEMORY_NOTES:])


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
