"""Differences between two workflows, for people and reports."""

from collections.abc import Iterator
from typing import Any

from selfwire.core.topology import TopologyDiff
from selfwire.core.values import FrozenJson, FrozenModel
from selfwire.core.workflow import Workflow


class Change(FrozenModel):
    """One field of one agent before and after, as JSON."""

    agent: str
    field: str
    before: FrozenJson
    after: FrozenJson


class ToolChange(FrozenModel):
    """One field of one of the workflow's own tools before and after, as JSON."""

    tool: str
    field: str
    before: FrozenJson
    after: FrozenJson


class WorkflowDiff(FrozenModel):
    """Differences between a workflow `before` and one `after`.

    Args:
        topology: added and removed nodes and edges.
        entry, sink: (before, after) where they differ; None where they do not.
        agents: changed fields of agents that both have, such as prompt, tools, memory.
        added_tools, removed_tools: names of the workflow's own tools.
        tools: changed fields of own tools that both have, without their records.
        memory: names of the method's memory entries that differ, sorted.
        method: (before, after) where the two belong to different methods.
    """

    topology: TopologyDiff = TopologyDiff()
    entry: tuple[str, str] | None = None
    sink: tuple[str, str] | None = None
    added_agents: tuple[str, ...] = ()
    removed_agents: tuple[str, ...] = ()
    agents: tuple[Change, ...] = ()
    added_tools: tuple[str, ...] = ()
    removed_tools: tuple[str, ...] = ()
    tools: tuple[ToolChange, ...] = ()
    memory: tuple[str, ...] = ()
    method: tuple[str, str] | None = None

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in type(self).model_fields)


def diff_workflows(before: Workflow, after: Workflow) -> WorkflowDiff:
    """Compare two workflows, without their lineages."""
    keys = before.memory.keys() | after.memory.keys()
    both = [(one, after.agents_by_id[one.id]) for one in before.agents if one.id in after.agents_by_id]
    kept = [(one, after.tools_by_name[one.name]) for one in before.tools if one.name in after.tools_by_name]
    return WorkflowDiff(
        topology=before.topology.diff(after.topology),
        entry=_diff(before.topology.entry, after.topology.entry),
        sink=_diff(before.topology.sink, after.topology.sink),
        added_agents=tuple(a.id for a in after.agents if a.id not in before.agents_by_id),
        removed_agents=tuple(a.id for a in before.agents if a.id not in after.agents_by_id),
        agents=tuple(Change(agent=old.id, **change) for old, new in both for change in _diff_fields(old, new)),
        added_tools=tuple(one.name for one in after.tools if one.name not in before.tools_by_name),
        removed_tools=tuple(one.name for one in before.tools if one.name not in after.tools_by_name),
        tools=tuple(
            ToolChange(tool=old.name, **change) for old, new in kept for change in _diff_fields(old, new, "record")
        ),
        memory=tuple(sorted(k for k in keys if before.memory.get(k) != after.memory.get(k))),
        method=_diff(before.method, after.method),
    )


def _diff_fields(before: FrozenModel, after: FrozenModel, *hidden: str) -> Iterator[dict[str, Any]]:
    old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
    for name in old:
        if name not in hidden and old[name] != new[name]:
            yield {"field": name, "before": old[name], "after": new[name]}


def _diff(before: str, after: str) -> tuple[str, str] | None:
    return None if before == after else (before, after)
