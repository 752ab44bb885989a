"""The edits with which every method changes structure and prompts (HiVA's and TacoMAS's circled plus).

An edit is one change; a `Rewiring` is a group of edits with a reason, which `Workflow.apply` applies all or not at all.
Edits take their fields by position: `AddEdge("plan", "answer")`.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar, cast, dataclass_transform

from pydantic import ConfigDict, Field, field_validator
from pydantic.dataclasses import dataclass

from selfwire.core.agent import Agent
from selfwire.core.values import FrozenModel, Id, format_count
from selfwire.core.workflow_tool import ToolExample, WorkflowTool

_Class = TypeVar("_Class")


@dataclass_transform(frozen_default=True, field_specifiers=(Field,))
def _edit(cls: type[_Class]) -> type[_Class]:
    return cast("type[_Class]", dataclass(frozen=True, config=ConfigDict(extra="forbid"))(cls))


@_edit
class AddAgent:
    """Add an agent that no node uses yet."""

    agent: Agent
    kind: Literal["add_agent"] = Field(default="add_agent", kw_only=True)


@_edit
class RemoveAgent:
    """Remove an agent that no node uses."""

    agent: Id
    kind: Literal["remove_agent"] = Field(default="remove_agent", kw_only=True)


@_edit
class ReplaceAgent:
    """Put another agent in place of one; its nodes keep their ids and edges."""

    agent: Id
    replacement: Agent
    kind: Literal["replace_agent"] = Field(default="replace_agent", kw_only=True)


@_edit
class AddNode:
    """Add a node for an existing agent."""

    node: Id
    agent: Id
    kind: Literal["add_node"] = Field(default="add_node", kw_only=True)


@_edit
class RemoveNode:
    """Remove a node with its edges; not the entry or the sink."""

    node: Id
    kind: Literal["remove_node"] = Field(default="remove_node", kw_only=True)


@_edit
class AddEdge:
    """Add an edge between two nodes."""

    source: Id
    target: Id
    kind: Literal["add_edge"] = Field(default="add_edge", kw_only=True)


@_edit
class RemoveEdge:
    """Remove an edge."""

    source: Id
    target: Id
    kind: Literal["remove_edge"] = Field(default="remove_edge", kw_only=True)


@_edit
class RewritePrompt:
    """Give an agent another prompt."""

    agent: Id
    prompt: str
    kind: Literal["rewrite_prompt"] = Field(default="rewrite_prompt", kw_only=True)


@_edit
class AddTool:
    """Add a tool to the workflow, which no agent holds yet."""

    tool: WorkflowTool
    kind: Literal["add_tool"] = Field(default="add_tool", kw_only=True)


@_edit
class RewriteTool:
    """Give a tool of the workflow another source, and where given another description and other examples.

    Its version goes up by one and its record starts afresh; who made it and why are those of the rewiring. With other
    examples only it stays the same version.
    """

    tool: Id
    source: str
    description: str | None = None
    examples: tuple[ToolExample, ...] | None = None
    kind: Literal["rewrite_tool"] = Field(default="rewrite_tool", kw_only=True)


@_edit
class RemoveTool:
    """Remove a tool of the workflow that no agent holds."""

    tool: Id
    kind: Literal["remove_tool"] = Field(default="remove_tool", kw_only=True)


@_edit
class Grant:
    """Let an agent call a tool: one of the workflow, or one that the run lends."""

    agent: Id
    tool: Id
    kind: Literal["grant"] = Field(default="grant", kw_only=True)


@_edit
class Revoke:
    """Take a tool from an agent."""

    agent: Id
    tool: Id
    kind: Literal["revoke"] = Field(default="revoke", kw_only=True)


@_edit
class Remember:
    """Append a note to an agent's memory; the oldest note goes when the memory is full."""

    agent: Id
    note: str
    kind: Literal["remember"] = Field(default="remember", kw_only=True)


Edit = Annotated[
    AddAgent
    | RemoveAgent
    | ReplaceAgent
    | AddNode
    | RemoveNode
    | AddEdge
    | RemoveEdge
    | RewritePrompt
    | AddTool
    | RewriteTool
    | RemoveTool
    | Grant
    | Revoke
    | Remember,
    Field(discriminator="kind"),
]
"""One change to a workflow."""


class Rewiring(FrozenModel):
    """A group of edits with its reason, applied all or not at all: `Rewiring(edit, ..., why="...")`.

    Args:
        why: the reason, shown in histories and diffs.
        operation: the method's name for the group, such as ADD_SERIAL.
        by: the agent, node or step that proposed it.
    """

    edits: tuple[Edit, ...] = Field(min_length=1)
    why: str
    operation: str = ""
    by: str = ""

    def __init__(self, *edits: Edit, **fields: Any) -> None:
        super().__init__(**({"edits": edits} if edits else {}), **fields)

    @field_validator("edits", mode="before")
    @classmethod
    def _read_old_edits(cls, edits: Any) -> Any:
        return [one for edit in edits for one in _read_edit(edit)] if isinstance(edits, list | tuple) else edits


def _read_edit(edit: Any) -> Iterator[Any]:
    """An edit as it was saved; until 0.1.0, `rewrite_tool` swapped one of an agent's tools for another."""
    if isinstance(edit, Mapping) and edit.get("kind") == "rewrite_tool" and "agent" in edit:
        for kind, tool in (("revoke", edit.get("old")), ("grant", edit.get("new"))):
            if tool is not None:
                yield {"kind": kind, "agent": edit["agent"], "tool": tool}
    else:
        yield edit


class RefusedRewiring(FrozenModel):
    """A rewiring that was not applied, and why."""

    rewiring: Rewiring
    reason: str


def format_edit(edit: Edit) -> str:
    """An edit as short text, such as `AddEdge(plan, answer)`."""
    fields = {name: value for name, value in vars(edit).items() if name != "kind" and not name.startswith("__")}
    values = [value for value in fields.values() if value is not None]
    return f"{type(edit).__name__}({', '.join(_short(value) for value in values)})"


def _short(value: object) -> str:
    if isinstance(value, Agent | WorkflowTool):
        return value.id if isinstance(value, Agent) else value.name
    if isinstance(value, tuple):
        return format_count(len(value), "example")
    text = " ".join(str(value).split())
    return text if len(text) <= 40 else f"{text[:37]}..."


def format_rewiring(rewiring: Rewiring) -> str:
    """A rewiring in one line: operation, who asked, edits and reason."""
    operation = f"{rewiring.operation} " if rewiring.operation else ""
    by = f" by {rewiring.by}" if rewiring.by else ""
    return f"{operation}{', '.join(map(format_edit, rewiring.edits))}{by}: {rewiring.why}"
