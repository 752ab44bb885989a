"""The candidate agents, pool-4 and pool-7 (App. C.4, Table 4), as an initial workflow."""

import re
from collections.abc import Iterable, Sequence

from selfwire.core.agent import COMPUTING_TOOLS, Agent
from selfwire.core.chat import Prompts
from selfwire.core.team import Team
from selfwire.core.topology import Topology, make_chain
from selfwire.core.values import Id
from selfwire.evolvers.evomas.config import EvomasConfig

METHOD = "evomas"
EARLY_EXIT = "early_exit"

FOUR = ("io", EARLY_EXIT, "web_search", "ensemble")
SEVEN = (*FOUR, "multi_generate", "self_refine", "web_browser")

ROLES = {
    "io": "Answers without tools, from task, findings and its own knowledge, and says what each answer rests on.",
    "multi_generate": "Gives several candidate answers and compares them.",
    "self_refine": "Finds the faults of a solution, works out again what is in doubt, and rewrites it.",
    "web_search": "Searches with its tools for what the subtask needs, and reads the results; names its sources.",
    "web_browser": "Opens pages with its tools, reads them whole and follows them to the next; names its sources.",
    EARLY_EXIT: "Ends the work: what has been completed is enough for the final answer.",
    "ensemble": "Chooses among several solutions the one on which most of them agree.",
}
KINDS = {
    "io": "knowledge",
    "self_refine": "refiner",
    "web_search": "searcher",
    "web_browser": "searcher",
    EARLY_EXIT: "signal",
    "ensemble": "ensemble",
}
"""Kinds of agents that are no plain workers."""
COMPUTING_IO = "Answers and computes, from task, findings and its own knowledge, and says what each answer rests on."
"""Role of the agent io where it holds the tools, as all of them compute (D20)."""

FIXED = ("io", "web_search", "ensemble")
"""The paper's fixed workflow for GAIA (Sec. 4.3); drawings show it as the pool's topology."""

_BROWSES = re.compile(r"brows|page|visit|open|fetch|url|navigat", re.IGNORECASE)


def find_browsing_tools(tools: Iterable[str]) -> tuple[str, ...]:
    """The tools that open pages, by their names."""
    return tuple(tool for tool in tools if _BROWSES.search(tool))


def make_initial_team(
    prompts: Prompts, *, tools: Sequence[Id] = (), pages: Sequence[Id] = (), config: EvomasConfig = EvomasConfig()
) -> Team:
    """The pool as a workflow; its topology is the paper's fixed one.

    Args:
        tools: for searcher and browser; the searcher holds those that open no pages. Where all of them compute, there
            is nothing to search and the agent io holds them (D20).
        pages: tools for the browser alone.
    """
    searching = tuple(tool for tool in tools if tool not in find_browsing_tools(tools))
    held = {"web_search": searching or tuple(tools), "web_browser": tuple(dict.fromkeys((*pages, *tools)))}
    roles, means = ROLES, "without tools:"
    if tools and not pages and COMPUTING_TOOLS.issuperset(tools):
        held, roles = {"io": tuple(tools)}, {**ROLES, "io": COMPUTING_IO}
        means = "without a search; compute or run with your tools what can be, show the results, and take the rest"
    names = FOUR if config.pool == 4 else SEVEN
    return Team(
        method=METHOD,
        agents=tuple(
            Agent(
                id=name,
                role=roles[name],
                prompt=prompts.text(name, means=means).strip(),
                tools=held.get(name, ()),
                kind=KINDS.get(name, "worker"),
            )
            for name in names
        ),
        topology=make_chain(*FIXED),
    )


def add_pool_agent(team: Team, agent: Agent) -> Team:
    """The workflow with another agent in its pool; the router can choose it at once.

    Raises:
        ValueError: the pool has an agent of that id.
    """
    return team.replace(agents=(*team.agents, agent)).with_lineage(team, ())


def to_layers(topology: Topology) -> tuple[tuple[Id, ...], ...]:
    """A topology's levels as layers of agents, each agent once per layer."""
    levels = [[topology.agents[node] for node in level] for level in topology.levels()]
    return tuple(tuple(dict.fromkeys(level)) for level in levels)
