"""HiVA's figure as a LangGraph (Alg. 1).

    START -> begin -> forward (the team) -> environment -> loss -> [all solved] update_beliefs -> repair -> END
                         ^    |                             |                      ^             |
                         |    | evolution off:              | [not solved]         |             |
                         |    v END                         v                      |             |
                         |                 backward -> evolve_semantics -> evolve_topology       |
                         +-------------------- [not solved, rounds left] ------------------------+

Before forward, `characterize` names the task's concepts, once, where the bandit has a choice to make (D21).

The nodes from loss on are also a graph of their own, in `learn`: the outer evolution runs the forward pass on a whole
batch and hands in the graded trajectories. The state holds one workflow and one batch, each overwritten.
"""

from collections.abc import Sequence
from typing import Any

from selfwire.core.scope import Scope
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.gradients import count_agreement
from selfwire.evolvers.hiva.memory import HivaMemory
from selfwire.evolvers.hiva.pictures import note_passes
from selfwire.graphs.hiva.actions import HivaActions, needs_concepts
from selfwire.graphs.hiva.nodes import HivaNodes
from selfwire.graphs.hiva.state import HivaContext, HivaState
from selfwire.graphs.method_factory import MethodFactory
from selfwire.graphs.method_graph import END, START, Graph, MethodGraph
from selfwire.graphs.method_protocol import EvolveResult
from selfwire.graphs.node_wrappers import DETACHED
from selfwire.graphs.run_context import get_run_context
from selfwire.graphs.run_start import RunStart


def build_state_graph(config: HivaConfig, start: RunStart, provide: MethodFactory[Any, HivaConfig]) -> Graph:
    """The whole graph, ready to compile; `provide` makes the method of a run, paid by its ledger."""

    async def make_nodes(spent: Usage) -> HivaNodes:
        hiva, ledger = await provide(get_run_context(HivaContext), spent)
        return HivaNodes(hiva, start, ledger)

    def environment_or_end(state: HivaState) -> str:
        return "environment" if get_run_context(HivaContext).evolve else END

    def characterize_or_forward(state: HivaState) -> str:
        return "characterize" if state.concepts is None and needs_concepts(state.workflow, config) else "forward"

    def run_again_or_end(state: HivaState) -> str:
        left = state.iteration < get_run_context(HivaContext).iterations
        return characterize_or_forward(state) if state.solved is False and left else END

    unpaid = HivaNodes(provide.method, start)
    graph = MethodGraph(HivaState, make_nodes, HivaContext, start.initial_workflow)
    graph.node("begin", HivaNodes.begin, first=True, nodes=unpaid)
    graph.team("forward", HivaNodes.forward, start.initial_workflow.topology)
    graph.node("environment", HivaNodes.environment, nodes=unpaid)
    graph.node("characterize", HivaNodes.characterize, charge=True)
    graph.edges(START, "begin")
    graph.choose("begin", characterize_or_forward, "characterize", "forward")
    graph.edges("characterize", "forward")
    graph.choose("forward", environment_or_end, "environment", END)
    graph.edges("environment", "loss")
    _add_learning(graph)
    graph.choose("repair", run_again_or_end, "characterize", "forward", END)
    return graph.graph


async def learn(
    hiva: HivaActions, workflow: Workflow, trajectories: Sequence[Trajectory], scope: Scope
) -> EvolveResult:
    """One pass from loss to repair over graded trajectories, as a graph of its own.

    Its notes hold the declined proposals, the first gradients as they flowed back, the number of unsolved tasks, how
    often the mismatch limit left out a candidate (D7), and the cost of the reflection.
    """

    async def make_nodes(spent: Usage) -> HivaNodes:
        return HivaNodes(hiva, RunStart(workflow))

    graph = MethodGraph(HivaState, make_nodes)
    graph.edges(START, "loss")
    _add_learning(graph)
    graph.edges("repair", END)
    given = HivaState.update(workflow=workflow, trajectories=trajectories, scope=scope, iteration=0)
    compiled = graph.graph.compile(name="hiva-learning")
    final = HivaState(await compiled.ainvoke(given, {**DETACHED, "recursion_limit": 12}))
    notes = {
        "declined": final.channels["declined"],
        "gradients": note_passes(final.trajectories, final.passes),
        "unsolved": sum(not loss.solved for loss in final.losses),
        "left_out": HivaMemory.of(final.workflow).left_out - HivaMemory.of(workflow).left_out,
        "meta": {"calls": final.reflection.calls, "tokens": final.reflection.tokens},
    }
    if not hiva.config.environment:
        notes |= count_agreement(trajectories, final.losses)
    return EvolveResult(workflow=final.workflow, applied=final.applied, notes=notes)


def _add_learning(graph: MethodGraph[HivaNodes, HivaState]) -> None:
    def backward_or_update(state: HivaState) -> str:
        return "backward" if any(loss.gradient for loss in state.losses) else "update_beliefs"

    for step in (
        HivaNodes.loss,
        HivaNodes.backward,
        HivaNodes.evolve_semantics,
        HivaNodes.evolve_topology,
        HivaNodes.update_beliefs,
        HivaNodes.repair,
    ):
        graph.node(step.__name__, step, charge=True)
    graph.choose("loss", backward_or_update, "backward", "update_beliefs")
    graph.edges("backward", "evolve_semantics", "evolve_topology", "update_beliefs", "repair")
