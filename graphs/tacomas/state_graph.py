"""TacoMAS's figure as a LangGraph (Alg. 1).

    START -> init_graph -> round (the team) -> judge -> [confirmed, or t = R - 1] END
                            ^   ^                 |
                            |   |                 v
                            |   +------------- refine -> [(t + 1) mod K = 0, or slow_again] birth_death
                            |                                                                  |   |
                            +------------------------------------------------------------------+   +-> [stop] END

A judge or meta-model that fails ends the run with what was answered until then, from whichever of the three nodes.
`refine` is the fast loop F^C, `birth_death` the slow loop F^T. The state knows a question and never a task.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Literal

from langgraph.graph import START, StateGraph

from selfwire.core.usage import Usage
from selfwire.evolvers.tacomas.config import TacomasConfig
from selfwire.evolvers.tacomas.rounds import is_slow
from selfwire.graphs.node_wrappers import make_node
from selfwire.graphs.run_context import context_schema, get_run_context
from selfwire.graphs.run_start import RunStart
from selfwire.graphs.tacomas.method import Tacomas
from selfwire.graphs.tacomas.nodes import Step, TacomasNodes
from selfwire.graphs.tacomas.state import TacomasContext, TacomasInput, TacomasState, get_rounds
from selfwire.graphs.team import Team, compile_team, make_team_node
from selfwire.runtime.ledger import Ledger

Wire = Callable[[TacomasContext, Usage], Awaitable[tuple[Tacomas, Ledger | None]]]
"""Wires the method as a run has chosen it; with the ledger that pays from what was spent on the question, if any."""

TacomasGraph = StateGraph[TacomasState, Any, Any, Any]


def build_state_graph(config: TacomasConfig, opening: RunStart[TacomasContext], wire: Wire) -> TacomasGraph:
    """The whole machine, ready to compile.

    Args:
        config: the method's knobs.
        opening: what a run begins with.
        wire: the method as it is paid for.
    """

    async def steps(spent: Usage) -> TacomasNodes:
        context = get_run_context(TacomasContext)
        tacomas, ledger = await wire(context, spent)
        if context.rounds:
            tacomas = replace(tacomas, config=tacomas.config.replace(rounds=context.rounds))
        return TacomasNodes(tacomas, opening, ledger)

    def paid(step: Step) -> Any:
        async def run(state: TacomasState) -> TacomasState:
            return await step(await steps(Usage.model_validate(state["usage"])), state)

        return run

    async def team_round(state: TacomasState, team: Team) -> TacomasState:
        played: TacomasState = await paid(TacomasNodes.round)(state)
        return played

    async def init_graph(state: TacomasState) -> TacomasState:
        return await (await steps(Usage())).init_graph(state)  # a new question has a budget of its own

    def slow_round_or_end(state: TacomasState) -> Literal["birth_death", "round", "__end__"]:
        slow = config.topology and is_slow(get_rounds(state), interval=config.interval)
        return "birth_death" if slow and not state["figures"] else _round_or_end(state)

    schema = context_schema(TacomasContext, opening.start)
    graph: TacomasGraph = StateGraph(TacomasState, context_schema=schema, input_schema=TacomasInput)
    graph.add_node("init_graph", make_node(init_graph))
    graph.add_node("round", make_team_node(compile_team(opening.start.topology), team_round))
    for name, step in (
        ("judge", TacomasNodes.judge),
        ("refine", TacomasNodes.refine),
        ("birth_death", TacomasNodes.birth_death),
    ):
        graph.add_node(name, make_node(paid(step)))
    graph.add_edge(START, "init_graph")
    graph.add_edge("init_graph", "round")
    graph.add_edge("round", "judge")
    graph.add_conditional_edges("judge", _refine_or_end)
    graph.add_conditional_edges("refine", slow_round_or_end)
    graph.add_conditional_edges("birth_death", _round_or_end)
    return graph


def steps_needed(rounds: int) -> int:
    """LangGraph's recursion limit for that many rounds: four nodes each, and what begins and ends."""
    return 4 * rounds + 4


def _refine_or_end(state: TacomasState) -> Literal["refine", "__end__"]:
    return "__end__" if state["figures"] else "refine"


def _round_or_end(state: TacomasState) -> Literal["round", "__end__"]:
    return "__end__" if state["figures"] else "round"
