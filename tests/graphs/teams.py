"""Scripted teams: topologies from text, agents that answer without a model."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from selfwire.core.agent import Agent
from selfwire.core.errors import ModelError
from selfwire.core.protocols import AgentRunner, Router
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.topology import Edge, Node, Topology
from selfwire.core.trajectory import Message, Step
from selfwire.core.usage import Usage
from selfwire.graphs.team import TeamContext, route_to_all

QUESTION = Question(id="q1", input="What is asked?")


def topology(edges: str, entry: str = "s", sink: str = "z") -> Topology:
    """`topology("s>a a>z")`: nodes named in edges, with the agent of the same name."""
    pairs = [tuple(edge.split(">")) for edge in edges.split()]
    nodes = {entry, sink, *(node for pair in pairs for node in pair)}
    return Topology(
        nodes=tuple(Node(id=node, agent=node) for node in nodes),
        edges=tuple(Edge(source=source, target=target) for source, target in pairs),
        entry=entry,
        sink=sink,
    )


class Echo:
    """Answers with its name around what it read; counts how many agents act at once.

    Args:
        delays: seconds that an agent takes, by id.
        failing: agents whose model fails.
        meeting: agents that answer only when all of them act at once.
    """

    def __init__(
        self, delays: Mapping[str, float] | None = None, failing: Sequence[str] = (), meeting: Sequence[str] = ()
    ) -> None:
        self.delays, self.failing, self.meeting = delays or {}, failing, meeting
        self.met = asyncio.Event()
        self.acting = self.peak = 0
        self.order: list[str] = []

    async def __call__(self, agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
        self.order.append(agent.id)
        self.acting += 1
        self.peak = max(self.peak, self.acting)
        await asyncio.sleep(self.delays.get(agent.id, 0))
        if agent.id in self.meeting:
            await self._meet()
        self.acting -= 1
        if agent.id in self.failing:
            raise ModelError("provider is down")
        text = f"{agent.id}({' '.join(message.text for message in inbox)})"
        return Step(node=scope.node, agent=agent.id, output=text, usage=Usage(calls=1))

    async def _meet(self) -> None:
        if self.acting == len(self.meeting):
            self.met.set()
        async with asyncio.timeout(20):
            await self.met.wait()


def team_run(
    topology: Topology, act: AgentRunner | None = None, router: Router = route_to_all, **fields: Any
) -> TeamContext:
    """A run of a topology whose nodes carry their agents' names."""
    agents = {name: Agent(id=name, prompt=f"You are {name}.") for name in topology.agents.values()}
    settings = {"question": QUESTION, "scope": Scope(task="q1"), "agents": agents, **fields}
    return TeamContext(act=act or Echo(), router=router, **settings)
