"""The graph of the outer evolution; runs and resumes it."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph

from selfwire.graphs.evolution.config import EvolutionContext
from selfwire.graphs.evolution.nodes import EvolutionNodes, EvolutionState

Event = dict[str, Any]
"""Progress: phase, iteration and spend; done, total, score, outcome and why where they are known."""


def build(context: EvolutionContext) -> StateGraph[EvolutionState]:
    """The graph of an evolution, ready to compile with a checkpointer."""
    phases = EvolutionNodes(context)

    def more(state: EvolutionState) -> Literal["rollout", "test", "__end__"]:
        if state["iteration"] < context.config.iterations:
            return "rollout"
        return "test" if context.splits.test else "__end__"

    graph = StateGraph(EvolutionState)
    graph.add_node("begin", phases.begin)
    graph.add_sequence([phases.rollout, phases.evolve, phases.gate, phases.save])
    graph.add_node("test", phases.test)
    graph.add_edge(START, "begin")
    graph.add_conditional_edges("begin", more)
    graph.add_conditional_edges("save", more)
    graph.add_edge("test", END)
    return graph


async def run_evolution(
    context: EvolutionContext, saver: BaseCheckpointSaver[Any], on_event: Callable[[Event], None] = lambda event: None
) -> EvolutionState:
    """Start an evolution, or resume it after its last finished superstep.

    Of a finished one only test tasks that ended as errors are run again; nothing is learned or decided anew.

    Raises:
        BudgetError, OutageError, ModelError: the run stopped early and can be resumed by calling this again.
    """
    graph = build(context).compile(checkpointer=saver)
    config: RunnableConfig = {
        "configurable": {"thread_id": context.run},
        "recursion_limit": 5 * context.config.iterations + 10,
    }
    before = await graph.aget_state(config)
    if before.created_at is not None and not before.tasks and count_failed_tests(before.values):
        await graph.aupdate_state(config, {"test": {}}, as_node="save")
        before = await graph.aget_state(config)
    # a stop between a node's writes and the next checkpoint leaves a task to finish and no `next`
    if before.created_at is None or before.tasks:
        start = EvolutionState() if before.created_at is None else None
        async for event in graph.astream(start, config, stream_mode="custom", durability="sync"):
            on_event(event)
    return cast(EvolutionState, (await graph.aget_state(config)).values)


def count_failed_tests(state: Mapping[str, Any]) -> int:
    """Number of test tasks of a finished evolution that ended as errors, with the seed or the evolved workflow."""
    sides = [side["scores"] for side in (state.get("test") or {}).values()]
    return sum(any(score is None for score in scores) for scores in zip(*sides, strict=True))
