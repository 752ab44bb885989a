"""Interrupts at agents inside a team: LangGraph's own know the nodes of one graph only.

A method's graph takes `interrupt_before` and `interrupt_after` with names of its own nodes and of nodes of the team
that runs inside one of them. The latter travel in the run's config to the node that runs the team.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

from selfwire.core.errors import ConfigError

WHEN = ("interrupt_before", "interrupt_after")
_KEY = "__selfwire_interrupts"  # LangGraph keeps keys with two underscores out of the checkpoints' metadata


class MethodStateGraph(StateGraph[Any, Any, Any, Any]):
    """A graph in whose nodes a team runs.

    Attributes:
        inner: nodes of the team, at which a run may be interrupted.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.inner: set[str] = set()

    def compile(self, *args: Any, **options: Any) -> "InterruptibleGraph":
        """As LangGraph's."""
        compiled = super().compile(*args, **options)
        made = InterruptibleGraph.__new__(InterruptibleGraph)
        vars(made).update(vars(compiled))
        return made


class InterruptibleGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph that can also be interrupted at nodes of the team inside it, if it has a checkpointer."""

    def stream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """As LangGraph's; raises ConfigError if an interrupt names no node."""
        config, options = self._hand_down(config, options)
        return super().stream(input, config, **options)

    def astream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """As LangGraph's; raises ConfigError if an interrupt names no node."""
        config, options = self._hand_down(config, options)
        return super().astream(input, config, **options)

    def _hand_down(
        self, config: RunnableConfig | None, options: dict[str, Any]
    ) -> tuple[RunnableConfig | None, dict[str, Any]]:
        inner: dict[str, list[str]] = {}
        for when in WHEN:
            names = options.get(when)
            if not names or isinstance(names, str):  # "*" is every node of this graph
                continue
            own = [name for name in names if name in self.nodes]
            inner[when] = [self._find_inner(name) for name in names if name not in self.nodes]
            options = {**options, when: own}
        if not any(inner.values()):
            return config, options
        config = config or {}
        return {**config, "configurable": {**config.get("configurable", {}), _KEY: inner}}, options

    def _find_inner(self, name: str) -> str:
        known: Iterable[str] = getattr(self.builder, "inner", ())
        outer, _, node = name.rpartition(":")  # the drawing calls it forward:source
        if node in known and (not outer or outer in self.nodes):
            return node
        nodes = [one for one in self.nodes if not one.startswith("__")]
        raise ConfigError(
            f"there is no node {name!r} to interrupt at; the graph has {', '.join(nodes)}, and the team inside it "
            f"{', '.join(sorted(known)) or 'none'}"
        )


def get_interrupts() -> Mapping[str, Any]:
    """Where the current run is to be interrupted in a team, as options of `ainvoke`."""
    found: Mapping[str, Any] = ensure_config().get("configurable", {}).get(_KEY, {})
    return found
