"""A team: a topology compiled to LangGraph.

A node of the topology is a node of the graph, and its conditional edges are the router's choice among its successors.
One superstep is one level. A node runs once, after all nodes that chose it: an edge that skips levels passes through
relays (`solve@2` waits for `solve` in level 2). The sink is deferred instead, unless nodes are loose or in a cycle,
where LangGraph would draw undeclared edges to it. Edges that close a cycle are drawn, trigger nothing, and deliver in
the next round.

Agents, prompts and router come at run time as a `TeamContext`, so compiled teams are cached by topology alone. Where
nothing observes a run, `run_team` takes the same turns without the graph (`team_levels`).
"""

from collections.abc import Callable, Coroutine, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, TypeVar

from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.runnables.config import merge_configs
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import get_runtime
from typing_extensions import TypedDict  # pydantic makes no schema of Python 3.11's own

from selfwire.core.errors import ConfigError, TopologyError
from selfwire.core.topology import ToleratedProblems, Topology, find_reachable
from selfwire.core.trajectory import Message, Step, Trajectory
from selfwire.graphs.agent_node import TeamContext, run_agent_node
from selfwire.graphs.interrupts import get_interrupts
from selfwire.graphs.layout import Layout
from selfwire.graphs.team_levels import describe_turn, needs_graph, run_levels
from selfwire.runtime.sync import run_sync
from selfwire.runtime.tracing import make_trace_config

LENIENT = ToleratedProblems(cycles=True, loose=True)
"""Tolerates every team that can run: cycles deliver a round later, and loose nodes are never chosen."""

CACHED_TEAMS = 256
"""Most compiled teams that are kept; the least recently used goes first."""

State = TypeVar("State")
Update = dict[str, Any]


def _merge_steps(steps: Update, more: Update | None) -> Update:
    return {} if more is None else {**steps, **more}


class TeamState(TypedDict):
    """State of a team; the underscores keep the names apart from node ids."""

    _steps: Annotated[dict[str, Any], _merge_steps]
    """Steps as JSON by node, without inboxes; writing None begins a round."""
    _carried: list[dict[str, str]]
    """Messages of earlier rounds that travel along closing edges."""


Team = CompiledStateGraph[TeamState, TeamContext, TeamState, TeamState]
"""A compiled team: `await team.ainvoke(team_input(), context=TeamContext(...))`, or `run_team`."""


def compile_team(topology: Topology, *, policy: ToleratedProblems = LENIENT) -> Team:
    """Compile a topology, or take it from the cache.

    Raises:
        TopologyError: the topology has problems that the policy forbids; all are listed.
    """
    return _compiled(_check(topology, policy))


def _check(topology: Topology, policy: ToleratedProblems) -> "_ByFingerprint":
    key = _ByFingerprint(topology.fingerprint, topology)
    problems = _problems(key, policy)
    if problems:
        raise TopologyError(f"the topology cannot run: {'; '.join(problems)}; repair it or allow them by policy")
    return key


def team_input(carried: Sequence[Message] = ()) -> TeamState:
    """The input of a round; carried messages come from `get_pending_messages` after the round before."""
    first: Any = None
    return {"_steps": first, "_carried": [message.model_dump() for message in carried]}


async def run_team(
    topology: Topology, run: TeamContext, *, carried: Sequence[Message] = (), config: RunnableConfig | None = None
) -> Trajectory:
    """Run a team once, as one round.

    Args:
        config: LangGraph's; inside a node of another graph it is inherited.

    Returns:
        The steps of all nodes. Without an answer of the sink, `answer` is None and `error` says why.

    Raises:
        TopologyError: the topology cannot run.
        BudgetError, ConfigError, ...: errors of agents, except ModelError.
    """
    key, here = _check(topology, LENIENT), make_trace_config(run.scope, {"workflow": run.workflow})
    stops = {} if config else get_interrupts()
    if not stops and not needs_graph(config):
        steps = await run_levels(_layout(key), run, team_input(carried)["_carried"], config, here)
        return _trajectory(topology, run, steps)
    merged = merge_configs(config, here)
    if config and "configurable" in config:  # the surrounding run's config wins over the first that is merged
        merged["configurable"] = {**merged["configurable"], **config["configurable"]}
    while True:
        done = to_trajectory(
            topology, run, await _compiled(key).ainvoke(team_input(carried), merged, context=run, **stops)
        )
        if done.error is None or run.acted:
            return done  # otherwise the run ended without an answer before it was resumed: run again


def to_trajectory(topology: Topology, run: TeamContext, state: Mapping[str, Any]) -> Trajectory:
    """The trajectory of a team's final state."""
    layout, done = _layout(_key(topology)), state["_steps"]
    steps = [
        Step(**done[node], inbox=layout.inbox(node, done, state["_carried"])) for node in layout.order if node in done
    ]
    return _trajectory(topology, run, steps)


def _trajectory(topology: Topology, run: TeamContext, steps: Sequence[Step]) -> Trajectory:
    last = next((step for step in steps if step.node == topology.sink), None)
    error = _why_no_answer(topology, steps) if last is None or last.error else None
    return Trajectory(
        question=run.question,
        workflow=run.workflow,
        steps=tuple(steps),
        answer=None if last is None or error else last.output,
        error=error,
        sample=run.scope.sample,
    )


def get_pending_messages(topology: Topology, done: Trajectory, carried: Sequence[Message] = ()) -> tuple[Message, ...]:
    """Messages for the next round: those carried into this one and not read, oldest first, then the new ones."""
    forward = Layout(topology).forward
    readers = {step.node for step in done.steps if step.error is None}
    unread = [message for message in carried if message.target in topology.agents and message.target not in readers]
    new = [m for step in done.steps for m in step.sent if m.target not in forward[m.source]]
    return (*unread, *new)


def make_team_node(team: Team, step: Callable[[State, Team], Coroutine[Any, Any, Any]]) -> RunnableLambda[State, Any]:
    """A node of a method's graph in which a team runs.

    LangGraph draws the team inside the node (`get_graph(xray=True)`) because the node's sync form holds it.

    Args:
        step: the node, called with state and team; it may run another team, where the topology has changed since.
    """

    async def run(state: State) -> Any:
        return await step(state, team)

    def run_blocking(state: State) -> Any:
        return run_sync(step(state, team))

    return RunnableLambda(run_blocking, afunc=run)


def _why_no_answer(topology: Topology, steps: Sequence[Step]) -> str:
    failed = {step.node: step.error for step in steps if step.error}
    if topology.sink in failed:
        return f"sink {topology.sink!r} failed: {failed[topology.sink]}"
    why = "; ".join(f"{node!r} failed: {error}" for node, error in failed.items()) or "no node handed on to it"
    return f"sink {topology.sink!r} received nothing: {why}"


@dataclass(frozen=True)
class _ByFingerprint:
    fingerprint: str
    topology: Topology = field(compare=False)


def _key(topology: Topology) -> _ByFingerprint:
    return _ByFingerprint(topology.fingerprint, topology)


@lru_cache(maxsize=CACHED_TEAMS)
def _problems(key: _ByFingerprint, policy: ToleratedProblems) -> tuple[str, ...]:
    return tuple(str(problem) for problem in key.topology.problems(policy))


@lru_cache(maxsize=CACHED_TEAMS)
def _layout(key: _ByFingerprint) -> Layout:
    return Layout(key.topology)


@lru_cache(maxsize=CACHED_TEAMS)
def _compiled(key: _ByFingerprint) -> Team:
    layout = _layout(key)
    topology, graph = key.topology, StateGraph[TeamState, TeamContext, TeamState, TeamState](TeamState)
    deferred = layout.deferred
    for node, agent in topology.agents.items():
        metadata = describe_turn(node, agent)["metadata"]
        graph.add_node(node, _Turn(layout, node), defer=node == deferred, metadata=metadata)
    relays = _add_relays(graph, layout, deferred)
    graph.add_edge(START, topology.entry)
    graph.add_edge(topology.sink, END)
    for node, successors in topology.successors.items():
        if successors:
            ways: dict[Hashable, str] = {s: relays.get((s, layout.depth[node] + 1), s) for s in successors}
            if node == topology.sink:
                ways[END] = END  # else the drawing ends at some other node
            graph.add_conditional_edges(node, _Chosen(node, layout.forward[node]), ways)
    team = graph.compile(name="team")
    for node, agent in topology.agents.items():
        team.nodes[node].tags = describe_turn(node, agent)["tags"]  # `add_node` takes metadata but no tags
    return team.with_config(recursion_limit=len(topology.levels()) + 2)


def _add_relays(
    graph: StateGraph[TeamState, TeamContext], layout: Layout, deferred: str | None
) -> dict[tuple[str, int], str]:
    """Chains of relays for every node but the deferred one that an edge reaches across levels, by node and level."""
    relays: dict[tuple[str, int], str] = {}
    reached = find_reachable({n: tuple(ways) for n, ways in layout.forward.items()}, [layout.topology.entry])
    for node in sorted(reached - {deferred}):
        above = [layout.depth[source] for source in layout.sources[node] if source in reached]
        highest, after = min(above, default=layout.depth[node]), node
        for level in range(layout.depth[node] - 1, highest, -1):
            relays[node, level] = relay = f"{node}@{level}"
            graph.add_node(relay, _Relay())
            graph.add_edge(relay, after)
            after = relay
    return relays


class _Turn(Runnable[TeamState, Update]):
    """A node's turn in both forms; a RunnableLambda would open a traced run inside the node's own."""

    def __init__(self, layout: Layout, node: str) -> None:
        self.layout, self.node = layout, node

    def invoke(self, input: TeamState, config: RunnableConfig | None = None, **kwargs: Any) -> Update:
        return run_sync(self.ainvoke(input, config))

    async def ainvoke(self, input: TeamState, config: RunnableConfig | None = None, **kwargs: Any) -> Update:
        run = get_runtime(TeamContext).context
        if not isinstance(run, TeamContext):
            raise ConfigError("a team runs in a context; pass context=TeamContext(...) or call run_team")
        done = await run_agent_node(self.layout, self.node, run, input["_steps"], input["_carried"])
        return {"_steps": {self.node: done.json}}


class _Chosen(Runnable[TeamState, list[str]]):
    name = "chosen"

    def __init__(self, node: str, forward: frozenset[str]) -> None:
        self.node, self.forward = node, forward

    def invoke(self, input: TeamState, config: RunnableConfig | None = None, **kwargs: Any) -> list[str]:
        sent = input["_steps"][self.node].get("sent", ())
        return [message["target"] for message in sent if message["target"] in self.forward]

    async def ainvoke(self, input: TeamState, config: RunnableConfig | None = None, **kwargs: Any) -> list[str]:
        return self.invoke(input)


class _Relay(Runnable[TeamState, Update]):
    def invoke(self, input: TeamState, config: RunnableConfig | None = None, **kwargs: Any) -> Update:
        return {}

    async def ainvoke(self, input: TeamState, config: RunnableConfig | None = None, **kwargs: Any) -> Update:
        return {}
