"""Differences between two workflows, for people and reports."""

from selfwire.core.agent import Agent
from selfwire.core.topology import TopologyDiff
from selfwire.core.values import FrozenJson, FrozenModel
from selfwire.core.workflow import Workflow


class Change(FrozenModel):
    """One field of one agent before and after, as JSON."""

    agent: str
    field: str
    before: FrozenJson
    after: FrozenJson


class WorkflowDiff(FrozenModel):
    """Differences between a workflow `before` and one `after`.

    Args:
        topology: added and removed nodes and edges.
        entry, sink: (before, after) where they differ; None where they do not.
        agents: changed fields of agents that both have, such as prompt, tools, memory.
        memory: names of the method's memory entries that differ, sorted.
        method: (before, after) where the two belong to different methods.
    """

    topology: TopologyDiff = TopologyDiff()
    entry: tuple[str, str] | None = None
    sink: tuple[str, str] | None = None
    added_agents: tuple[str, ...] = ()
    removed_agents: tuple[str, ...] = ()
    agents: tuple[Change, ...] = ()
    memory: tuple[str, ...] = ()
    method: tuple[str, str] | None = None

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in type(self).model_fields)


def diff_workflows(before: Workflow, after: Workflow) -> WorkflowDiff:
    """Compare two workflows, without their lineages."""
    keys = before.memory.keys() | after.memory.keys()
    both = [agent for agent in before.agents if agent.id in after.agents_by_id]
    return WorkflowDiff(
        topology=before.topology.diff(after.topology),
        entry=_diff(before.topology.entry, after.topology.entry),
        sink=_diff(before.topology.sink, after.topology.sink),
        added_agents=tuple(a.id for a in after.agents if a.id not in before.agents_by_id),
        removed_agents=tuple(a.id for a in before.agents if a.id not in after.agents_by_id),
        agents=tuple(change for agent in both for change in _diff_agents(agent, after.agents_by_id[agent.id])),
        memory=tuple(sorted(k for k in keys if before.memory.get(k) != after.memory.get(k))),
        method=_diff(before.method, after.method),
    )


def _diff_agents(before: Agent, after: Agent) -> list[Change]:
    return [
        Change(agent=before.id, field=name, before=getattr(before, name), after=getattr(after, name))
        for name in type(before).model_fields
        if getattr(before, name) != getattr(after, name)
    ]


def _diff(before: str, after: str) -> tuple[str, str] | None:
    return None if before == after else (before, after)
