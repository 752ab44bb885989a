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
from typing import Any

from selfwire.core.usage import Usage
from selfwire.evolvers.tacomas.config import TacomasConfig
from selfwire.evolvers.tacomas.rounds import is_slow
from selfwire.graphs.method_graph import END, START, Graph, MethodGraph
from selfwire.graphs.run_context import get_run_context
from selfwire.graphs.run_start import RunStart
from selfwire.graphs.tacomas.actions import TacomasActions
from selfwire.graphs.tacomas.nodes import TacomasNodes
from selfwire.graphs.tacomas.state import TacomasContext, TacomasState
from selfwire.runtime.ledger import Ledger

Provide = Callable[[Any, Usage], Awaitable[tuple[TacomasActions, Ledger | None]]]


def build_state_graph(config: TacomasConfig, start: RunStart, provide: Provide) -> Graph:
    """The whole graph, ready to compile."""

    async def make_nodes(spent: Usage) -> TacomasNodes:
        context = get_run_context(TacomasContext)
        tacomas, ledger = await provide(context, spent)
        if context.rounds:
            tacomas = replace(tacomas, config=tacomas.config.replace(rounds=context.rounds))
        return TacomasNodes(tacomas, start, ledger)

    def round_or_end(state: TacomasState) -> str:
        return END if state.figures else "round"

    def slow_round_or_end(state: TacomasState) -> str:
        slow = config.topology and is_slow(state.rounds, interval=config.interval, threshold=config.threshold)
        return "birth_death" if slow and not state.figures else round_or_end(state)

    graph = MethodGraph(TacomasState, make_nodes, TacomasContext, start.initial_workflow)
    graph.node("init_graph", TacomasNodes.init_graph, first=True)
    graph.team("round", TacomasNodes.round, start.initial_workflow.topology)
    graph.node("judge", TacomasNodes.judge)
    graph.node("refine", TacomasNodes.refine)
    graph.node("birth_death", TacomasNodes.birth_death)
    graph.edges(START, "init_graph", "round", "judge")
    graph.choose("judge", lambda state: END if state.figures else "refine", "refine", END)
    graph.choose("refine", slow_round_or_end, "birth_death", "round", END)
    graph.choose("birth_death", round_or_end, "round", END)
    return graph.graph
