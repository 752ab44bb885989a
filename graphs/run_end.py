"""Runs a method's machine to its end; what a budget or an outage stops tells what it had reached."""

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
    """The machine's final state.

    Args:
        graph: the machine.
        given: its input.
        config: LangGraph's.
        so_far: makes a trajectory of an unfinished state; None where it holds no answer yet.
        context: of the run.

    Raises:
        BudgetError, OutageError: the run must stop; `reached` holds what its last finished step had come to.
    """
    state: dict[str, Any] = {}
    try:
        async for values in graph.astream(given, config, context=context, stream_mode="values"):
            state = values
    except StoppedError as error:
        if error.partial_result is None:
            error.partial_result = (
                so_far(state) if "usage" in state else None
            )  # before the first step there is only the input
        raise
    return state
