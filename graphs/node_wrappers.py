"""Nodes of method graphs in both forms, from one async function."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.runnables.config import ensure_config, set_config_context

from selfwire.runtime.sync import run_sync

State = TypeVar("State")

DETACHED: RunnableConfig = {"configurable": {"__pregel_checkpointer": None, "__pregel_durability": "exit"}}
"""Config of an inner graph that runs many times in one node: LangGraph would tell the runs apart by the order
in which they start, which a resumed run does not repeat; the journal recovers such runs instead."""


class Choice(Runnable[State, str]):
    """A conditional edge in both forms; a RunnableLambda opens a traced run, a plain function a thread every time."""

    name = "choice"

    def __init__(self, decide: Callable[[State], str]) -> None:
        self.decide = decide

    def invoke(self, input: State, config: RunnableConfig | None = None, **kwargs: Any) -> str:
        """Decide."""
        with set_config_context(ensure_config(config)) as context:  # so that the run's choices can be read
            return context.run(self.decide, input)

    async def ainvoke(self, input: State, config: RunnableConfig | None = None, **kwargs: Any) -> str:
        """Decide."""
        return self.invoke(input, config)


def make_node(step: Callable[[State], Coroutine[Any, Any, Any]]) -> RunnableLambda[State, Any]:
    """A node that serves `invoke` and `ainvoke`."""

    def run_blocking(state: State) -> Any:
        return run_sync(step(state))

    return RunnableLambda(run_blocking, afunc=step)
