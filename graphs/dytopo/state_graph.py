"""DyTopo's figure as a LangGraph (Alg. 1).

    START -> begin -> workers (all in parallel) -> induce_topology -> deliver -> manager
                         ^                                               |          |
                         +------- [another round, no manager] -----------+          |
                         +------- [not complete, rounds left] ----------------------+
                                       [complete, T_max, or all workers failed] -> conclude -> END

State is JSON. Inside `workers` runs a graph with one node per worker; the graph that they talk over is data.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from langgraph.graph.state import CompiledStateGraph

from selfwire.core.usage import Usage
from selfwire.core.workflow import Workflow
from selfwire.evolvers.dytopo.config import DytopoConfig
from selfwire.evolvers.dytopo.domain import MANAGER, MEMORY, get_workers
from selfwire.graphs.dytopo.nodes import DytopoActions, DytopoNodes
from selfwire.graphs.dytopo.state import DytopoContext, DytopoState
from selfwire.graphs.dytopo.worker_graph import compile_workers
from selfwire.graphs.method_graph import END, START, Graph, MethodGraph
from selfwire.graphs.run_context import get_run_context
from selfwire.graphs.run_start import RunStart
from selfwire.runtime.ledger import Ledger

Provide = Callable[[Any, Usage], Awaitable[tuple[DytopoActions, Ledger | None]]]


def build_state_graph(config: DytopoConfig, start: RunStart, provide: Provide) -> Graph:
    """The whole graph around a team, ready to compile; `provide` makes the method with the ledger that pays for it."""

    async def make_nodes(spent: Usage) -> DytopoNodes:
        context = get_run_context(DytopoContext)
        dytopo, ledger = await provide(context, spent)
        if context.rounds:
            dytopo = replace(dytopo, config=dytopo.config.replace(rounds=context.rounds))
        return DytopoNodes(dytopo, start, ledger)

    return _connect(config, make_nodes, start.initial_workflow)


def compile_solver(dytopo: DytopoActions) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The graph for runs with a `SolveContext`; it has no ledger."""

    async def make_nodes(spent: Usage) -> DytopoNodes:
        return DytopoNodes(dytopo)

    return _connect(dytopo.config, make_nodes).compile(name=MEMORY)


def _connect(
    config: DytopoConfig, make_nodes: Callable[[Usage], Awaitable[DytopoNodes]], drawn: Workflow | None = None
) -> Graph:
    def manager_or_next(state: DytopoState) -> str:
        halts = config.halting and state.stopped != "failed"
        asked = config.manager and (halts or not state.stopped)  # the goal of a last round has no reader (D11)
        return "manager" if asked else workers_or_conclude(state)

    graph = MethodGraph(DytopoState, make_nodes, DytopoContext, drawn, {MANAGER: "manager"})
    graph.node("begin", DytopoNodes.begin, first=True)
    if drawn:
        graph.team("workers", DytopoNodes.workers, compile_workers(get_workers(drawn)), charge=True)
    else:
        graph.node("workers", DytopoNodes.workers)
    graph.node("induce_topology", DytopoNodes.induce_topology)
    graph.node("deliver", DytopoNodes.deliver)
    graph.node("manager", DytopoNodes.manager, charge=True)
    graph.node("conclude", DytopoNodes.conclude)
    graph.edges(START, "begin", "workers", "induce_topology", "deliver")
    graph.choose("deliver", manager_or_next, "manager", "workers", "conclude")
    graph.choose("manager", workers_or_conclude, "workers", "conclude")
    graph.edges("conclude", END)
    return graph.graph


def workers_or_conclude(state: DytopoState) -> str:
    """Another round, unless the run is complete or out of rounds."""
    return "conclude" if state.stopped else "workers"
