"""The team that every question starts with: planner -> {searcher, calculator} -> verifier -> reflector (Sec. 5.1)."""

from collections.abc import Sequence

from selfwire.core.agent import Agent
from selfwire.core.prompts import Prompts
from selfwire.core.topology import Edge, Node, Topology, TopologyLimits
from selfwire.core.values import Id
from selfwire.core.workflow import Workflow
from selfwire.evolvers.tacomas.config import TacomasConfig

METHOD = "tacomas"
SINK = "reflector"

ROLES = {
    "planner": "Breaks the task into parts and says who should do what.",
    "searcher": "Looks up facts.",
    "calculator": "Computes, counts and compares.",
    "verifier": "Checks what the others found.",
    SINK: "Weighs everything and gives the team's answer.",
}
EDGES = (
    ("planner", "searcher"),
    ("planner", "calculator"),
    ("searcher", "verifier"),
    ("calculator", "verifier"),
    ("verifier", SINK),
)


def make_initial_workflow(
    prompts: Prompts, *, tools: Sequence[Id] = (), config: TacomasConfig = TacomasConfig()
) -> Workflow:
    """The initial team of five.

    Args:
        tools: held by all agents but the reflector.
        config: caps of the topology; a cap below 5 holds for newcomers only.
    """
    return Workflow(
        method=METHOD,
        agents=tuple(
            Agent(
                id=name,
                role=role,
                prompt=prompts.text(name).strip(),
                tools=() if name == SINK else tuple(tools),
                kind="aggregator" if name == SINK else "worker",
            )
            for name, role in ROLES.items()
        ),
        topology=Topology(
            nodes=tuple(Node(id=name, agent=name) for name in ROLES),
            edges=tuple(Edge(source=source, target=target) for source, target in EDGES),
            entry="planner",
            sink=SINK,
            caps=TopologyLimits(nodes=max(config.slow.nodes, len(ROLES))),
        ),
    )
