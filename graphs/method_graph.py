"""Builds a method's graph: nodes that read typed state, edges that decide by it, and the drawn team."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import nullcontext
from itertools import pairwise
from typing import Any, Generic, TypeVar

from langgraph.graph import END, START, StateGraph

from selfwire.core.topology import Topology
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenMap, is_id
from selfwire.core.workflow import Workflow
from selfwire.graphs.chat import append_answer, take_question
from selfwire.graphs.interrupts import MethodStateGraph
from selfwire.graphs.node_wrappers import Choice, make_node
from selfwire.graphs.run_context import RunContext, context_schema
from selfwire.graphs.team import compile_team, make_team_node
from selfwire.graphs.typed_state import Input, State, Update
from selfwire.runtime.ledger import Ledger, enforce_deadline

Nodes = TypeVar("Nodes")
StateT = TypeVar("StateT", bound=State)
Step = Callable[[Nodes, StateT], Awaitable[Update]]
Graph = StateGraph[Any, Any, Any, Any]
"""Takes an `Input` and the method's context, both also as plain dicts; gives the state's channels as a dict."""


class MethodGraph(Generic[Nodes, StateT]):
    """A graph under construction.

    Args:
        provide: makes the nodes for one step; pays from the question's cost so far.
        context: what can be chosen per run; None for a graph that only the package runs.
        agent_nodes: nodes of agents without one, as `context_schema` takes them.
    """

    def __init__(
        self,
        state: type[StateT],
        provide: Callable[[Usage], Awaitable[Nodes]],
        context: type[RunContext] | None = None,
        workflow: Workflow | None = None,
        agent_nodes: Mapping[str, str] = FrozenMap(),
    ) -> None:
        self._state, self._provide = state, provide
        schema = context_schema(context, workflow, agent_nodes) if context and workflow else context
        self.graph = MethodStateGraph(state, context_schema=schema, input_schema=Input if schema else state)
        self._agent_nodes = agent_nodes

    def node(
        self,
        name: str,
        step: Step[Nodes, StateT],
        *,
        first: bool = False,
        charge: bool = False,
        nodes: Nodes | None = None,
    ) -> None:
        """Add a node.

        Args:
            first: it takes a new question, which has a budget of its own; a chat client's message becomes one.
            charge: write what the nodes' `ledger` has spent to the state after the step.
            nodes: takes the step without asking `provide`, for one that calls no model.
        """
        self.graph.add_node(name, make_node(self._bind(step, first, charge, nodes)))

    def team(self, name: str, step: Step[Nodes, StateT], drawn: Topology | Any, *, charge: bool = False) -> None:
        """Add the node in which a team runs; the topology, or a compiled graph, is drawn inside it."""
        compiled = compile_team(drawn) if isinstance(drawn, Topology) else drawn
        self.graph.inner.update(node for node in compiled.nodes if is_id(node))  # no relay
        self.graph.inner.update(agent for agent, node in self._agent_nodes.items() if node == name)
        run = self._bind(step, False, charge, None)

        async def run_in_team(channels: Any, _: Any) -> Update:
            return await run(channels)

        self.graph.add_node(name, make_team_node(compiled, run_in_team))

    def edges(self, *names: str) -> None:
        """Connect nodes one after another."""
        for source, target in pairwise(names):
            self.graph.add_edge(source, target)

    def choose(self, source: str, decide: Callable[[StateT], str], *targets: str) -> None:
        """Have the state decide where a node leads."""

        def choose_target(channels: Any) -> str:
            return decide(self._state(channels))

        self.graph.add_conditional_edges(source, Choice(choose_target), list(targets))

    def _bind(
        self, step: Step[Nodes, StateT], first: bool, charge: bool, nodes: Nodes | None
    ) -> Callable[[Any], Coroutine[Any, Any, Update]]:
        async def run(channels: Any) -> Update:
            asked = take_question(channels) if first else {}
            channels = {**channels, **asked}
            state = self._state(channels)
            chosen = await self._provide(Usage() if first else state.usage) if nodes is None else nodes
            ledger: Ledger | None = getattr(chosen, "ledger", None)
            async with enforce_deadline(ledger) if ledger else nullcontext():
                update = await step(chosen, state)
            if ledger and charge:
                update = {**update, **state.update(usage=ledger.spent)}
            return {**asked, **update, **append_answer(channels, update)}

        return run


__all__ = ["END", "START", "Graph", "MethodGraph"]
