"""EvoMAS's figure as a LangGraph (Alg. 1).

    START -> begin -> plan -> adapt -> layers (the drawn team) -> evaluate -> update_state
                       ^  |     |                                  ^            |   |
                       |  |     +-> [only Early-exit was drawn] ---+            |   |
                       |  +-> [nothing is left to do] conclude                  |   |
                       +-------- [subtasks and stages are left] ----------------+   |
                                 [done, early exit, or T stages] conclude -> END <--+

`adapt` is the learned router: the edge behind it follows what was drawn. The state knows a question and never a task.
A planner or an evaluator that fails ends the run with the best answer until then.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from selfwire.core.usage import Usage
from selfwire.evolvers.evomas.config import EvomasConfig
from selfwire.evolvers.evomas.pool import EARLY_EXIT
from selfwire.graphs.evomas.actions import EvomasActions
from selfwire.graphs.evomas.nodes import EvomasNodes
from selfwire.graphs.evomas.stage import make_whole_topology, place_agents
from selfwire.graphs.evomas.state import EvomasContext, EvomasState
from selfwire.graphs.method_graph import END, START, Graph, MethodGraph
from selfwire.graphs.run_context import get_run_context
from selfwire.graphs.run_start import RunStart
from selfwire.graphs.trained_router.heads import get_sampling
from selfwire.runtime.ledger import Ledger

Provide = Callable[[Any, Usage], Awaitable[tuple[EvomasActions, Ledger | None]]]


def build_state_graph(config: EvomasConfig, start: RunStart, provide: Provide) -> Graph:
    """The whole graph, ready to compile; `provide` makes the method with the ledger that pays for it."""

    async def make_nodes(spent: Usage) -> EvomasNodes:
        context = get_run_context(EvomasContext)
        evomas, ledger = await provide(context, spent)
        if context.stages:
            evomas = replace(evomas, config=evomas.config.replace(stages=context.stages))
        return EvomasNodes(evomas, start, ledger)

    layers = get_sampling(start.initial_workflow, config.routing).layers
    placed = place_agents(start.initial_workflow, layers)
    graph = MethodGraph(EvomasState, make_nodes, EvomasContext, placed, {EARLY_EXIT: "adapt"})
    graph.node("begin", EvomasNodes.begin, first=True)
    graph.node("plan", EvomasNodes.plan)
    graph.node("adapt", EvomasNodes.adapt)
    graph.team("layers", EvomasNodes.layers, make_whole_topology(start.initial_workflow, layers))
    graph.node("evaluate", EvomasNodes.evaluate)
    graph.node("update_state", EvomasNodes.update_state)
    graph.node("conclude", EvomasNodes.conclude)
    graph.edges(START, "begin", "plan")
    graph.choose("plan", adapt_or_conclude, "adapt", "conclude")
    graph.choose("adapt", route_stage, "layers", "evaluate")
    graph.edges("layers", "evaluate", "update_state")
    graph.choose("update_state", plan_or_conclude, "plan", "conclude")
    graph.edges("conclude", END)
    return graph.graph


def adapt_or_conclude(state: EvomasState) -> str:
    """A workflow for the active subtask; the end where the planner left none."""
    return "conclude" if state.status else "adapt"


def plan_or_conclude(state: EvomasState) -> str:
    """Another stage, unless the run is over."""
    return "conclude" if state.status else "plan"


def route_stage(state: EvomasState) -> str:
    """The team of the drawn layers, unless Early-exit alone was drawn."""
    return "layers" if state.present.layers_to_run else "evaluate"
