"""What differs between two workflows, for people and reports."""

from pydantic import Field

from selfwire.core.agent import Agent
from selfwire.core.topology import Diff
from selfwire.core.values import FrozenJson, Value
from selfwire.core.workflow import Workflow


class Change(Value):
    """One field of one agent before and after, as JSON."""

    agent: str
    field: str
    before: FrozenJson
    after: FrozenJson


class Changes(Value):
    """What `after` has and `before` has not, and the other way round.

    Args:
        topology: nodes and edges that came and went.
        entry, sink: (before, after) where they differ; None where they do not.
        added_agents, removed_agents: ids.
        agents: changed fields of agents that both have: prompt, tools, memory, ...
        memory: names of the method's memory entries that differ, sorted.
        method: (before, after) where the two belong to different methods.
    """

    topology: Diff = Diff()
    entry: tuple[str, str] | None = None
    sink: tuple[str, str] | None = None
    added_agents: tuple[str, ...] = ()
    removed_agents: tuple[str, ...] = ()
    agents: tuple[Change, ...] = ()
    memory: tuple[str, ...] = Field(default=())
    method: tuple[str, str] | None = None

    def __bool__(self) -> bool:
        """Whether anything differs."""
        return any(getattr(self, name) for name in type(self).model_fields)


def changes(before: Workflow, after: Workflow) -> Changes:
    """Compare two workflows; their lineages do not count."""
    keys = before.memory.keys() | after.memory.keys()
    both = [agent for agent in before.agents if agent.id in after.pool]
    return Changes(
        topology=before.topology.diff(after.topology),
        entry=_moved(before.topology.entry, after.topology.entry),
        sink=_moved(before.topology.sink, after.topology.sink),
        added_agents=tuple(a.id for a in after.agents if a.id not in before.pool),
        removed_agents=tuple(a.id for a in before.agents if a.id not in after.pool),
        agents=tuple(change for agent in both for change in _agent_changes(agent, after.pool[agent.id])),
        memory=tuple(sorted(k for k in keys if before.memory.get(k) != after.memory.get(k))),
        method=_moved(before.method, after.method),
    )


def _agent_changes(before: Agent, after: Agent) -> list[Change]:
    return [
        Change(agent=before.id, field=name, before=getattr(before, name), after=getattr(after, name))
        for name in type(before).model_fields
        if getattr(before, name) != getattr(after, name)
    ]


def _moved(before: str, after: str) -> tuple[str, str] | None:
    return None if before == after else (before, after)
