"""The agents of the pool and the default chain (Sec. 4, implementation details; the calculator is D9)."""

from collections.abc import Sequence

from pydantic import TypeAdapter, ValidationError

from selfwire.core.agent import COMPUTING_TOOLS, Agent
from selfwire.core.chat import Prompts
from selfwire.core.team import Team
from selfwire.core.topology import Topology, make_chain
from selfwire.core.values import Id
from selfwire.evolvers.trajectory_text import render_agents

METHOD = "hera"
POOL = "planned pool"
"""Name of what planners read of the pool before agents were taken out of it, in a team's memory."""
CALCULATOR = "calculator"
RETRIEVER, REWRITER = "retriever", "query_rewriter"

ROLES = {
    "query_decomposer": "Breaks a question that needs several facts down into simple sub-questions, in order.",
    "query_rewriter": "Rewrites questions so that a search finds what they are about.",
    "retriever": "Searches for passages on open questions.",
    "evidence_selector": "Reads passages and picks the facts that answer open questions.",
    "context_validator": "Checks whether the evidence suffices and says what is still missing.",
    "answer_generator": "Writes the answer from the evidence.",
    "reflect_agent": "Looks for mistakes in what was done and says how to correct them.",
    "conclude_agent": "Weighs everything that was found and gives the final answer.",
    CALCULATOR: "Does arithmetic, counts, compares values and dates, and finds what lists have in common.",
}
ANSWERING = ("answer_generator", "conclude_agent")
CHAIN = ("query_decomposer", "retriever", "evidence_selector", "answer_generator")
"""The default chain, which runs where a plan cannot be used; the retriever is on it only where it has a search."""


def make_initial_team(prompts: Prompts, *, tools: Sequence[Id] = ()) -> Team:
    """The pool of eight and the calculator, around the default chain.

    The retriever holds the tools that look something up, the calculator those that compute.
    """
    computing = tuple(tool for tool in tools if tool in COMPUTING_TOOLS)
    finding = tuple(tool for tool in tools if tool not in COMPUTING_TOOLS)
    held = {CALCULATOR: computing, RETRIEVER: finding}
    agents = tuple(
        Agent(
            id=name,
            role=role,
            prompt=prompts.text(f"agent_{name}").strip(),
            tools=held.get(name, ()),
            kind="aggregator" if name in ANSWERING else "worker",
        )
        for name, role in ROLES.items()
    )
    able = [agent.id for agent in list_able_agents(agents)]
    return Team(method=METHOD, agents=agents, topology=make_chain(*(name for name in CHAIN if name in able)))


def list_able_agents(agents: Sequence[Agent]) -> tuple[Agent, ...]:
    """The agents that can do their work: a retriever needs a tool to search with, a rewriter a search (D14)."""
    finding = {agent.id for agent in agents if set(agent.tools) - COMPUTING_TOOLS}
    idle = {RETRIEVER} - finding if finding else {RETRIEVER, REWRITER}
    return tuple(agent for agent in agents if agent.id not in idle)


def list_pool(team: Team) -> dict[Id, str]:
    """List the lines that a planner reads of the pool, by agent; those of agents that were taken out stay (D23).

    Raises:
        ValueError: the team's memory holds something else.
    """
    try:
        kept = TypeAdapter(tuple[tuple[Id, str], ...]).validate_python(team.memory.get(POOL, ()))
    except ValidationError as error:
        raise ValueError(f"{POOL}: pairs of an agent and its line belong here: {error}") from error
    return {**dict(kept), **{agent.id: render_agents([agent]) for agent in list_able_agents(team.agents)}}


def render_pool(team: Team) -> str:
    """The pool as planners read it, an agent per line."""
    return "\n".join(list_pool(team).values())


def keep_lines(smaller: Team, whole: Team) -> Team:
    """The smaller team that plans with the lines of the whole one, from whose pool agents were taken out (D23)."""
    if len(smaller.agents) == len(whole.agents):
        return smaller
    return smaller.with_memory(**{POOL: [*map(list, list_pool(whole).items())]})


def make_default_topology(team: Team) -> Topology:
    """The team's own topology; a chain of those that can do their work, where others are on it."""
    able = {agent.id for agent in list_able_agents(team.agents)}
    ran = [team.topology.agents[node] for node in team.topology.order()]
    if able.issuperset(ran):
        return team.topology
    return make_chain(*dict.fromkeys(agent for agent in ran if agent in able))
