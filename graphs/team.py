"""The topology as a LangGraph: the one executor of a team.

A node of the topology is a node of the graph, which names its chosen successors in a `Command`. One superstep is one
level. A node runs once, after all nodes that chose it: an edge that skips levels passes through relays (`solve@2`
waits for `solve` in level 2). The sink is deferred instead, unless nodes are loose or in a cycle, where LangGraph would
draw undeclared edges to it. Edges that close a cycle are drawn, trigger nothing, and deliver in the next round.

Agents, prompts and router come at run time as a `TeamContext`, so compiled teams are cached by topology alone. A
team's state is its steps as plain JSON by node. Everything else follows from them: chosen nodes, waiting messages, a
router's input.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Annotated, Any, TypeVar

from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.runnables.config import merge_configs, var_child_runnable_config
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import get_runtime
from langgraph.types import Command
from typing_extensions import TypedDict  # pydantic makes no schema of Python 3.11's own

from selfwire.core.agent import Agent
from selfwire.core.errors import ConfigError, ModelError, TopologyError, format_error, get_error_cost
from selfwire.core.protocols import AgentRunner, InstructionWriter, Router, RouterInput
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.topology import Topology, TopologyPolicy, find_reachable
from selfwire.core.trajectory import Message, Routing, Step, Trajectory
from selfwire.core.usage import ZERO_USAGE, Usage, sum_usages
from selfwire.graphs.checkpoints import get_interrupts
from selfwire.models.sync import run_sync
from selfwire.models.tracing import make_trace_config


def route_to_all(node: str, successors: tuple[str, ...], known: RouterInput) -> Routing:
    """Choose all successors."""
    return Routing(chosen=successors, why="every successor")


def make_fixed_router(plan: Mapping[str, Sequence[str]]) -> Router:
    """Choose as in a plan of successors by node; a node that is not in it hands on to none."""

    def choose(node: str, successors: tuple[str, ...], known: RouterInput) -> Routing:
        wanted = plan.get(node, ())
        return Routing(chosen=tuple(s for s in successors if s in wanted), why="fixed plan")

    return choose


LENIENT = TopologyPolicy(cycles=True, loose=True)
"""Tolerates every team that can run: cycles deliver a round later, and loose nodes are never chosen."""

CACHED_TEAMS = 256
"""Most compiled teams that are kept; the least recently used goes first."""

State = TypeVar("State")
StepsByNode = Mapping[str, Mapping[str, Any]]
"""Steps as JSON by node, without inboxes, which follow from the sent messages."""


def _merge_steps(steps: dict[str, Any], more: dict[str, Any] | None) -> dict[str, Any]:
    return {} if more is None else {**steps, **more}


class TeamState(TypedDict):
    """State of a team; the underscores keep the names apart from node ids."""

    _steps: Annotated[dict[str, Any], _merge_steps]
    """Steps as JSON by node, without inboxes; writing None begins a round."""
    _carried: list[dict[str, str]]
    """Messages of earlier rounds that travel along closing edges."""


@dataclass(frozen=True, eq=False)
class TeamContext:
    """Everything that a run of a team needs beside its topology; nodes get it as LangGraph's `context`.

    Args:
        scope: coordinates: run, iteration, phase, task, sample; `visit` is the round, from 0.
        router: chooses among a node's successors.
        instruct: writes the message to each chosen successor but the sink; None hands on the output unchanged.
        acted: nodes that have begun their turn; empty after a finished run was resumed.
    """

    question: Question
    scope: Scope
    agents: Mapping[str, Agent]
    act: AgentRunner
    router: Router
    instruct: InstructionWriter | None = None
    workflow: str = ""
    acted: list[str] = field(default_factory=list, init=False, repr=False)
    _level: list["_Level"] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def of(
        cls,
        team: Team,
        question: Question,
        scope: Scope,
        act: AgentRunner,
        *,
        router: Router = route_to_all,
        instruct: InstructionWriter | None = None,
        agents: Mapping[str, Agent] | None = None,
    ) -> "TeamContext":
        """The context of a team's run; by default with its own agents, and all successors run."""
        found = team.agents_by_id if agents is None else agents
        return cls(question, scope, found, act, router, instruct, team.fingerprint)

    def agent(self, name: str) -> Agent:
        """An agent of the pool.

        Raises:
            ConfigError: the pool lacks it.
        """
        if name not in self.agents:
            raise ConfigError(f"the team needs agent {name!r}; this run has {', '.join(self.agents) or 'none'}")
        return self.agents[name]


CompiledTeam = CompiledStateGraph[TeamState, TeamContext, TeamState, TeamState]
"""A compiled team: `await team.ainvoke(team_input(), context=TeamContext(...))`, or `run_team`."""


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
    team = compile_team(topology)
    merged = merge_configs(config, make_trace_config(run.scope, {"workflow": run.workflow}))
    if config and "configurable" in config:  # the surrounding run's config wins over the first that is merged
        merged["configurable"] = {**merged["configurable"], **config["configurable"]}
    stops = {} if config else get_interrupts()
    while True:
        state: Mapping[str, Any] = {}
        async for values in team.astream(team_input(carried), merged, context=run, stream_mode="values", **stops):
            state = values
        done = to_trajectory(topology, run, state)
        if done.error is None or run.acted:
            return done  # otherwise the run ended without an answer before it was resumed: run again


def team_input(carried: Sequence[Message] = ()) -> TeamState:
    """The input of a round; carried messages come from `get_pending_messages` after the round before."""
    first: Any = None
    return {"_steps": first, "_carried": [message.model_dump() for message in carried]}


def to_trajectory(topology: Topology, run: TeamContext, state: Mapping[str, Any]) -> Trajectory:
    """The trajectory of a team's final state."""
    layout, done = make_layout(topology), state["_steps"]
    steps = [
        Step(**done[node], inbox=layout.inbox(node, done, state["_carried"])) for node in layout.order if node in done
    ]
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


def _why_no_answer(topology: Topology, steps: Sequence[Step]) -> str:
    failed = {step.node: step.error for step in steps if step.error}
    if topology.sink in failed:
        return f"{failed[topology.sink]}; so sink {topology.sink!r} failed"
    if not failed:
        return f"sink {topology.sink!r} received nothing: no node handed on to it"
    why = "; ".join(dict.fromkeys(failed.values()))  # the cause first
    return f"{why}; so {' and '.join(map(repr, failed))} failed, and sink {topology.sink!r} received nothing"


def get_pending_messages(topology: Topology, done: Trajectory, carried: Sequence[Message] = ()) -> tuple[Message, ...]:
    """Messages for the next round: those carried into this one and not read, oldest first, then the new ones."""
    forward = make_layout(topology).forward
    readers = {step.node for step in done.steps if step.error is None}
    unread = [message for message in carried if message.target in topology.agents and message.target not in readers]
    new = [m for step in done.steps for m in step.sent if m.target not in forward[m.source]]
    return (*unread, *new)


def make_team_node(
    team: CompiledTeam, step: Callable[[State, CompiledTeam], Coroutine[Any, Any, Any]]
) -> RunnableLambda[State, Any]:
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


def compile_team(topology: Topology) -> CompiledTeam:
    """Compile a topology, or take it from the cache.

    Raises:
        TopologyError: the topology has problems that `LENIENT` forbids; all are listed.
    """
    if problems := _list_problems(topology):
        raise TopologyError(f"the topology cannot run: {'; '.join(problems)}; repair it")
    return _compile(topology)


@lru_cache(maxsize=CACHED_TEAMS)
def _list_problems(topology: Topology) -> tuple[str, ...]:
    return tuple(str(problem) for problem in topology.problems(LENIENT))


@lru_cache(maxsize=CACHED_TEAMS)
def make_layout(topology: Topology) -> "Layout":
    """Make the layout of a topology, or take it from the cache."""
    return Layout(topology)


@lru_cache(maxsize=CACHED_TEAMS)
def _compile(topology: Topology) -> CompiledTeam:
    layout = make_layout(topology)
    graph = StateGraph[TeamState, TeamContext, TeamState, TeamState](TeamState)
    relays = _add_relays(graph, layout)
    for node, agent in topology.agents.items():
        labels = topology.successors[node]
        first = {target: relays.get((target, layout.depth[node] + 1), target) for target in labels}
        destinations = {first[target]: target for target in labels}
        if node == topology.sink and labels:
            destinations[END] = END  # else the drawing ends at some other node
        graph.add_node(
            node,
            _NodeTurn(layout, node, {target: first[target] for target in layout.forward[node]}),
            defer=node == layout.deferred,
            destinations=destinations,
            metadata={"selfwire_node": node, "selfwire_agent": agent},
        )
    graph.add_edge(START, topology.entry)
    graph.add_edge(topology.sink, END)
    team = graph.compile(name="team")
    for node, agent in topology.agents.items():
        team.nodes[node].tags = [f"agent:{agent}"]  # `add_node` takes metadata but no tags
    for node in (*topology.agents, *relays.values()):
        team.nodes[node].node = _QuietNode(team.nodes[node])
    return team.with_config(recursion_limit=len(topology.levels()) + 2)


def _add_relays(graph: StateGraph[TeamState, TeamContext], layout: "Layout") -> dict[tuple[str, int], str]:
    """Chains of relays for every node but the deferred one that an edge reaches across levels, by node and level."""
    relays: dict[tuple[str, int], str] = {}
    reached = find_reachable({n: tuple(ways) for n, ways in layout.forward.items()}, [layout.topology.entry])
    for node in sorted(reached - {layout.deferred}):
        above = [layout.depth[source] for source in layout.sources[node] if source in reached]
        highest, after = min(above, default=layout.depth[node]), node
        for level in range(layout.depth[node] - 1, highest, -1):
            relays[node, level] = relay = f"{node}@{level}"
            graph.add_node(relay, _BranchRelay())
            graph.add_edge(relay, after)
            after = relay
    return relays


class _QuietNode(Runnable[TeamState, Any]):
    """A node as LangGraph runs it, but without a traced run of its own where no callback would hear of it.

    LangGraph runs a node as a sequence of its turn and its writers; the same turn and writers run here, without two
    callback managers, a copy of the context and a task for each.
    """

    def __init__(self, node: Any) -> None:
        self.sequence, self.turn, self.writers = node.node, node.bound, node.flat_writers

    def invoke(self, input: TeamState, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return self.sequence.invoke(input, config, **kwargs)

    async def ainvoke(self, input: TeamState, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        if config is None or getattr(config["callbacks"], "handlers", True):
            return await self.sequence.ainvoke(input, config, **kwargs)
        around = var_child_runnable_config.set(config)
        try:
            done = await self.turn.ainvoke(input, config)
        finally:
            var_child_runnable_config.reset(around)
        for writer in self.writers:
            writer.invoke(done, config)
        return done


class _BranchRelay(Runnable[TeamState, Any]):
    def invoke(self, input: TeamState, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return {}

    async def ainvoke(self, input: TeamState, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return {}


class _NodeTurn(Runnable[TeamState, Any]):
    """A node's turn: read the inbox, act, choose successors, write to them.

    It is a Runnable for its two forms; a RunnableLambda would open a traced run inside the node's own.

    Args:
        goto: nodes of the graph by the successors that the node may trigger: a successor itself, or its first relay.
    """

    def __init__(self, layout: "Layout", node: str, goto: Mapping[str, str]) -> None:
        self.layout, self.node, self.goto = layout, node, goto

    def invoke(self, input: TeamState, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        return run_sync(self.ainvoke(input, config))

    async def ainvoke(self, input: TeamState, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        run = get_runtime(TeamContext).context
        if not isinstance(run, TeamContext):
            raise ConfigError("a team runs in a context; pass context=TeamContext(...) or call run_team")
        step = await self._act(run, input["_steps"], input["_carried"])
        goto = [self.goto[message["target"]] for message in step["sent"] if message["target"] in self.goto]
        return Command(update={"_steps": {self.node: step}}, goto=goto)

    async def _act(self, run: TeamContext, steps: StepsByNode, carried: Sequence[Mapping[str, str]]) -> dict[str, Any]:
        """The step as JSON; an agent whose model failed leaves an error and sends nothing.

        Raises:
            BudgetError, ConfigError, ...: every error but a ModelError.
        """
        topology = self.layout.topology
        agent, scope = run.agent(topology.agents[self.node]), run.scope.at(node=self.node)
        run.acted.append(self.node)
        inbox, usage = self.layout.inbox(self.node, steps, carried), ZERO_USAGE
        place = {"node": self.node, "agent": agent.id, "visit": scope.visit, "inbox": inbox}
        sent: list[dict[str, str]] = []
        try:
            acted = await run.act(agent, run.question, inbox, scope=scope)
            usage, routing = acted.usage, None
            if topology.successors[self.node]:
                routing = _get_level(run, self.layout, steps).choose(self.node, acted.output)
            step = acted.replace(**place, routing=routing, sent=())
            if routing:
                texts, cost = await self._write_messages(run, step, routing.chosen)
                step = step if cost is ZERO_USAGE else step.replace(usage=usage + cost)
                sent = [{"source": self.node, "target": target, "text": text} for target, text in texts.items()]
        except ModelError as error:
            step = Step(**place, usage=usage + get_error_cost(error), error=format_error(error))
        return {**step.model_dump(mode="json", exclude={"inbox"}, exclude_defaults=True), "sent": sent}

    async def _write_messages(
        self, run: TeamContext, step: Step, chosen: Sequence[str]
    ) -> tuple[dict[str, str], Usage]:
        """Texts by successor, and their cost; all are written before the first error is raised, with all costs."""
        topology, instruct = self.layout.topology, run.instruct
        texts = dict.fromkeys(chosen, step.output)
        instructed = [target for target in chosen if target != topology.sink]
        if instruct is None or not instructed:
            return texts, ZERO_USAGE
        readers = [run.agent(topology.agents[target]) for target in instructed]
        places = [run.scope.at(node=f"{self.node}>{target}") for target in instructed]
        written = await asyncio.gather(
            *(instruct(run.question, step, reader, place) for reader, place in zip(readers, places, strict=True)),
            return_exceptions=True,  # none is left in flight
        )
        finished = [result for result in written if not isinstance(result, BaseException)]
        spent = sum_usages(usage for _, usage in finished)
        if failed := [result for result in written if isinstance(result, BaseException)]:
            if isinstance(failed[0], ModelError):  # its cost is that of all messages
                costs = [get_error_cost(error) for error in failed if isinstance(error, ModelError)]
                failed[0].cost = sum_usages([spent, *costs])
            raise failed[0]
        texts.update(zip(instructed, (text for text, _ in finished), strict=True))
        return texts, spent


def _get_level(run: TeamContext, layout: "Layout", steps: StepsByNode) -> "_Level":
    """The level that follows `steps`; nodes that run in one superstep share one, and so its decisions."""
    if not run._level or run._level[0].steps is not steps:
        run._level[:] = [_Level(run, layout, steps)]
    return run._level[0]


class _Level:
    """The decisions of one level, which a node repeats for its earlier siblings (see `Router`)."""

    def __init__(self, run: TeamContext, layout: "Layout", steps: StepsByNode) -> None:
        self.run, self.layout, self.steps = run, layout, steps
        done = [steps[name] for name in layout.place if name in steps]
        chosen = (target for step in done if "routing" in step for target in step["routing"]["chosen"])
        self.selected = tuple(dict.fromkeys((layout.topology.entry, *chosen)))
        self.outputs = {step["node"]: step.get("output", "") for step in done if "error" not in step}
        self.decisions: dict[str, tuple[str, ...]] = {}

    def choose(self, node: str, output: str) -> Routing:
        """The router's choice at a node with successors, after those of its earlier siblings.

        Raises:
            ValueError: the router chose a node that is not a successor, or one twice.
        """
        selected = dict.fromkeys(self.selected)
        siblings = self.layout.topology.levels()[self.layout.depth[node]]
        for sibling in siblings[: siblings.index(node)]:
            if sibling in self.selected and self.layout.topology.successors[sibling]:
                if sibling not in self.decisions:
                    self.decisions[sibling] = self._route(sibling, "", tuple(selected)).chosen
                selected.update(dict.fromkeys(self.decisions[sibling]))
        return self._route(node, output, tuple(selected))

    def _route(self, node: str, output: str, selected: tuple[str, ...]) -> Routing:
        run, topology = self.run, self.layout.topology
        successors, scope = topology.successors[node], run.scope.at(node=node)
        known = RouterInput(run.question, scope, output, topology.sink, selected=selected, outputs=self.outputs)
        routing = run.router(node, successors, known)
        if len(set(routing.chosen)) != len(routing.chosen) or not set(routing.chosen) <= set(successors):
            raise ValueError(f"the router chose {routing.chosen} at {node!r}, whose successors are {successors}")
        return routing


@dataclass(frozen=True, eq=False)
class Layout:
    """A topology as a team runs it, one level after another."""

    topology: Topology

    @cached_property
    def depth(self) -> dict[str, int]:
        """Node id to its level."""
        return {node: depth for depth, level in enumerate(self.topology.levels()) for node in level}

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Nodes in the order of a trajectory's steps: by level, then by id."""
        return tuple(node for level in self.topology.levels() for node in sorted(level))

    @cached_property
    def deferred(self) -> str | None:
        """The sink, which runs when all others are done; None where it runs in its level, as nodes are odd."""
        return None if self.topology.problems() else self.topology.sink

    @cached_property
    def place(self) -> dict[str, int]:
        """Node id to its place in topological order, level by level."""
        return {node: place for place, node in enumerate(self.depth)}

    @cached_property
    def forward(self) -> dict[str, frozenset[str]]:
        """Node id to the successors that it triggers; the others read its message in the next round."""
        return {
            node: frozenset(s for s in successors if self.depth[s] > self.depth[node])
            for node, successors in self.topology.successors.items()
        }

    @cached_property
    def sources(self) -> dict[str, tuple[str, ...]]:
        """Node id to the predecessors that may trigger it, in topological order."""
        return {
            node: tuple(sorted((p for p in sources if node in self.forward[p]), key=self.place.__getitem__))
            for node, sources in self.topology.predecessors.items()
        }

    def inbox(self, node: str, steps: StepsByNode, carried: Iterable[Mapping[str, str]]) -> tuple[Message, ...]:
        """Messages for a node in topological order of their sources, then last round's (from further down)."""
        fresh = [m for source in self.sources[node] for m in steps.get(source, {}).get("sent", ())]
        late = [message for message in carried if message["target"] == node]
        late.sort(key=lambda message: self.place.get(message["source"], len(self.place)))
        return tuple(Message(**message) for message in (*fresh, *late) if message["target"] == node)
