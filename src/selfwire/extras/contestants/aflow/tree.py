"""The tree: teams with their scores, which one is edited next, and what a proposed edit does to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field

from selfwire.core.agent import Agent
from selfwire.core.chat import ReplySchema
from selfwire.core.edits import (
    AddAgent,
    AddEdge,
    AddNode,
    Edit,
    RemoveAgent,
    RemoveNode,
    Rewiring,
    RewritePrompt,
)
from selfwire.core.team import Team
from selfwire.core.topology import Edge
from selfwire.core.trajectory import Trajectory
from selfwire.evolvers.trajectory_text import shorten

Operation = Literal["ADD_AGENT", "REWRITE_PROMPT", "ADD_EDGE", "REMOVE_AGENT"]


class TeamEdit(ReplySchema):
    """An edit of a team."""

    operation: Operation
    agent: str = Field(description="Id of the agent that the edit is about, as the team lists it.")
    target: str = Field(description="ADD_EDGE: id of the agent that shall also read it; else empty.")
    role: str = Field(description="ADD_AGENT: the new agent's purpose in one line; else empty.")
    prompt: str = Field(description="ADD_AGENT, REWRITE_PROMPT: the whole prompt; else empty.")
    reason: str = Field(description="What the feedback shows, in one sentence.")


@dataclass(frozen=True)
class SearchedTeam:
    """A team in the tree.

    Attributes:
        runs: on the validation questions.
        score: mean of their scores.
        rewirings: from the first team on.
        parent: its place in the tree; None for the first team.
    """

    team: Team
    runs: Sequence[Trajectory]
    score: float
    rewirings: tuple[Rewiring, ...] = ()
    parent: int | None = None


def choose_parent(scores: Sequence[float], *, uniform: float, sharpness: float, random: np.random.Generator) -> int:
    """Soft mixture of a uniform draw and one by score; `sharpness` is per hundredth of a score."""
    raised = np.exp(sharpness * 100 * (np.array(scores) - max(scores)))
    shares = uniform / len(scores) + (1 - uniform) * raised / raised.sum()
    return int(random.choice(len(scores), p=shares))


def to_rewiring(team: Team, edit: TeamEdit, *, tools: Sequence[str], length: int) -> Rewiring:
    """The rewiring that an edit means.

    Raises:
        ValueError: it means none: an unknown agent, a prompt that is blank or too long.
    """
    nodes = {agent: node for node, agent in team.topology.agents.items()}
    agent, prompt = edit.agent.strip(), edit.prompt.strip()
    if agent not in nodes:
        raise ValueError(f"there is no agent {agent!r}; agents are {', '.join(nodes)}")
    if edit.operation in ("ADD_AGENT", "REWRITE_PROMPT") and not 0 < len(prompt) <= length:
        raise ValueError(f"the prompt has {len(prompt)} characters; 1 to {length} are allowed")
    edits: Sequence[Edit]
    if edit.operation == "ADD_AGENT":
        edits = _add_agent(team, nodes[agent], edit.role, prompt, tools)
    elif edit.operation == "REMOVE_AGENT":
        edits = _remove_agent(team, nodes[agent])
    elif edit.operation == "REWRITE_PROMPT":
        edits = [RewritePrompt(agent, prompt)]
    else:
        edits = [AddEdge(nodes[agent], nodes.get(edit.target.strip(), edit.target.strip()))]
    return Rewiring(*edits, why=shorten(edit.reason, 300), operation=edit.operation, by=agent)


def _add_agent(team: Team, beside: str, role: str, prompt: str, tools: Sequence[str]) -> list[Edit]:
    """A new agent between a node and its readers; between the sink and those that it reads, if it is the sink."""
    last = beside == team.topology.sink
    sources = team.topology.predecessors[beside] if last else (beside,)
    targets = (beside,) if last else team.topology.successors[beside]
    name = next(name for number in range(1, 1000) if (name := f"agent-{number}") not in team.agents_by_id)
    agent = Agent(id=name, role=shorten(role.strip(), 200) or "works on the task", prompt=prompt, tools=tuple(tools))
    ins, outs = [AddEdge(node, name) for node in sources], [AddEdge(name, node) for node in targets]
    return [AddAgent(agent), AddNode(name, name), *ins, *outs]


def _remove_agent(team: Team, node: str) -> list[Edit]:
    topology = team.topology
    missing = [
        AddEdge(source, target)
        for source in topology.predecessors[node]
        for target in topology.successors[node]
        if Edge(source=source, target=target) not in topology.edges
    ]
    return [*missing, RemoveNode(node), RemoveAgent(topology.agents[node])]


def render_experience(tree: Sequence[SearchedTeam], parent: int) -> str:
    """The edits of a team that were tried, with how each changed its score."""
    return "\n".join(
        f"{tried.score - tree[parent].score:+.2f}: {tried.rewirings[-1].operation} {tried.rewirings[-1].by}: "
        f"{tried.rewirings[-1].why}"
        for tried in tree
        if tried.parent == parent
    )
