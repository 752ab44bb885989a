"""Runs a method's graph to its end; a run that a budget or an outage stops gives its partial result."""

from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph

from selfwire.core.errors import StoppedError
from selfwire.core.trajectory import Trajectory


async def run_to_end(
    graph: CompiledStateGraph[Any, Any, Any, Any],
    given: Mapping[str, Any],
    config: RunnableConfig,
    *,
    so_far: Callable[[Mapping[str, Any]], Trajectory | None],
    context: Any = None,
) -> dict[str, Any]:
    """The graph's final state.

    Args:
        so_far: makes a trajectory of an unfinished state; None where it holds no answer yet.

    Raises:
        BudgetError, OutageError: the run must stop; `partial_result` holds the result of its last finished step.
    """
    state: dict[str, Any] = {}
    try:
        async for values in graph.astream(given, config, context=context, stream_mode="values"):
            state = values
    except StoppedError as error:
        if error.partial_result is None:
            started = "usage" in state  # before the first step there is only the input
            error.partial_result = so_far(state) if started else None
        raise
    return state
