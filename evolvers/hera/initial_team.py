"""The agents of the pool and the default chain (Sec. 4, implementation details; the calculator is D9)."""

from collections.abc import Sequence

from pydantic import TypeAdapter, ValidationError

from selfwire.core.agent import COMPUTING_TOOLS, Agent
from selfwire.core.chat import Prompts
from selfwire.core.edits import ReplaceTopology
from selfwire.core.team import Team
from selfwire.core.topology import Topology, make_chain
from selfwire.core.values import Id, to_plain_json
from selfwire.evolvers.trajectory_text import render_agents

METHOD = "hera"
REMOVED = "removed agents"
"""Name of the agents that prunings took out of the pool, without their prompts, in a team's memory."""
ONE_PLAN = "one plan"
"""Name of what says in a team's memory that its topology works on every question, and none is planned for."""
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
_REMOVED = TypeAdapter(tuple[Agent, ...])


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


def list_pool(team: Team) -> list[Agent]:
    """List the agents of the team and those that a pruning took out of it (D23), as a team sorts its agents.

    Raises:
        ValueError: the team's memory holds something else.
    """
    try:
        removed = _REMOVED.validate_python(to_plain_json(team.memory.get(REMOVED, ())))
    except ValidationError as error:
        raise ValueError(f"{REMOVED}: a list of agents belongs here: {error}") from error
    gone = [agent for agent in removed if agent.id not in team.agents_by_id]
    return sorted([*team.agents, *gone], key=lambda agent: agent.id)


def render_pool(team: Team) -> str:
    """The pool as planners read it, an agent per line."""
    return render_agents(list_able_agents(list_pool(team)))


def has_one_plan(team: Team) -> bool:
    """Whether the team's topology works on every question (D25).

    Raises:
        ValueError: the team's memory holds something else.
    """
    noted = team.memory.get(ONE_PLAN, False)
    if not isinstance(noted, bool):
        raise ValueError(f"{ONE_PLAN}: true or false belongs here, not {noted!r:.80}")
    return noted


def note_removed(smaller: Team, whole: Team) -> Team:
    """The smaller team, planned with the agents that a pruning took out of the whole one (D23), or not at all (D25)."""
    edits = [edit for rewiring in smaller.lineage.rewirings for edit in rewiring.edits]
    if any(isinstance(edit, ReplaceTopology) for edit in edits):
        smaller = smaller.with_memory(**{ONE_PLAN: True})
    gone = [agent for agent in list_pool(whole) if agent.id not in smaller.agents_by_id]
    if not gone:
        return smaller
    shown = [Agent(id=agent.id, role=agent.role, prompt="", tools=agent.tools) for agent in gone]
    return smaller.with_memory(**{REMOVED: _REMOVED.dump_python(tuple(shown), mode="json")})


def make_default_topology(team: Team) -> Topology:
    """The team's own topology; a chain of those that can do their work, where others are on it."""
    able = {agent.id for agent in list_able_agents(team.agents)}
    ran = [team.topology.agents[node] for node in team.topology.order()]
    if able.issuperset(ran):
        return team.topology
    return make_chain(*dict.fromkeys(agent for agent in ran if agent in able))
