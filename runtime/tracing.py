"""What traces say of the place where something ran, and what they never see."""

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
"""Labels that are tags as well as metadata, and what they are called there."""
COORDINATES = tuple((name, f"selfwire_{name}") for name in Scope.__pydantic_fields__)
"""Of a scope, and what they are called in metadata."""

_unwatched: ContextVar[RunnableConfig | None] = ContextVar("unwatched", default=None)
"""The config that was left where nobody watched; while it is the one around, nobody does."""


def make_trace_config(
    scope: Scope, labels: Mapping[str, str] = FrozenMap(), *, around: Mapping[str, Any] = FrozenMap()
) -> RunnableConfig:
    """Tags and metadata of a place; everything that runs below takes them over.

    Args:
        scope: the place; coordinates that are "" are left out.
        labels: what else is known, such as method and workflow fingerprint.
        around: metadata of what runs around it. What it says of labels and agent stays: a team knows the workflow
            that it runs, and its node the agent, better than whoever made the model.

    Returns:
        Tags such as `agent:solve`, and metadata `selfwire_<label>`. `agent` is the node without the turn or call
        that the scope may name (`solve` of `solve#1.0`), which stands in `selfwire_node`.
    """
    said = {"agent": scope.node.partition("#")[0].partition(">")[0], **labels}
    metadata = {key: value for name, key in COORDINATES if (value := getattr(scope, name)) != ""}
    for name, value in said.items():
        if value != "" and (key := f"selfwire_{name}") not in around:
            metadata[key] = value
    return {"tags": [f"{name}:{metadata[key]}" for name, key in TAGGED if key in metadata], "metadata": metadata}


def is_observed(config: RunnableConfig | None = None) -> bool:
    """Whether anybody would hear of what runs here: a callback, a tracer, a debugger, or a graph that may stream it.

    Args:
        config: what it would run with, on top of what runs around it.
    """
    around, own = var_child_runnable_config.get() or {}, (config or {}).get("callbacks")
    if around is _unwatched.get() and not own:
        return False
    if around.get("configurable"):  # never empty inside a graph
        return True
    return bool(AsyncCallbackManager.configure(around.get("callbacks"), own).handlers)


class InheritedConfig:
    """Have what runs below take over tags and metadata, as inside a run that has them; for where nobody watches."""

    def __init__(self, *places: RunnableConfig | None) -> None:
        self.places = places

    def __enter__(self) -> None:
        """Leave the places to what runs below."""
        around = var_child_runnable_config.get() or RunnableConfig()
        tags, metadata = [*(around.get("tags") or ())], {**(around.get("metadata") or {})}
        for place in self.places:
            if place:
                tags += place.get("tags") or ()
                metadata |= place.get("metadata") or {}
        here: RunnableConfig = {**around, "tags": [*dict.fromkeys(tags)], "metadata": metadata}
        self.config, self.mark = var_child_runnable_config.set(here), _unwatched.set(here)

    def __exit__(self, *_: object) -> None:
        """Be where one was before."""
        _unwatched.reset(self.mark)
        var_child_runnable_config.reset(self.config)


async def trace_step(
    name: str,
    step: Callable[[], Awaitable[T]],
    config: RunnableConfig,
    *,
    given: Callable[[], Any],
    told: Callable[[T], Any],
) -> T:
    """Let a step be a run of its own in traces. Where nobody watches, it only leaves its place to what runs below.

    Args:
        name: of the run.
        step: what runs.
        config: says where it runs.
        given: what a trace shows as the input.
        told: what a trace shows of the result.
    """
    if not is_observed(config):
        with InheritedConfig(config):
            return await step()
    found: list[T] = []

    async def shown(_: Any) -> Any:
        found.append(await step())
        return told(found[0])

    await RunnableLambda(shown, name=name).ainvoke(given(), config)
    return found[0]


async def untraced(call: Coroutine[Any, Any, T]) -> T:
    """Await what no trace may see, such as a grader, which reads references.

    Callbacks, tags and parents of the running graph do not reach it, and LangSmith records nothing below it.
    """
    if not is_observed():
        return await call
    with tracing_context(enabled=False, parent=False), set_config_context(RunnableConfig()) as context:
        return await asyncio.create_task(call, context=context)
