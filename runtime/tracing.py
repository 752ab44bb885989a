"""Tags and metadata of traces, and calls that are never traced."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import ContextVar
from typing import Any, TypeVar

from langchain_core.callbacks import AsyncCallbackManager
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.runnables.config import set_config_context, var_child_runnable_config
from langsmith import tracing_context

from selfwire.core.scope import Scope
from selfwire.core.values import FrozenMap

T = TypeVar("T")

TAGGED = tuple((name, f"selfwire_{name}") for name in ("method", "workflow", "iteration", "phase", "agent"))
"""Labels that are both tags and metadata, with their names in the metadata."""
COORDINATES = tuple((name, f"selfwire_{name}") for name in Scope.__pydantic_fields__)
"""Fields of a scope, with their names in the metadata."""

_unobserved: ContextVar[RunnableConfig | None] = ContextVar("unwatched", default=None)
"""The config that was set where nothing observed; as long as it is the current one, nothing does."""


def make_trace_config(
    scope: Scope, labels: Mapping[str, str] = FrozenMap(), *, around: Mapping[str, Any] = FrozenMap()
) -> RunnableConfig:
    """Make the tags and metadata of a scope and further labels, which all runs below inherit.

    Labels and agent in the metadata of the run `around` have priority: a team knows its workflow, and a node its agent.
    `agent` is the node without turn and call (`solve` of `solve#1.0`), which `selfwire_node` has.
    """
    all_labels = {"agent": scope.node.partition("#")[0].partition(">")[0], **labels}
    metadata = {key: value for name, key in COORDINATES if (value := getattr(scope, name)) != ""}
    for name, value in all_labels.items():
        if value != "" and (key := f"selfwire_{name}") not in around:
            metadata[key] = value
    return {"tags": [f"{name}:{metadata[key]}" for name, key in TAGGED if key in metadata], "metadata": metadata}


def is_observed(config: RunnableConfig | None = None) -> bool:
    """Whether anything observes this place: a callback, a tracer, a debugger, or a graph that may stream it."""
    around, own = var_child_runnable_config.get() or {}, (config or {}).get("callbacks")
    if around is _unobserved.get() and not own:
        return False
    if around.get("configurable"):  # never empty inside a graph
        return True
    return has_listeners(config)


def has_listeners(config: RunnableConfig | None = None) -> bool:
    """Whether a call of a model from here would be told to a callback, a tracer or a graph that streams messages."""
    around, own = var_child_runnable_config.get() or {}, (config or {}).get("callbacks")
    if around is _unobserved.get() and not own:
        return False
    callbacks = around.get("callbacks")
    if getattr(callbacks, "handlers", callbacks):
        return True
    return bool(AsyncCallbackManager.configure(None, own).handlers)  # a manager without handlers would be copied


class InheritedConfig:
    """Lets runs below inherit tags and metadata as from a run around them, where nothing observes."""

    def __init__(self, *places: RunnableConfig | None) -> None:
        self.places = places

    def __enter__(self) -> None:
        around = var_child_runnable_config.get() or RunnableConfig()
        tags, metadata = [*(around.get("tags") or ())], {**(around.get("metadata") or {})}
        for place in self.places:
            if place:
                tags += place.get("tags") or ()
                metadata |= place.get("metadata") or {}
        here: RunnableConfig = {**around, "tags": [*dict.fromkeys(tags)], "metadata": metadata}
        self.config, self.mark = var_child_runnable_config.set(here), _unobserved.set(here)

    def __exit__(self, *_: object) -> None:
        _unobserved.reset(self.mark)
        var_child_runnable_config.reset(self.config)


async def trace_step(
    name: str,
    step: Callable[[], Awaitable[T]],
    config: RunnableConfig,
    *,
    given: Callable[[], Any],
    summarize: Callable[[T], Any],
) -> T:
    """Run a step as its own run in traces, with the input `given` and the output that `summarize` makes of its result.

    Where nothing observes, only runs below inherit its tags and metadata.
    """
    if not is_observed(config):
        with InheritedConfig(config):
            return await step()
    found: list[T] = []

    async def shown(_: Any) -> Any:
        found.append(await step())
        return summarize(found[0])

    await RunnableLambda(shown, name=name).ainvoke(given(), config)
    return found[0]


async def untraced(call: Coroutine[Any, Any, T]) -> T:
    """Await a call that no trace may show, such as a grader, which reads references.

    It gets no callbacks, tags and parents of the running graph, and LangSmith records nothing below it.
    """
    if not is_observed():
        return await call
    with tracing_context(enabled=False, parent=False), set_config_context(RunnableConfig()) as context:
        return await asyncio.create_task(call, context=context)
