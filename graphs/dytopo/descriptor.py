"""DyTopo, declared."""

from selfwire.core.values import format_count
from selfwire.core.workflow import Workflow
from selfwire.evolvers.dytopo.config import DytopoConfig
from selfwire.evolvers.dytopo.domain import MEMORY
from selfwire.evolvers.dytopo.initial_team import DOMAINS
from selfwire.evolvers.dytopo.pictures import draw_run
from selfwire.evolvers.dytopo.report import format_notes
from selfwire.graphs.call_estimates import ROUNDS, CallEstimate, scale_calls
from selfwire.graphs.descriptor import MethodDescriptor, NamedSeeds
from selfwire.graphs.dytopo.method import Dytopo
from selfwire.graphs.dytopo.state import DytopoContext
from selfwire.graphs.dytopo.state_graph import build_state_graph
from selfwire.graphs.variants import FULL, Variant

FIXED_HORIZON = {"halting": False, "rounds": 5}
"""How long the paper's baselines run, whatever they have found (App. D.1, Table 8)."""
SETTINGS = 4
"""Settings that are tried beside the present one."""


def estimate_calls(config: DytopoConfig, team: Workflow, batch: int, added_agents: float) -> CallEstimate:
    """Rounds of the team and its manager; the same for every setting that is tried on half of the batch."""
    rounds = min(config.rounds, ROUNDS) if config.halting else config.rounds
    question = {"agent": rounds * len(team.topology.nodes), "meta": rounds * config.manager}
    settings = SETTINGS if config.search == "near" else 5 * SETTINGS
    learning = scale_calls(question, batch * settings / 2)  # the same rounds are on record
    return CallEstimate(question, learning=learning, gate_share=0.5, tokens=1300)


DESCRIPTOR = MethodDescriptor(
    name=MEMORY,
    summary="rebuilds the communication graph every round by matching what agents need with what others offer",
    make=Dytopo,
    config=DytopoConfig,
    context=DytopoContext,
    build_graph=build_state_graph,
    estimate_calls=estimate_calls,
    variants={
        FULL: Variant(title="semantic, tau = 0.3"),
        "random-topology": Variant(title="random topology", config={"topology": "random"}),
        "random-fixed": Variant(
            title="random topology, 5 rounds", config={"topology": "random", **FIXED_HORIZON}, against="rounds-5"
        ),
        "broadcast": Variant(title="broadcast", config={"topology": "broadcast"}),
        "broadcast-fixed": Variant(
            title="broadcast, 5 rounds", config={"topology": "broadcast", **FIXED_HORIZON}, against="rounds-5"
        ),
        "single-turn": Variant(title="single turn", config={"rounds": 1, "topology": "none", "manager": False}),
        **{
            f"tau-0{tenth}": Variant(title=f"tau = 0.{tenth}", config={"threshold": tenth / 10})
            for tenth in (1, 2, 4, 5, 6, 7, 8, 9)
        },
        **{
            f"rounds-{count}": Variant(
                title=f"{format_count(count, 'round')}, no halting", config={"halting": False, "rounds": count}
            )
            for count in (1, 3, 5, 7, 9)
        },
    },
    evolves=False,
    rounds="rounds",
    format_notes=format_notes,
    draw_run=draw_run,
    seeds=NamedSeeds(tuple(DOMAINS), "domain", Dytopo.make_initial_workflow),
    paper="Lu et al., *DyTopo: Dynamic Topology Routing for Multi-Agent Reasoning via Semantic Matching*, "
    "arXiv 2602.06039",
    departures="D1-D16",
)
