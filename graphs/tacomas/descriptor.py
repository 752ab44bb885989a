"""TacoMAS, declared."""

from selfwire.core.workflow import Workflow
from selfwire.evolvers.tacomas.config import TacomasConfig
from selfwire.evolvers.tacomas.initial_team import METHOD
from selfwire.evolvers.tacomas.pictures import draw_run
from selfwire.evolvers.tacomas.report import format_notes
from selfwire.graphs.call_estimates import ROUNDS, CallEstimate, count_turn_calls
from selfwire.graphs.descriptor import MethodDescriptor
from selfwire.graphs.tacomas.method import Tacomas
from selfwire.graphs.tacomas.state import TacomasContext
from selfwire.graphs.tacomas.state_graph import build_state_graph
from selfwire.graphs.variants import FULL, Variant


def estimate_calls(config: TacomasConfig, team: Workflow, batch: int, added_agents: float) -> CallEstimate:
    """Rounds of the team, each judged and coached; the team that questions start with stays as it is."""
    rounds = min(config.rounds, ROUNDS)
    asks = len(team.topology.nodes) if config.fast.judge_each else 1  # of contributions and of the coach, per round
    coached = asks * (config.capability and config.fast.refines)
    judge, meta = 1.2 * rounds + (rounds - 1) * asks, coached + config.topology / config.interval
    question = {"agent": rounds * count_turn_calls(team), "judge": judge, "meta": 1 + (rounds - 1) * meta}
    return CallEstimate(question, gate_share=0, tokens=750)


DESCRIPTOR = MethodDescriptor(
    name=METHOD,
    summary=(
        "while it works on one question, "
        "refines capabilities every round and rewires the team every second one, without labels"
    ),
    make=lambda model, tools, embedder, config: Tacomas(model, tools, config),
    config=TacomasConfig,
    context=TacomasContext,
    build_graph=build_state_graph,
    build_options=frozenset({"judge"}),
    estimate_calls=estimate_calls,
    variants={
        FULL: Variant(title="full"),
        "no-capability": Variant(title="topology only", config={"capability": False}),
        "no-weights": Variant(title="w/o the weights of Eq. 2", config={"fast": {"rate": 0}}),
        "no-refinements": Variant(title="w/o refinements", config={"fast": {"refines": False}}),
        "no-feedback": Variant(title="w/o the slow loop's words to agents", config={"slow": {"feedback": False}}),
        "no-topology": Variant(title="capability only", config={"topology": False}),
        "one-scale": Variant(title="K = 1", config={"interval": 1}),
        "no-budget": Variant(title="no edit budget", config={"slow": {"budgeted": False}}),
        "fixed": Variant(title="fixed team", config={"capability": False, "topology": False}),
    },
    evolves=False,
    rounds="rounds",
    format_notes=format_notes,
    draw_run=draw_run,
    paper="Xu et al., *TacoMAS: Test-Time Co-Evolution of Topology and Capability in LLM-based Multi-Agent Systems*, "
    "arXiv 2605.09539",
    departures="D1-D21",
)
