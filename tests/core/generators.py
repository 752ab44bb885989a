"""Random teams and rewirings, half of them aimed at what is legal, and a naive model that says what is."""

import random
from dataclasses import dataclass
from typing import Any

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
    ReplaceTopology,
    Revoke,
    Rewiring,
    RewritePrompt,
    RewriteTool,
    SetModel,
)
from selfwire.core.own_tool import OwnTool
from selfwire.core.team import Team
from selfwire.core.topology import Edge, Node, Topology, TopologyLimits, make_chain

NAMES = tuple("abcdefghij")
TOOLS = ("search", "calculator", "python")
SOURCES = tuple(f"def tool_function(n: int) -> int:\n    return n + {n}\n" for n in range(3))


def seed_team() -> Team:
    """Two agents in a row, under caps that random edits reach."""
    return Team(
        method="hiva",
        agents=(Agent(id="a", prompt="Ask."), Agent(id="z", prompt="Answer.", kind="aggregator")),
        topology=make_chain("a", "z", caps=TopologyLimits(nodes=6, successors=3)),
        memory={"beliefs": {"a": [1, 1]}},
    )


def random_topology(rng: random.Random, nodes: int) -> Topology:
    ids = [f"n{i}" for i in range(nodes)]
    pairs = [(a, b) for a in ids for b in ids if a != b]
    chosen = rng.sample(pairs, rng.randint(0, min(len(pairs), 2 * nodes)))
    return Topology(
        nodes=tuple(Node(id=i, agent="x") for i in ids),
        edges=tuple(Edge(source=a, target=b) for a, b in chosen),
        entry=ids[0],
        sink=ids[-1],
    )


def random_edit(rng: random.Random, team: Team) -> Edit:
    nodes = [node.id for node in team.topology.nodes]
    agents = [agent.id for agent in team.agents]
    wild = rng.random() < 0.12
    agent = rng.choice([*NAMES, "z"] if wild else agents)
    node, other = (rng.choice([*NAMES, "z"] if wild else nodes) for _ in range(2))
    fresh = rng.choice(NAMES)
    edges = team.topology.edges
    edge = rng.choice(edges) if edges and not wild else Edge(source=node, target=other)
    newcomer = Agent(id=fresh, prompt=rng.choice(["Think.", "Search.", "Check."]))
    makers: list[Edit] = [
        AddAgent(newcomer),
        RemoveAgent(agent),
        ReplaceAgent(agent, newcomer),
        AddNode(fresh, agent),
        AddNode(fresh, agent),
        RemoveNode(node),
        AddEdge(node, other),
        AddEdge(node, other),
        AddEdge(node, other),
        RemoveEdge(edge.source, edge.target),
        ReplaceTopology(make_chain(*sorted({agent, rng.choice(agents)}))),
        RewritePrompt(agent, rng.choice(["", "Say why.", "Be brief."])),
        AddTool(make_tool(rng.choice(TOOLS), rng.choice(SOURCES))),
        RewriteTool(rng.choice(TOOLS), rng.choice([*SOURCES, "import os"])),
        RemoveTool(rng.choice(TOOLS)),
        Grant(agent, rng.choice(TOOLS)),
        Revoke(agent, rng.choice(TOOLS)),
        Remember(agent, rng.choice([" ", "It failed once.", "Dates matter."])),
        SetModel(agent, rng.choice(["", "cheap", "openai:gpt-4.1", "no model"])),
    ]
    return rng.choice(makers)


def make_tool(name: str = "add", source: str = SOURCES[1], **fields: Any) -> OwnTool:
    return OwnTool(name=name, description="Adds to a number.", source=source, **fields)


def random_rewiring(rng: random.Random, team: Team) -> Rewiring:
    return Rewiring(*(random_edit(rng, team) for _ in range(rng.choice([1, 1, 2, 3]))), why="at random")


@dataclass
class Model:
    """The edit algebra once more, as plainly as it can be said, on sets and dictionaries."""

    agents: dict[str, dict[str, Any]]
    nodes: dict[str, str]
    edges: set[tuple[str, str]]
    entry: str
    sink: str
    caps: TopologyLimits
    tools: dict[str, tuple[str, int]]

    @classmethod
    def of(cls, team: Team) -> "Model":
        return cls(
            agents={a.id: a.model_dump(exclude={"id"}) for a in team.agents},
            nodes={n.id: n.agent for n in team.topology.nodes},
            edges={(e.source, e.target) for e in team.topology.edges},
            entry=team.topology.entry,
            sink=team.topology.sink,
            caps=team.topology.caps,
            tools={tool.name: (tool.source, tool.version) for tool in team.tools},
        )

    def allows(self, edit: Edit) -> bool:
        """Apply the edit if it is legal, and say whether it was."""
        legal = self._is_legal(edit)
        if legal:
            self._apply(edit)
        return legal

    def _is_legal(self, edit: Edit) -> bool:  # noqa: C901  (one case per kind of edit)
        match edit:
            case AddAgent(agent):
                return agent.id not in self.agents
            case RemoveAgent(agent):
                return agent in self.agents and agent not in self.nodes.values()
            case ReplaceAgent(agent, new):
                return agent in self.agents and new.id not in self.agents.keys() - {agent}
            case AddNode(node, agent):
                return agent in self.agents and node not in self.nodes and len(self.nodes) < self.caps.nodes
            case RemoveNode(node):
                return node in self.nodes and node not in (self.entry, self.sink)
            case AddEdge(source, target):
                fits = source != target and {source, target} <= self.nodes.keys()
                fan_out = sum(s == source for s, _ in self.edges)
                return fits and (source, target) not in self.edges and fan_out < self.caps.successors
            case RemoveEdge(source, target):
                return (source, target) in self.edges
            case ReplaceTopology(topology):
                return {*topology.agents.values()} <= self.agents.keys()
            case RewritePrompt(agent, prompt):
                return agent in self.agents and prompt.strip() != ""
            case AddTool(tool):
                return tool.name not in self.tools
            case RewriteTool(tool, source):
                return tool in self.tools and source in SOURCES and source != self.tools[tool][0]
            case RemoveTool(tool):
                return tool in self.tools and not any(tool in agent["tools"] for agent in self.agents.values())
            case Grant(agent, tool):
                return agent in self.agents and tool not in self.agents[agent]["tools"]
            case Revoke(agent, tool):
                return agent in self.agents and tool in self.agents[agent]["tools"]
            case Remember(agent, note):
                return agent in self.agents and note.strip() != ""
            case SetModel(agent, model):
                return agent in self.agents and " " not in model

    def _apply(self, edit: Edit) -> None:  # noqa: C901  (one case per kind of edit)
        match edit:
            case AddAgent(agent):
                self.agents[agent.id] = agent.model_dump(exclude={"id"})
            case RemoveAgent(agent):
                del self.agents[agent]
            case ReplaceAgent(agent, new):
                del self.agents[agent]
                self.agents[new.id] = new.model_dump(exclude={"id"})
                self.nodes = {n: new.id if a == agent else a for n, a in self.nodes.items()}
            case AddNode(node, agent):
                self.nodes[node] = agent
            case RemoveNode(node):
                del self.nodes[node]
                self.edges = {edge for edge in self.edges if node not in edge}
            case AddEdge(source, target):
                self.edges.add((source, target))
            case RemoveEdge(source, target):
                self.edges.remove((source, target))
            case ReplaceTopology(new):
                self.nodes, self.edges = {**new.agents}, {(edge.source, edge.target) for edge in new.edges}
                self.entry, self.sink, self.caps = new.entry, new.sink, new.caps
            case RewritePrompt(agent, prompt):
                self.agents[agent]["prompt"] = prompt
            case AddTool(tool):
                self.tools[tool.name] = (tool.source, tool.version)
            case RewriteTool(tool, source):
                self.tools[tool] = (source, self.tools[tool][1] + 1)
            case RemoveTool(tool):
                del self.tools[tool]
            case Grant(agent, tool):
                self.agents[agent]["tools"] = (*self.agents[agent]["tools"], tool)
            case Revoke(agent, tool):
                held = self.agents[agent]["tools"]
                self.agents[agent]["tools"] = tuple(one for one in held if one != tool)
            case Remember(agent, note):
                self.agents[agent]["memory"] = (*self.agents[agent]["memory"], note)[-MEMORY_NOTES:]
            case SetModel(agent, model):
                self.agents[agent] = {name: was for name, was in self.agents[agent].items() if name != "model"}
                self.agents[agent] |= {"model": model} if model else {}
