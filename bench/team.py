"""The cost of a compiled team against a hand-written LangGraph of the same shape.

CPU time per agent step: all graphs run in one process, by turns, and ask the same model through the same wrapper. The
hand-written graph serves just this team and keeps no record: an async function per node, outputs in a dict, and after
each node a function that chooses among its successors, as in a compiled team. A second one has fixed edges.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count, pairwise
from operator import or_
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph

from bench.measuring import Row, measure_by_turns
from bench.models import CannedModel
from selfwire.core.agent import Agent
from selfwire.core.chat import ChatMessage
from selfwire.core.protocols import Model
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.topology import Topology, make_topology
from selfwire.graphs.team import TeamContext, route_to_all, run_team
from selfwire.nodes.agent import make_agent_runner

PROMPT = "You are agent {name} of a team. Do your part of the task and hand on what you found."
TASK = Question(id="bench", input="Which of the two towers is older, and by how many years?")


def measure_team(model: Model | None = None, *, sizes: Sequence[int] = (5, 20, 100), rounds: int = 15) -> list[Row]:
    """Measure overhead and parallelism; a model that costs nothing, the default, shows the overhead at its largest."""
    overheads = [measure_overhead(model or CannedModel(), size, rounds) for size in sizes]
    return [*(row for rows in overheads for row in rows), *measure_parallelism()]


def measure_overhead(model: Model, agents: int, rounds: int) -> list[Row]:
    """CPU time per agent step of a compiled team, and as a multiple of the hand-written graphs'."""
    topology = make_layered_topology(_layers(agents))
    run = _make_context(topology, model)
    choosing, fixed = (build_by_hand(topology, model, conditional=kind) for kind in (True, False))
    samples = count()  # each run is another sample, as a journal would replay an equal one
    times = measure_by_turns(
        lambda: run_team(topology, replace(run, scope=run.scope.at(sample=next(samples)))),
        lambda: choosing.ainvoke({"outputs": {}, "sample": next(samples)}),
        lambda: fixed.ainvoke({"outputs": {}, "sample": next(samples)}),
        rounds=rounds,
        repeat=max(1, 100 // agents),
    )
    ours, same, rigid = (taken.cpu for taken in times)
    return [
        Row(what=f"team, {agents} agents: CPU per step", value=1e6 * ours / agents, unit="µs"),
        Row(what=f"by hand, {agents} agents: CPU per step", value=1e6 * same / agents, unit="µs"),
        Row(what=f"by hand with fixed edges, {agents} agents: CPU per step", value=1e6 * rigid / agents, unit="µs"),
        Row(what=f"team / by hand, {agents} agents", value=ours / same, unit="x", bound=1.25),
        Row(what=f"team / by hand with fixed edges, {agents} agents", value=ours / rigid, unit="x"),
    ]


def measure_parallelism(delay: float = 0.1) -> list[Row]:
    """Wall time of a team of 32 agents in 4 levels against its critical path of four model calls."""
    topology = make_layered_topology((1, 15, 15, 1))
    run = _make_context(topology, CannedModel(delay))
    (taken,) = measure_by_turns(lambda: run_team(topology, run), rounds=1)
    ratio = taken.wall / (4 * delay)
    return [Row(what="32 agents in 4 levels: wall time / critical path", value=ratio, unit="x", bound=1.10)]


def make_layered_topology(layers: Sequence[int]) -> Topology:
    """Layers of agents; each leads to two of the next layer."""
    names = [[f"n{depth}-{i}" for i in range(width)] for depth, width in enumerate(layers)]
    edges = {
        (source, after[(i + step) % len(after)])
        for before, after in pairwise(names)
        for i, source in enumerate(before if len(before) > 1 else before * len(after))
        for step in (0, 1)
    }
    return make_topology(((name, name) for layer in names for name in layer), edges, names[0][0], names[-1][0])


class HandBuiltState(TypedDict):
    """State of the hand-written graph."""

    outputs: Annotated[dict[str, str], or_]
    sample: int


def build_by_hand(topology: Topology, model: Model, *, conditional: bool) -> Any:
    """Build the graph of a topology by hand, with LangGraph alone."""
    graph = StateGraph(HandBuiltState)
    for name in topology.agents:
        graph.add_node(name, _node_by_hand(name, topology.predecessors[name], model))
    graph.add_edge(START, topology.entry)
    graph.add_edge(topology.sink, END)
    for name, successors in topology.successors.items():
        if conditional and successors:
            graph.add_conditional_edges(name, lambda _, every=successors: list(every), list(successors))
        for successor in () if conditional else successors:
            graph.add_edge(name, successor)
    return graph.compile()


def _node_by_hand(name: str, sources: Sequence[str], model: Model) -> Any:
    scope = Scope(run="bench", task=TASK.id)

    async def node(state: HandBuiltState) -> dict[str, Any]:
        inbox = "".join(f"\n\nFrom {source}:\n{state['outputs'][source]}" for source in sources)
        messages = [ChatMessage.system(PROMPT.format(name=name)), ChatMessage.user(f"Task:\n{TASK.input}{inbox}")]
        reply = await model.generate(messages, scope=scope.at(node=name, sample=state["sample"]))
        return {"outputs": {name: reply.content}}

    return node


def _layers(agents: int) -> tuple[int, ...]:
    width = {5: 3, 20: 6, 100: 14}.get(agents, max(1, (agents - 2) // 3))
    full, rest = divmod(agents - 2, width)
    return (1, *([width] * full), *([rest] if rest else []), 1)


def _make_context(topology: Topology, model: Model) -> TeamContext:
    return TeamContext(
        question=TASK,
        scope=Scope(run="bench", task=TASK.id),
        agents={name: Agent(id=name, prompt=PROMPT.format(name=name)) for name in topology.agents},
        act=make_agent_runner(model, {}),
        router=route_to_all,
    )
