"""A round's graph as the config says, and the record of a round."""

from collections.abc import Sequence

from pydantic import Field

from selfwire.core.protocols import Embedder
from selfwire.core.scope import Scope
from selfwire.core.topology import Topology, TopologyLimits, make_topology
from selfwire.core.trajectory import Message
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.values import FrozenModel, Id
from selfwire.evolvers.dytopo.config import DytopoConfig
from selfwire.evolvers.dytopo.delivery import DroppedEntry
from selfwire.evolvers.dytopo.domain import Domain
from selfwire.evolvers.dytopo.induction import (
    RoundGraph,
    draw_random_edges,
    induce_graph,
    make_round_graph,
    similarities,
)
from selfwire.evolvers.dytopo.tuning import Setting
from selfwire.evolvers.dytopo.turns import ManagerTurn, WorkerTurn


class DytopoRound(FrozenModel):
    """Record of a round.

    Args:
        number: t, from 0.
        said: turns of all workers, in agent order.
        graph: G of the round: edges with scores, sigma, density, best rejected pair.
    """

    number: int = Field(ge=0)
    goal: str
    said: tuple[WorkerTurn, ...]
    graph: RoundGraph = RoundGraph()
    messages: tuple[Message, ...] = ()
    dropped: tuple[DroppedEntry, ...] = ()
    managed: ManagerTurn | None = None

    @property
    def failed(self) -> dict[Id, str]:
        """Why workers failed, by worker."""
        return {turn.worker: turn.error for turn in self.said if turn.error is not None}

    @property
    def usage(self) -> Usage:
        """Cost of the round, the manager included."""
        workers = sum_usages(turn.usage for turn in self.said)
        return workers + self.managed.usage if self.managed else workers

    @property
    def seconds(self) -> float:
        """Least duration of the round: its slowest worker, then the manager."""
        slowest = max((turn.usage.seconds for turn in self.said), default=0.0)
        return slowest + (self.managed.usage.seconds if self.managed else 0.0)

    @property
    def in_order(self) -> tuple[WorkerTurn, ...]:
        """The turns in order sigma."""
        place = {agent: at for at, agent in enumerate(self.graph.order)}
        return tuple(sorted(self.said, key=lambda turn: place.get(turn.worker, len(place))))

    def to_topology(self, domain: Domain) -> Topology:
        """The graph of the round as a topology; the first answerer is entry and sink."""
        answerer, agents = domain.answerers[0], self.graph.order
        caps = TopologyLimits(nodes=len(agents), successors=len(agents))
        edges = ((edge.source, edge.target) for edge in self.graph.edges)
        return make_topology(zip(agents, agents, strict=True), edges, answerer, answerer, caps)

    def to_mermaid(self) -> str:
        """The graph of the round as Mermaid."""
        lines = [f"    {agent}" for agent in self.graph.order]
        for edge in self.graph.edges:
            label = "" if edge.score is None else f"|{edge.score:.2f}|"
            lines.append(f"    {edge.source} -->{label} {edge.target}")
        return "\n".join(["graph LR", *lines])


async def induce_round_graph(
    turns: Sequence[WorkerTurn], config: DytopoConfig, setting: Setting, embedder: Embedder, *, scope: Scope
) -> RoundGraph:
    """The graph of a round: induced, or a baseline's; the scope keys the random one."""
    agents = [turn.worker for turn in turns]
    able = [at for at, turn in enumerate(turns) if turn.spoke]
    if config.topology == "none":
        return make_round_graph(agents, [])
    if config.topology == "ring":
        return make_round_graph(agents, [(able[at - 1], worker) for at, worker in enumerate(able) if len(able) > 1])
    if config.topology == "broadcast":
        return make_round_graph(agents, [(source, target) for target in able for source in able if source != target])
    named = {turn.worker: turn.descriptors for turn in turns if turn.error is None}
    scores = await similarities(agents, named, embedder)
    graph = induce_graph(agents, scores, threshold=setting.threshold, providers=setting.providers)
    if config.topology == "semantic":
        return graph
    edges = draw_random_edges(able, len(graph.edges), setting.providers, scope.random("topology"))
    return make_round_graph(agents, edges)
