"""The layout of a topology as a team: levels, forward edges, inboxes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from selfwire.core.topology import Topology
from selfwire.core.trajectory import Message

StepsByNode = Mapping[str, Mapping[str, Any]]
"""Steps as JSON by node, without inboxes, which follow from the sent messages."""


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
