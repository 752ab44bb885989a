"""The team that every question starts with: planner, searcher, calculator, verifier, reflector (Sec. 5.1)."""

from collections.abc import Sequence

from selfwire.core.agent import COMPUTING_TOOLS, Agent
from selfwire.core.chat import Prompts
from selfwire.core.team import Team
from selfwire.core.topology import TopologyLimits, make_topology
from selfwire.core.values import Id
from selfwire.evolvers.tacomas.config import TacomasConfig

METHOD = "tacomas"
SINK = "reflector"
CALCULATOR = "calculator"

ROLES = {
    "planner": "Breaks the task into parts and says who should do what.",
    "searcher": "Looks up facts.",
    CALCULATOR: "Computes, counts and compares, and makes what the task asks to be made.",
    "verifier": "Checks what the others found.",
    SINK: "Weighs everything and gives the team's answer.",
}
WITH_TOOLS = {
    "planner": {"sources": "with the team's tools, or in the text of the task"},
    "searcher": {
        "sources": "with your tools and in the text of the task",
        "otherwise": "Where a search finds nothing, try other words before you say that nothing is to be found.",
    },
    "verifier": {"sources": "the task and, with your tools, against its source"},
}
WITHOUT_TOOLS = {
    "planner": {"sources": "in the text of the task or, as nobody holds a tool, in what the members know"},
    "searcher": {
        "sources": "in the text of the task",
        "otherwise": "You hold no tools: where the task says nothing, say so, or mark what you know as unverified.",
    },
    "verifier": {"sources": "the task and the passages in it"},
}
COMPUTING = {
    "planner": {"sources": "in the text of the task or, as nobody holds a search, in what the members know"},
    "searcher": {
        "sources": "in the text of the task",
        "otherwise": "You hold no search: where the task says nothing, say so, or mark what you know as unverified.",
    },
    "verifier": {"sources": "the task and the passages in it, and compute or run again what can be"},
}
"""What the prompts say of sources, by what the team holds; tools that compute look nothing up."""
EDGES = (
    ("planner", "searcher"),
    ("planner", CALCULATOR),
    ("searcher", CALCULATOR),
    ("searcher", "verifier"),
    (CALCULATOR, "verifier"),
    ("verifier", SINK),
)


def make_initial_team(prompts: Prompts, *, tools: Sequence[Id] = (), config: TacomasConfig = TacomasConfig()) -> Team:
    """The initial team of five.

    Args:
        tools: held by all agents but the reflector.
        config: caps of the topology; a cap below 5 holds for newcomers only.
    """
    held = WITH_TOOLS if set(tools) - COMPUTING_TOOLS else COMPUTING if tools else WITHOUT_TOOLS
    return Team(
        method=METHOD,
        agents=tuple(
            Agent(
                id=name,
                role=role,
                prompt=prompts.text(name, **held.get(name, {})).strip(),
                tools=() if name == SINK else tuple(tools),
                kind="aggregator" if name == SINK else "worker",
            )
            for name, role in ROLES.items()
        ),
        topology=make_topology(
            ((name, name) for name in ROLES),
            EDGES,
            "planner",
            SINK,
            TopologyLimits(nodes=max(config.slow.nodes, len(ROLES))),
        ),
    )
